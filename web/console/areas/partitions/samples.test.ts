/** Tests of the samples of the partitions' load. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { PartitionSamples, SECONDS_MAX } from "./samples.ts";
import type { SampledPartition } from "./samples.ts";

function minute(...entries: [second: number, requestUnits: number][]): SampledPartition[] {
  const lastMinute = entries.map(([second, requestUnits]) => ({
    second,
    requestUnits,
    requests: 1,
    throttled: 0,
  }));
  return [{ id: "0", lastMinute }];
}

test("a second without an entry had no load and the running second is left out", () => {
  const samples = new PartitionSamples();
  samples.add(100.7, minute([98, 7], [99, 5], [100, 3]));
  assert.equal(samples.samples.length, 60);
  const rates = samples.samples.slice(-3).map((sample) => sample.partitions.get("0")?.ruPerSecond);
  assert.deepEqual(rates, [0, 7, 5]);
  assert.equal(samples.samples.at(-1)?.seconds, 99);
});

test("the clock of the browser may differ from that of the server", () => {
  for (const now of [40, 5000]) {
    const samples = new PartitionSamples();
    samples.add(now, minute([98, 7], [100, 3]));
    assert.equal(samples.samples.at(-1)?.seconds, 99);
    assert.equal(samples.samples.at(-2)?.partitions.get("0")?.ruPerSecond, 7);
  }
});

test("overlapping answers give each second once", () => {
  const samples = new PartitionSamples();
  samples.add(100, minute([99, 5]));
  samples.add(103, minute([99, 6], [101, 2]));
  assert.equal(samples.samples.length, 63);
  const at = samples.samples.find((sample) => sample.seconds === 99);
  assert.equal(at?.partitions.get("0")?.ruPerSecond, 6);
});

test("the busy rate is the 99th percentile of the observed time", () => {
  const samples = new PartitionSamples();
  const entries = [...Array(60).keys()].map((at): [number, number] => [40 + at, at]);
  samples.add(100, minute(...entries));
  assert.equal(samples.busy("0", 300), 59);
  assert.equal(samples.busy("9", 300), 0);
});

test("old seconds are dropped", () => {
  const samples = new PartitionSamples();
  for (let now = 60; now < SECONDS_MAX + 200; now += 50) samples.add(now, minute());
  assert.equal(samples.samples.length, SECONDS_MAX);
});
