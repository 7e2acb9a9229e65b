/** Tests of the pixels of the heat map. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { WHOLE } from "./epk.ts";
import { PARTS, gridOf } from "./heat.ts";
import type { HeatColumn } from "./heat.ts";
import { cellPixels } from "./paint.ts";

test("cells without load are transparent and the greatest load has the last colour", () => {
  const columns = [{ start: 0, seconds: 5, buckets: [2, 3], values: [50, 0.001], scans: 0 }];
  const grid = gridOf(columns, { from: 0, to: 5 }, WHOLE, 1);
  const target = new Uint32Array(PARTS);
  cellPixels(grid, 1, target);
  const bytes = new Uint8Array(target.buffer);
  assert.deepEqual([...bytes.slice(0, 4)], [0, 0, 0, 0]);
  assert.deepEqual([...bytes.slice(8, 12)], [253, 231, 37, 255]);
  assert.equal(bytes[15], 255, "a small load is visible");
});

test("256 × 600 cells become pixels well within a frame", (context) => {
  const columns: HeatColumn[] = [];
  for (let at = 0; at < 600; at += 1) {
    const buckets = [...Array(PARTS).keys()];
    const values = buckets.map((part) => (part * 31 + at * 17) % 97);
    columns.push({ start: at * 5, seconds: 5, buckets, values, scans: 0 });
  }
  const grid = gridOf(columns, { from: 0, to: 3000 }, WHOLE, 600);
  const target = new Uint32Array(600 * PARTS);
  cellPixels(grid, 1, target);
  const began = performance.now();
  for (let frame = 0; frame < 20; frame += 1) cellPixels(grid, 1 + frame / 10, target);
  const milliseconds = (performance.now() - began) / 20;
  context.diagnostic(`${milliseconds.toFixed(2)} ms for each frame`);
  // The machine of a test may be slow and busy: the bound only finds an error of order.
  assert.ok(milliseconds < 250, `${milliseconds} ms`);
});
