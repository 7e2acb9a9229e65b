/** Layout of the split history: every partition that exists or existed as a bar over its range of
 * the hash space, in the row of its generation.
 *
 * Promises: a partition is below all of its predecessors; bars of one row do not overlap.
 * Leaves out: sizes in pixels. */

import { spanOf } from "./epk.ts";
import type { Hashing, Span } from "./epk.ts";

/** A partition as the management API returns it in `lineage`. */
export interface Ancestor {
  id: string;
  parents: readonly string[];
  minInclusive: string;
  maxExclusive: string;
  createdMilliseconds: number;
  replacedMilliseconds?: number;
}

/** A bar of the drawing. */
export interface LineageBar {
  id: string;
  parents: readonly string[];
  span: Span;
  row: number;
  isLive: boolean;
  createdMilliseconds: number;
  replacedMilliseconds: number | null;
}

/** Returns the bars in rows: the first partitions in row 0, the successors of a partition in a row
 * after it. `rowsMax` keeps the latest generations if there are more. */
export function lineageBars(
  lineage: readonly Ancestor[],
  hashing: Hashing,
  rowsMax: number,
): LineageBar[] {
  const rows = new Map<string, number>();
  const ordered = [...lineage].sort((a, b) => Number(a.id) - Number(b.id));
  for (const partition of ordered) {
    let row = 0;
    for (const parent of partition.parents) row = Math.max(row, (rows.get(parent) ?? -1) + 1);
    rows.set(partition.id, row);
  }
  const last = Math.max(0, ...rows.values());
  const hidden = Math.max(0, last + 1 - rowsMax);
  const bars: LineageBar[] = [];
  for (const partition of ordered) {
    const row = rows.get(partition.id) ?? 0;
    const isLive = partition.replacedMilliseconds === undefined;
    // A live partition stays in the drawing however old its generation is.
    if (row < hidden && !isLive) continue;
    bars.push({
      id: partition.id,
      parents: partition.parents,
      span: spanOf({ min: partition.minInclusive, max: partition.maxExclusive }, hashing),
      row: Math.max(0, row - hidden),
      isLive,
      createdMilliseconds: partition.createdMilliseconds,
      replacedMilliseconds: partition.replacedMilliseconds ?? null,
    });
  }
  return bars;
}

/** Returns the number of rows that the bars use. */
export function rowsOf(bars: readonly LineageBar[]): number {
  let rows = 0;
  for (const bar of bars) rows = Math.max(rows, bar.row + 1);
  return rows;
}
