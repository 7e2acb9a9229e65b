/** Tests of the heat map's model and of its colours. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { WHOLE } from "./epk.ts";
import { PARTS, cellOf, concentrationOf, gridOf, partsOf, scansOf, sumOf } from "./heat.ts";
import { colourOf, stepOf, valueOf } from "./scale.ts";

const MINUTE = { start: 600, seconds: 60, buckets: [3, 200], values: [120, 60], scans: 12 };
const SHORT = { start: 660, seconds: 5, buckets: [3], values: [50], scans: 0 };

test("columns of different widths become load per second", () => {
  const grid = gridOf([MINUTE, SHORT], { from: 600, to: 665 }, WHOLE, 13);
  assert.equal(cellOf(grid, 0, 3), 2);
  assert.equal(cellOf(grid, 11, 200), 1);
  assert.equal(cellOf(grid, 12, 3), 10);
  assert.equal(cellOf(grid, 12, 200), 0);
  assert.equal(grid.max, 10);
});

test("a pixel over several columns has their mean, so no load is counted twice", () => {
  const grid = gridOf([MINUTE, SHORT], { from: 600, to: 665 }, WHOLE, 1);
  assert.ok(Math.abs(cellOf(grid, 0, 3) * 65 - 170) < 1e-3);
  const narrow = gridOf([MINUTE], { from: 600, to: 660 }, WHOLE, 7);
  let sum = 0;
  for (let pixel = 0; pixel < 7; pixel += 1) sum += cellOf(narrow, pixel, 3) * (60 / 7);
  assert.ok(Math.abs(sum - 120) < 1e-3);
});

test("a zoom into the hash space shows only its parts", () => {
  const grid = gridOf([MINUTE], { from: 600, to: 660 }, { start: 0.75, end: 1 }, 2);
  assert.deepEqual([grid.firstPart, grid.parts], [192, 64]);
  assert.equal(cellOf(grid, 1, 200 - 192), 1);
  assert.equal(grid.max, 1);
});

test("a span between parts touches the parts around it", () => {
  assert.deepEqual(partsOf({ start: 0, end: 1 }), { firstPart: 0, parts: PARTS });
  assert.deepEqual(partsOf({ start: 0.5, end: 0.5 }), { firstPart: 128, parts: 1 });
});

test("sums count the overlap of time only", () => {
  assert.equal(sumOf([MINUTE], { from: 630, to: 700 }, WHOLE), 90);
  assert.equal(scansOf([MINUTE], { from: 600, to: 630 }), 6);
});

test("load on one part is concentrated and even load is not", () => {
  const time = { from: 0, to: 5 };
  const even = { start: 0, seconds: 5, buckets: [...Array(PARTS).keys()], values: Array<number>(PARTS).fill(1), scans: 0 };
  const one = { start: 0, seconds: 5, buckets: [9], values: [7], scans: 0 };
  assert.ok(Math.abs(concentrationOf([even], time) - 13 / 256) < 1e-9);
  assert.equal(concentrationOf([one], time), 1);
  assert.equal(concentrationOf([], time), 0);
});

test("zero has no colour, the greatest value the last one, and brightness lifts small values", () => {
  assert.equal(stepOf(0, 10, 1), null);
  assert.equal(stepOf(10, 10, 1), 255);
  const dim = stepOf(0.01, 10, 1) ?? 0;
  const bright = stepOf(0.01, 10, 16) ?? 0;
  assert.ok(bright > dim);
  assert.ok(Math.abs(valueOf(dim, 10, 1) - 0.01) < 1e-9);
  assert.deepEqual(colourOf(0), [68, 1, 84]);
  assert.deepEqual(colourOf(255), [253, 231, 37]);
});
