/** Tests of the layout of the split history. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { lineageBars, rowsOf } from "./lineage.ts";
import type { Ancestor } from "./lineage.ts";

const HALF = "20000000000000000000000000000000";
const QUARTER = "10000000000000000000000000000000";

function partition(id: string, parents: string[], min: string, max: string, live: boolean): Ancestor {
  const base = { id, parents, minInclusive: min, maxExclusive: max, createdMilliseconds: 1 };
  return live ? base : { ...base, replacedMilliseconds: 2 };
}

const HISTORY = [
  partition("0", [], "", "FF", false),
  partition("1", ["0"], "", HALF, false),
  partition("2", ["0"], HALF, "FF", true),
  partition("3", ["1"], "", QUARTER, false),
  partition("4", ["1"], QUARTER, HALF, false),
  partition("5", ["3", "4"], "", HALF, true),
];

test("a partition is below all of its predecessors", () => {
  const rows = lineageBars(HISTORY, "v2", 10).map((bar) => [bar.id, bar.row]);
  assert.deepEqual(rows, [["0", 0], ["1", 1], ["2", 1], ["3", 2], ["4", 2], ["5", 3]]);
});

test("a bar has the range of its partition", () => {
  const bar = lineageBars(HISTORY, "v2", 10).find((found) => found.id === "4");
  assert.deepEqual(bar?.span, { start: 0.25, end: 0.5 });
});

test("of a long history the latest generations and the live partitions are shown", () => {
  const bars = lineageBars(HISTORY, "v2", 2);
  assert.deepEqual(bars.map((bar) => bar.id), ["2", "3", "4", "5"]);
  assert.equal(rowsOf(bars), 2);
});

test("a container that was never split has one row", () => {
  assert.equal(rowsOf(lineageBars([partition("0", [], "", "FF", true)], "v2", 4)), 1);
});
