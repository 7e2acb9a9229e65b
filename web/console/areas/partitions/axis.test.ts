/** Tests of the time axis. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { aligned, columnsFor, rangeUntil, ticksOf } from "./axis.ts";

test("a range ends at the border of a column and includes now", () => {
  assert.deepEqual(rangeUntil(1002, 300), { from: 705, to: 1005 });
  assert.deepEqual(rangeUntil(1004.9, 300), { from: 710, to: 1010 });
});

test("a brushed range is widened to whole columns", () => {
  assert.deepEqual(aligned({ from: 11, to: 12 }), { from: 10, to: 15 });
  assert.deepEqual(aligned({ from: 10, to: 10 }), { from: 10, to: 15 });
});

test("a pixel column is a round number of seconds", () => {
  assert.equal(columnsFor({ from: 0, to: 900 }, 600), 180);
  assert.equal(columnsFor({ from: 0, to: 3600 }, 600), 360);
  assert.equal(columnsFor({ from: 0, to: 604_800 }, 600), 504);
  assert.equal(columnsFor({ from: 0, to: 604_800 }, 100), 100);
});

test("ticks stand apart and inside of the range", () => {
  for (const length of [60, 300, 900, 3600, 86_400, 604_800]) {
    const range = { from: 1_790_000_003, to: 1_790_000_003 + length };
    const ticks = ticksOf(range, 600);
    assert.ok(ticks.length >= 1 && ticks.length <= 8, `${length} s: ${ticks.length}`);
    for (const tick of ticks) assert.ok(tick.seconds >= range.from && tick.seconds <= range.to);
  }
});
