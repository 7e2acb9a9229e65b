/** The two columns of a prediction: figures with their differences, and the charge at each physical
 * partition as bars. */

import type { JSX } from "preact";
import type { PredictionSide } from "../../api/management.ts";
import { bytes, count, percent, ruNumber } from "../../ui/format.ts";

export interface SidesProps {
  readonly current: PredictionSide;
  readonly proposed: PredictionSide;
}

interface Figure {
  readonly label: string;
  readonly value: (side: PredictionSide) => number | undefined;
  readonly format: (value: number) => string;
  /** True if a lower value is better, false if a higher one is; absent if neither. */
  readonly isLowerBetter?: boolean;
}

const FIGURES: readonly Figure[] = [
  { label: "RU of all requests", value: (side) => side.ru, format: ruNumber, isLowerBetter: true },
  { label: "Partitions asked by a request", value: (side) => side.fanOut, format: ratio, isLowerBetter: true },
  { label: "Busiest partition's share of RU", value: (side) => side.hottestShare, format: percent, isLowerBetter: true },
  { label: "Requests answered with 429", value: (side) => side.throttledShare, format: percent, isLowerBetter: true },
  { label: "Physical partitions", value: (side) => side.ruShares.length, format: count },
  { label: "Throughput in RU/s", value: (side) => side.throughput, format: count },
  { label: "Partition key values", value: (side) => side.distinctKeys, format: count },
  { label: "Largest logical partition", value: largest, format: bytes, isLowerBetter: true },
  { label: "Index", value: (side) => side.indexBytes, format: bytes, isLowerBetter: true },
];

function ratio(value: number): string {
  return value.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 2 });
}

function largest(side: PredictionSide): number | undefined {
  return side.largestKeys[0]?.bytes;
}

/** Draws the figures of both sides. */
export function Figures({ current, proposed }: SidesProps): JSX.Element {
  return (
    <table class="prediction-figures">
      <caption class="visually-hidden">The settings as they are, and as proposed</caption>
      <thead>
        <tr>
          <th scope="col">
            <span class="visually-hidden">Figure</span>
          </th>
          <th scope="col" class="number">
            Now <code>{current.partitionKey.join(", ")}</code>
          </th>
          <th scope="col" class="number">
            Proposed <code>{proposed.partitionKey.join(", ")}</code>
          </th>
          <th scope="col" class="number">
            Change
          </th>
        </tr>
      </thead>
      <tbody>
        {FIGURES.map((figure) => (
          <Row key={figure.label} figure={figure} current={current} proposed={proposed} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ figure, current, proposed }: SidesProps & { readonly figure: Figure }): JSX.Element | null {
  const now = figure.value(current);
  const then = figure.value(proposed);
  if (now === undefined && then === undefined) return null;
  return (
    <tr>
      <th scope="row">{figure.label}</th>
      <td class="number">{now === undefined ? "–" : figure.format(now)}</td>
      <td class="number">{then === undefined ? "–" : figure.format(then)}</td>
      <td class="number">
        {now !== undefined && then !== undefined && <Change now={now} then={then} isLowerBetter={figure.isLowerBetter} />}
      </td>
    </tr>
  );
}

export interface ChangeProps {
  readonly now: number;
  readonly then: number;
  readonly isLowerBetter?: boolean | undefined;
}

/** Draws a difference as per cent; with a word for what is better, so that colour is not all. */
export function Change({ now, then, isLowerBetter }: ChangeProps): JSX.Element {
  if (Math.abs(then - now) <= Math.abs(now) * 0.01) return <span class="soft">same</span>;
  if (now === 0) return <span class={isLowerBetter ? "prediction-worse" : ""}>new</span>;
  const change = then / now - 1;
  const text = Math.abs(change) >= 10 ? `× ${ratio(then / now)}` : `${change < 0 ? "−" : "+"}${percent(Math.abs(change))}`;
  const isBetter = isLowerBetter === undefined ? undefined : change < 0 === isLowerBetter;
  if (isBetter === undefined) return <span>{text}</span>;
  return (
    <span class={isBetter ? "prediction-better" : "prediction-worse"}>
      {text} <span class="visually-hidden">{isBetter ? "better" : "worse"}</span>
    </span>
  );
}

/** Partitions that are drawn one by one. */
const DRAWN = 32;

/** Draws the share of the charge at each physical partition. */
export function PartitionBars({ current, proposed }: SidesProps): JSX.Element {
  const most = Math.max(current.hottestShare, proposed.hottestShare, 0.01);
  return (
    <div class="prediction-sides">
      <Bars title="Now" side={current} most={most} />
      <Bars title="Proposed" side={proposed} most={most} />
    </div>
  );
}

function Bars({ title, side, most }: { readonly title: string; readonly side: PredictionSide; readonly most: number }): JSX.Element {
  const shares = side.ruShares.slice(0, DRAWN);
  const rest = side.ruShares.length - shares.length;
  return (
    <div>
      <h4>{title}</h4>
      <ol class="prediction-bars" aria-label={`${title}: share of RU at each physical partition`}>
        {shares.map((share, at) => (
          <li key={at}>
            <span class="soft mono">{at}</span>
            <span class="prediction-bar" aria-hidden="true">
              <span style={{ width: `${(share / most) * 100}%` }} />
            </span>
            <span class="number">{percent(share)}</span>
            <span class="number soft">{bytes(side.partitionBytes[at] ?? 0)}</span>
          </li>
        ))}
      </ol>
      {rest > 0 && <p class="help">and {count(rest)} more</p>}
    </div>
  );
}
