/** Tests of the Lorenz curve and the Gini coefficient. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { inequalityOf } from "./lorenz.ts";

test("equal keys have a Gini coefficient of 0", () => {
  const { gini, topShare } = inequalityOf([5, 5, 5, 5], 20, 0);
  assert.ok(gini < 1e-9);
  assert.equal(topShare, 0.25);
});

test("one key with nearly everything has a coefficient near 1", () => {
  const amounts = [1000, ...Array<number>(31).fill(0.01)];
  assert.ok(inequalityOf(amounts, 1000.31, 0).gini > 0.95);
});

test("the curve ends at all keys and all load", () => {
  const { points } = inequalityOf([9, 3, 1], 13, 0);
  const end = points.at(-1);
  assert.ok(end !== undefined && Math.abs(end.keys - 1) < 1e-9 && Math.abs(end.load - 1) < 1e-9);
  for (const point of points) assert.ok(point.load <= point.keys + 1e-9);
});

test("load of keys that are not listed is spread over the fewest keys that can carry it", () => {
  const { keys, topShare } = inequalityOf([50], 100, 10);
  assert.equal(keys, 6);
  assert.equal(topShare, 0.5);
});

test("no load has no curve", () => {
  assert.deepEqual(inequalityOf([], 0, 0), { points: [], gini: 0, topShare: 0, keys: 0 });
});
