/** The kinds of requests of a prediction, queries by their text: charge now and then as bars. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { PredictionClass } from "../../api/management.ts";
import { Button } from "../../ui/button.tsx";
import { count, plural, ruNumber } from "../../ui/format.ts";
import { Change } from "./figures.tsx";

const NAMES: Readonly<Record<PredictionClass["kind"], string>> = {
  pointRead: "Point read",
  create: "Create",
  upsert: "Upsert",
  replace: "Replace",
  patch: "Patch",
  delete: "Delete",
  batch: "Transactional batch",
  script: "Stored procedure",
  feed: "Feed",
  query: "Query",
};

/** Kinds that are shown before a person asks for all. */
const FIRST = 12;

/** Draws the kinds of requests. */
export function Classes({ classes }: { readonly classes: readonly PredictionClass[] }): JSX.Element {
  const [showsAll, setShowsAll] = useState(false);
  const shown = showsAll ? classes : classes.slice(0, FIRST);
  const most = Math.max(0.01, ...classes.map((one) => Math.max(nowOf(one), one.predictedRu)));
  return (
    <>
      <ul class="prediction-classes">
        {shown.map((one) => (
          <OneClass key={`${one.kind} ${one.text ?? ""}`} one={one} most={most} />
        ))}
      </ul>
      {shown.length < classes.length && (
        <Button onClick={() => setShowsAll(true)}>Show all {count(classes.length)} kinds of requests</Button>
      )}
    </>
  );
}

/** The charge with the settings as they are: the recorded one, or that of a given query. */
function nowOf(one: PredictionClass): number {
  return one.recordedRu ?? one.current.ru;
}

function OneClass({ one, most }: { readonly one: PredictionClass; readonly most: number }): JSX.Element {
  const now = nowOf(one);
  const then = one.predictedRu;
  const asked = one.repeated > 0 ? partitionsText(one) : null;
  return (
    <li>
      <div class="prediction-class-head">
        <strong>{NAMES[one.kind]}</strong>
        <span class="soft">{one.recordedRu === undefined ? "not run yet" : `× ${count(one.count)}`}</span>
        {asked && <span class="soft">{asked}</span>}
        <span class="prediction-class-change">
          <Change now={now} then={then} isLowerBetter />
        </span>
      </div>
      {one.text && <code class="prediction-text">{one.text}</code>}
      <Bar label="Now" value={now} most={most} />
      <Bar label="Proposed" value={then} most={most} isProposed />
      {one.note && <p class="help">{one.note}</p>}
    </li>
  );
}

function partitionsText({ current, proposed }: PredictionClass): string {
  const now = Math.round(current.partitions * 10) / 10;
  const then = Math.round(proposed.partitions * 10) / 10;
  if (now === then) return plural(now, "partition");
  return `${now} → ${plural(then, "partition")}`;
}

interface BarProps {
  readonly label: string;
  readonly value: number;
  readonly most: number;
  readonly isProposed?: boolean;
}

function Bar({ label, value, most, isProposed }: BarProps): JSX.Element {
  return (
    <div class="prediction-class-bar">
      <span class="soft">{label}</span>
      <span class="prediction-bar" aria-hidden="true">
        <span class={isProposed ? "prediction-then" : undefined} style={{ width: `${Math.max((value / most) * 100, 0.5)}%` }} />
      </span>
      <span class="number">{ruNumber(value)} RU</span>
    </div>
  );
}
