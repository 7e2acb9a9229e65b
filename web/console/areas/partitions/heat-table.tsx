/** The heat map as a table: the parts of the hash space with the most load in the shown time. */

import type { JSX } from "preact";
import { percent } from "../../ui/format.ts";
import { Empty } from "../../ui/states.tsx";
import type { Metric, TopKey } from "./api.ts";
import { intervalText } from "./axis.ts";
import { partOf, type Hashing, type Span } from "./epk.ts";
import type { Bracket } from "./heat-map.tsx";
import { PARTS, partsOf, scansOf, sumOf, type HeatColumn, type TimeRange } from "./heat.ts";
import { keyText } from "./keys.ts";
import { amount } from "./metrics.ts";

export interface BusyPartsProps {
  readonly columns: readonly HeatColumn[];
  readonly time: TimeRange;
  readonly span: Span;
  readonly metric: Metric;
  readonly hashing: Hashing;
  readonly brackets: readonly Bracket[];
  readonly keys: readonly TopKey[];
}

const SHOWN = 32;

interface Row {
  readonly part: number;
  readonly sum: number;
  readonly partition: string;
  readonly keys: string;
}

/** Draws the table. */
export function BusyParts(props: BusyPartsProps): JSX.Element {
  const rows = rowsOf(props);
  const total = sumOf(props.columns, props.time, props.span);
  const scans = scansOf(props.columns, props.time);
  if (rows.length === 0 && scans === 0) {
    return (
      <Empty title="No load in this time" icon="live">
        Requests appear here within a few seconds.
      </Empty>
    );
  }
  return (
    <div class="parts-table-wrap" tabIndex={0} role="region" aria-label="Busiest parts of the hash space">
      <table class="parts-table">
        <caption>
          {intervalText(props.time)}: {amount(total, props.metric)} for single keys,{" "}
          {amount(scans, props.metric)} for several keys. At most {SHOWN} parts are listed.
        </caption>
        <thead>
          <tr>
            <th scope="col">Part</th>
            <th scope="col">Partition</th>
            <th scope="col" class="number">
              Load
            </th>
            <th scope="col" class="number">
              Share
            </th>
            <th scope="col">Hottest keys</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, SHOWN).map((row) => (
            <tr key={row.part}>
              <th scope="row" data-label="Part">
                {row.part} of {PARTS}
              </th>
              <td data-label="Partition">{row.partition}</td>
              <td data-label="Load" class="number">
                {amount(row.sum, props.metric)}
              </td>
              <td data-label="Share" class="number">
                {percent(row.sum / Math.max(1e-9, total))}
              </td>
              <td data-label="Hottest keys" class="mono">
                {row.keys}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function rowsOf(props: BusyPartsProps): Row[] {
  const { firstPart, parts } = partsOf(props.span);
  const rows: Row[] = [];
  for (let part = firstPart; part < firstPart + parts; part += 1) {
    const span = { start: part / PARTS, end: (part + 1) / PARTS };
    const sum = sumOf(props.columns, props.time, span);
    if (sum <= 0) continue;
    const middle = (span.start + span.end) / 2;
    const bracket = props.brackets.find((found) => found.span.start <= middle && middle < found.span.end);
    const keys = props.keys.filter((key) => partOf(key.epk, props.hashing, PARTS) === part);
    const names = keys.map((key) => (key.key === undefined ? "(no items)" : keyText(key.key)));
    rows.push({ part, sum, partition: bracket?.id ?? "", keys: names.join(", ") });
  }
  return rows.sort((a, b) => b.sum - a.sum);
}
