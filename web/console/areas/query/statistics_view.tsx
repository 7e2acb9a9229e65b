/** The figures of a run: a line for every run, and a panel with times, parts of the charge and pages. */

import type { JSX } from "preact";
import { Button, CopyButton } from "../../ui/button.tsx";
import { saveFile } from "../../ui/clipboard.ts";
import { bytes, count, duration, percent, plural, ru, ruNumber } from "../../ui/format.ts";
import { TIMES } from "./answers.ts";
import type { Plan } from "./plan.ts";
import { type PageFacts, type RunState, type RunTotals, totalsOf } from "./run.ts";

/** Draws the line of the most asked figures. */
export function StatisticsLine({ run, plan }: { readonly run: RunState; readonly plan: Plan | null }): JSX.Element {
  const totals = totalsOf(run.pages);
  return (
    <p class="query-line" aria-live="polite">
      <strong class="query-ru" data-ru={totals.ru}>
        {ru(totals.ru)}
      </strong>
      <span>{duration(totals.serverMs)} on the server</span>
      <span>{duration(totals.ms)} round trip</span>
      <span>{plural(totals.rows, "row")}</span>
      {plan && (
        <span>
          {plan.asked} of {plural(plan.all, "partition")}
        </span>
      )}
      <span>index {percent(totals.metrics.indexHitRatio)}</span>
    </p>
  );
}

/** Draws the panel. */
export function StatisticsView({ run }: { readonly run: RunState }): JSX.Element {
  const totals = totalsOf(run.pages);
  return (
    <div class="query-statistics">
      <Figures run={run} totals={totals} />
      <Parts totals={totals} />
      <Pages pages={run.pages} />
      <PartitionsDownload run={run} />
    </div>
  );
}

function Figures({ run, totals }: { readonly run: RunState; readonly totals: RunTotals }): JSX.Element {
  const { metrics } = totals;
  const rows: [string, string][] = [
    ["Request charge", ru(totals.ru)],
    ["Time on the server", duration(totals.serverMs)],
    ["Round trips", `${count(run.pages.length)}, ${duration(totals.ms)}`],
    ["Rows", count(totals.rows)],
    ["Documents retrieved", `${count(metrics.retrievedCount)}, ${bytes(metrics.retrievedBytes)}`],
    ["Documents output", `${count(metrics.outputCount)}, ${bytes(metrics.outputBytes)}`],
    ["Index hit ratio", percent(metrics.indexHitRatio)],
    ["Query time", `${duration(metrics.totalMs)}, in whole milliseconds`],
  ];
  for (const [name, label] of TIMES) {
    const time = metrics.times.get(name) ?? 0;
    // The server reports zero for times that it does not measure.
    rows.push([label, time > 0 ? duration(time) : "below 1 ms, or not measured"]);
  }
  return (
    <section class="card">
      <h3>Figures</h3>
      <dl class="query-figures">
        {rows.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Parts({ totals }: { readonly totals: RunTotals }): JSX.Element {
  const most = totals.parts[0]?.ru ?? 1;
  return (
    <section class="card">
      <h3>Parts of the charge</h3>
      <table class="query-parts">
        <thead>
          <tr>
            <th scope="col">Work</th>
            <th scope="col" class="number">Count</th>
            <th scope="col" class="number">RU</th>
            <th scope="col">
              <span class="visually-hidden">Share</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {totals.parts.map((part) => (
            <tr key={part.what}>
              <th scope="row">{part.what}</th>
              <td class="number">{count(part.count)}</td>
              <td class="number">{ruNumber(part.ru)}</td>
              <td>
                <span class="query-bar-track">
                  <span
                    class="query-bar-fill ru"
                    style={{ width: `${Math.max(0, Math.round((part.ru / most) * 100))}%` }}
                  />
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Pages({ pages }: { readonly pages: readonly PageFacts[] }): JSX.Element {
  const shown = pages.slice(-200);
  return (
    <section class="card query-pages">
      <h3>Requests</h3>
      {shown.length < pages.length && <p class="soft">The last 200 of {count(pages.length)}.</p>}
      <div class="query-scroll" tabIndex={0} role="region" aria-label="Requests">
        <table>
          <thead>
            <tr>
              <th scope="col" class="number">Page</th>
              <th scope="col" class="number">RU</th>
              <th scope="col" class="number">Rows</th>
              <th scope="col" class="number">Server</th>
              <th scope="col" class="number">Round trip</th>
              <th scope="col" class="number">Size</th>
              <th scope="col">Activity id</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((page) => (
              <tr key={page.number}>
                <th scope="row" class="number">{page.number}</th>
                <td class="number">{ruNumber(page.ru)}</td>
                <td class="number">{count(page.rows)}</td>
                <td class="number">{page.serverMs === null ? "" : duration(page.serverMs)}</td>
                <td class="number">{duration(page.ms)}</td>
                <td class="number">{bytes(page.bytes)}</td>
                <td class="mono">
                  {page.activityId}
                  {page.activityId && <CopyButton text={page.activityId} label="Copy the activity id" />}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** Downloads the work at each physical partition for each page, as CSV. */
function PartitionsDownload({ run }: { readonly run: RunState }): JSX.Element {
  const download = (): void => {
    const lines = ["page,partition,access,candidates,loaded,loadedBytes,ru"];
    for (const page of run.pages) {
      for (const { range, access, work, ru: charge } of page.explanation?.partitions ?? []) {
        const entries = (work["scannedValues"] ?? 0) + (work["walkedEntries"] ?? 0);
        const loaded = work["loadedItems"] ?? 0;
        const quoted = `"${access.replaceAll('"', '""')}"`;
        const figures = [Math.max(entries, loaded), loaded, work["loadedBytes"] ?? 0, charge];
        lines.push([page.number, range, quoted, ...figures].join(","));
      }
    }
    saveFile("partitions.csv", `${lines.join("\r\n")}\r\n`, "text/csv");
  };
  return (
    <Button icon="download" onClick={download}>
      Download the metrics of partitions as CSV
    </Button>
  );
}
