/** The plan of a query as a picture: a row for each physical partition, with bars for candidates,
 * loaded items, matches and request units, and the reasons of the charge in words.
 *
 * Promises: everything that is drawn is also in a table; partitions that the query did not ask are
 * drawn as such; a query of one partition is a dot in the hash space. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { count, plural, ru, ruNumber } from "../../ui/format.ts";
import { Badge } from "../../ui/states.tsx";
import { Button } from "../../ui/button.tsx";
import { accessWords, type Plan, type PlanRow, shortRange } from "./plan.ts";
import { type Advice, adviceText } from "../../advice/advice.ts";

/** Rows drawn before a person asks for all. */
const ROWS_SHOWN = 12;

export interface PlanViewProps {
  readonly plan: Plan;
  readonly reasons: readonly Advice[];
}

/** Draws the plan. */
export function PlanView({ plan, reasons }: PlanViewProps): JSX.Element {
  const [isTable, setTable] = useState(false);
  return (
    <section class="query-plan card" aria-label="Plan">
      <div class="query-plan-head">
        <h2>Plan</h2>
        <span class="soft">
          {plan.asked} of {plural(plan.all, "physical partition")} asked
        </span>
        <Button kind="quiet" pressed={isTable} onClick={() => setTable(!isTable)}>
          {isTable ? "As a picture" : "As a table"}
        </Button>
      </div>
      <Why plan={plan} reasons={reasons} />
      {isTable ? <PlanTable plan={plan} /> : <PlanPicture plan={plan} />}
      <Condition plan={plan} />
    </section>
  );
}

function Why({ plan, reasons }: PlanViewProps): JSX.Element {
  // Asking several partitions is the price of a query without its partition key, not a mistake.
  const isExpensive = reasons.some(({ rule }) => rule !== "fan-out");
  return (
    <div class={reasons.length === 0 ? "query-why good" : "query-why"}>
      <h3>{isExpensive ? "Why is this query expensive?" : "The cost of this query"}</h3>
      <ul>
        {reasons.map((reason) => (
          <li key={reason.rule}>
            {adviceText({ ...reason, out: "" })} <span class="soft">{reason.out}</span>
          </li>
        ))}
        {reasons.length === 0 && <li>{cheapText(plan)}</li>}
      </ul>
    </div>
  );
}

function cheapText({ asked, returned, rows }: Plan): string {
  if (asked === 0) return "No physical partition was asked: no item can match the condition.";
  let loaded = 0;
  for (const row of rows) loaded += row.loaded;
  return `Little to improve: ${plural(asked, "physical partition")} asked, ${plural(loaded, "item")} loaded for ${plural(returned, "row")}.`;
}

function PlanPicture({ plan }: { readonly plan: Plan }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  // A wide container shows the asked partitions first, so that the picture says something.
  const ordered = isWhole || plan.rows.length <= ROWS_SHOWN ? plan.rows : askedFirst(plan.rows);
  const shown = isWhole ? ordered : ordered.slice(0, ROWS_SHOWN);
  const most = largest(plan.rows);
  return (
    <>
      {plan.asked === 1 && <Dot plan={plan} />}
      <ol class="query-partitions" aria-label="Physical partitions">
        {shown.map((row) => (
          <PartitionRow key={row.id} row={row} most={most} />
        ))}
      </ol>
      {plan.rows.length > shown.length && (
        <Button kind="quiet" onClick={() => setWhole(true)}>
          Show all {count(plan.rows.length)} partitions
        </Button>
      )}
    </>
  );
}

function askedFirst(rows: readonly PlanRow[]): PlanRow[] {
  return [...rows.filter((row) => row.isAsked), ...rows.filter((row) => !row.isAsked)];
}

interface Most {
  readonly items: number;
  readonly ru: number;
}

function largest(rows: readonly PlanRow[]): Most {
  let items = 1;
  let charge = 0.01;
  for (const row of rows) {
    items = Math.max(items, row.candidates, row.loaded, row.returned ?? 0);
    charge = Math.max(charge, row.ru);
  }
  return { items, ru: charge };
}

/** Draws the place of the one partition in the hash space. */
function Dot({ plan }: { readonly plan: Plan }): JSX.Element {
  const at = plan.rows.findIndex((row) => row.isAsked);
  return (
    <div class="query-dots" role="img" aria-label={`Partition ${plan.rows[at]?.id} alone was asked`}>
      {plan.rows.slice(0, 64).map((row) => (
        <span key={row.id} class={row.isAsked ? "query-dot asked" : "query-dot"} />
      ))}
    </div>
  );
}

function PartitionRow({ row, most }: { readonly row: PlanRow; readonly most: Most }): JSX.Element {
  if (!row.isAsked) {
    return (
      <li class="query-partition not-asked">
        <RangeName row={row} />
        <span class="soft">Not asked</span>
      </li>
    );
  }
  return (
    <li class="query-partition">
      <div class="query-partition-head">
        <RangeName row={row} />
        <strong class="query-ru">{ru(row.ru)}</strong>
      </div>
      <div class="query-access">{row.access.map(accessWords).join("; ")}</div>
      <div class="query-bars">
        <Bar kind="candidates" label="Candidates" value={row.candidates} most={most.items} />
        <Bar kind="loaded" label="Loaded" value={row.loaded} most={most.items} />
        {row.returned !== null && (
          <Bar kind="returned" label="Returned" value={row.returned} most={most.items} />
        )}
        <Bar kind="ru" label="RU" value={row.ru} most={most.ru} text={ruNumber(row.ru)} />
      </div>
    </li>
  );
}

function RangeName({ row }: { readonly row: PlanRow }): JSX.Element {
  const range = shortRange(row);
  return (
    <span class="query-range mono" title={range === "" ? undefined : `EPK ${row.from || "00"} to ${row.to}`}>
      <strong>{row.id}</strong> {range === "" ? <Badge>replaced</Badge> : range}
    </span>
  );
}

interface BarProps {
  readonly kind: "candidates" | "loaded" | "returned" | "ru";
  readonly label: string;
  readonly value: number;
  readonly most: number;
  readonly text?: string;
}

function Bar({ kind, label, value, most, text }: BarProps): JSX.Element {
  const width = value === 0 ? 0 : Math.max(1, Math.round((value / most) * 100));
  return (
    <div class="query-bar">
      <span class="query-bar-label">{label}</span>
      <span class="query-bar-track">
        <span class={`query-bar-fill ${kind}`} style={{ width: `${width}%` }} />
      </span>
      <span class="query-bar-value">{text ?? count(value)}</span>
    </div>
  );
}

function PlanTable({ plan }: { readonly plan: Plan }): JSX.Element {
  return (
    <div class="query-plan-table" role="region" tabIndex={0} aria-label="Plan as a table">
      <table>
        <thead>
          <tr>
            <th scope="col">Partition</th>
            <th scope="col">EPK range</th>
            <th scope="col">Access</th>
            <th scope="col" class="number">Candidates</th>
            <th scope="col" class="number">Loaded</th>
            <th scope="col" class="number">Returned</th>
            <th scope="col" class="number">RU</th>
          </tr>
        </thead>
        <tbody>
          {plan.rows.map((row) => (
            <tr key={row.id}>
              <th scope="row">{row.id}</th>
              <td class="mono">{shortRange(row) || "replaced"}</td>
              <td>{row.isAsked ? row.access.map(accessWords).join("; ") : "Not asked"}</td>
              <td class="number">{row.isAsked ? count(row.candidates) : ""}</td>
              <td class="number">{row.isAsked ? count(row.loaded) : ""}</td>
              <td class="number">{returnedText(row)}</td>
              <td class="number">{row.isAsked ? ruNumber(row.ru) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function returnedText(row: PlanRow): string {
  if (!row.isAsked) return "";
  return row.returned === null ? "merged" : count(row.returned);
}

function Condition({ plan }: { readonly plan: Plan }): JSX.Element {
  return (
    <dl class="query-condition">
      {plan.rows.some((row) => row.returned === null) && (
        <>
          <dt>Returned</dt>
          <dd>{plural(plan.returned, "row")} together. The server merges the rows of the partitions.</dd>
        </>
      )}
      <dt>Condition for the index</dt>
      <dd class="mono">{plan.condition === "all" ? "none: every item qualifies" : plan.condition}</dd>
      {!plan.conditionIsExact && (
        <>
          <dt>Check</dt>
          <dd>Items are loaded and checked, because the index does not decide the whole condition.</dd>
        </>
      )}
      {plan.order.length > 0 && (
        <>
          <dt>Order</dt>
          <dd class="mono">{plan.order.join(", ")}</dd>
        </>
      )}
      {plan.isCut && (
        <>
          <dt>Partitions</dt>
          <dd>The server lists the first 50 partitions that it asked; others may be shown as not asked.</dd>
        </>
      )}
    </dl>
  );
}
