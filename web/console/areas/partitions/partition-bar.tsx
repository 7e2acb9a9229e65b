/** The hash space of a container as a bar: a segment for each physical partition, as wide as its
 * range, as high as its bytes, coloured by the share of its budget, hatched where 429 were answered;
 * below it the split history.
 *
 * Leaves out: the figures as text; the table below the bar has them. */

import type { JSX } from "preact";
import { bytes, percent } from "../../ui/format.ts";
import type { Partition } from "./api.ts";
import { rangeText, spanOf, type Hashing } from "./epk.ts";
import { lineageBars, rowsOf, type Ancestor, type LineageBar } from "./lineage.ts";
import { STEPS, cssOf } from "./scale.ts";

export interface PartitionBarProps {
  readonly partitions: readonly Partition[];
  readonly lineage: readonly Ancestor[];
  readonly hashing: Hashing;
  /** Requests refused in the last second or two, by partition. */
  readonly refused: ReadonlyMap<string, number>;
  readonly selected: string;
  readonly onSelect: (id: string) => void;
}

const LINEAGE_ROWS_MAX = 8;
const LABEL_MIN = 0.04;
const FIGURES_MIN = 0.12;

/** Draws the bar and the split history. */
export function PartitionBar(props: PartitionBarProps): JSX.Element {
  const bytesMax = Math.max(1, ...props.partitions.map((partition) => partition.bytes));
  const bars = lineageBars(props.lineage, props.hashing, LINEAGE_ROWS_MAX);
  return (
    <div class="parts-map">
      <div class="parts-bar" role="group" aria-label="Physical partitions over the hash space">
        {props.partitions.map((partition) => (
          <Segment key={partition.id} {...props} partition={partition} bytesMax={bytesMax} />
        ))}
      </div>
      <div class="parts-scale" aria-hidden="true">
        <span>00</span>
        <span>hash of the partition key</span>
        <span>FF</span>
      </div>
      {rowsOf(bars) > 1 && <History bars={bars} selected={props.selected} />}
    </div>
  );
}

function Segment(
  props: PartitionBarProps & { readonly partition: Partition; readonly bytesMax: number },
): JSX.Element {
  const { partition } = props;
  const range = { min: partition.minInclusive, max: partition.maxExclusive };
  const span = spanOf(range, props.hashing);
  const width = span.end - span.start;
  const isRefusing = (props.refused.get(partition.id) ?? 0) > 0;
  const used = Math.min(1, partition.normalized);
  return (
    <button
      type="button"
      class={`parts-segment ${isRefusing ? "refusing" : ""}`}
      title={`Partition ${partition.id}, ${rangeText(range)}`}
      aria-pressed={props.selected === partition.id}
      style={{ left: `${span.start * 100}%`, width: `${width * 100}%` }}
      onClick={() => props.onSelect(props.selected === partition.id ? "" : partition.id)}
    >
      <span class="parts-figures">
        <span class="visually-hidden">Partition</span>{" "}
        <b class={width >= LABEL_MIN ? "" : "visually-hidden"}>{partition.id}</b>
        <span class="visually-hidden">with the range {rangeText(range)}</span>
        <small class={width >= FIGURES_MIN ? "" : "visually-hidden"}>{bytes(partition.bytes)}</small>
      </span>
      <span class="parts-column">
        <span
          class="parts-fill"
          style={{
            height: `${Math.max(2, (partition.bytes / props.bytesMax) * 100)}%`,
            backgroundColor: used > 0 ? cssOf(used * (STEPS - 1)) : "transparent",
          }}
        />
      </span>
      <span class={width >= LABEL_MIN ? "parts-used" : "visually-hidden"}>
        {percent(partition.normalized)}
        <span class={width >= FIGURES_MIN ? "" : "visually-hidden"}> of its share</span>
        {isRefusing && <span class="visually-hidden">, refuses requests</span>}
      </span>
    </button>
  );
}

function History(props: {
  readonly bars: readonly LineageBar[];
  readonly selected: string;
}): JSX.Element {
  const rows = rowsOf(props.bars);
  const shown = [...Array(rows).keys()];
  return (
    <figure class="parts-history">
      <figcaption>Split history, the newest at the bottom</figcaption>
      {shown.map((row) => (
        <div key={row} class="parts-generation">
          {props.bars
            .filter((bar) => bar.row === row)
            .map((bar) => (
              <HistoryBar key={bar.id} bar={bar} isSelected={bar.id === props.selected} />
            ))}
        </div>
      ))}
    </figure>
  );
}

function HistoryBar({ bar, isSelected }: { readonly bar: LineageBar; readonly isSelected: boolean }): JSX.Element {
  const width = bar.span.end - bar.span.start;
  const since = new Date(bar.createdMilliseconds).toLocaleString();
  const until = bar.replacedMilliseconds && new Date(bar.replacedMilliseconds).toLocaleString();
  const from = bar.parents.length > 0 ? ` from ${bar.parents.join(" and ")}` : "";
  const title = `Partition ${bar.id}${from}, since ${since}${until ? `, replaced ${until}` : ""}`;
  const names = ["parts-ancestor", bar.isLive ? "live" : "", isSelected ? "selected" : ""];
  return (
    <span
      class={names.filter(Boolean).join(" ")}
      title={title}
      style={{ left: `${bar.span.start * 100}%`, width: `${width * 100}%` }}
    >
      {width >= LABEL_MIN / 2 ? bar.id : ""}
      <span class="visually-hidden">{title}</span>
    </span>
  );
}
