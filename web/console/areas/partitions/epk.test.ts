/** Tests of the arithmetic on effective partition keys. The expected EPKs come from the server. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { contains, fractionOf, hashingOf, middleOf, partOf, rangeText, shortEpk } from "./epk.ts";

test("the ends of the hash space are 0 and 1", () => {
  for (const hashing of ["v1", "v2"] as const) {
    assert.equal(fractionOf("", hashing), 0);
    assert.equal(fractionOf("FF", hashing), 1);
  }
});

test("a quarter of the hash space of version 2 is a quarter", () => {
  assert.equal(fractionOf("10000000000000000000000000000000", "v2"), 0.25);
  assert.equal(fractionOf("20000000000000000000000000000000", "v2"), 0.5);
  assert.ok(Math.abs(fractionOf("0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "v2") - 0.25) < 1e-9);
});

test("only the first level of a hierarchical key counts", () => {
  const first = "1A".repeat(16);
  assert.equal(fractionOf(first + "3F".repeat(16), "v2"), fractionOf(first, "v2"));
});

test("the middle of the hash space of version 1 is a half", () => {
  assert.equal(Math.round(fractionOf("05C1E0", "v1") * 1e6) / 1e6, 0.5);
});

test("fractions of version 1 grow with the EPK", () => {
  const epks = ["05C1D9C91DF1D808", "05C1DDEBD72DF008", "05C1DF7F53E53C08", "05C1E18D1B81BA08"];
  const fractions = epks.map((epk) => fractionOf(epk, "v1"));
  assert.deepEqual(fractions, [...fractions].sort((a, b) => a - b));
  for (const fraction of fractions) assert.ok(fraction > 0 && fraction < 1);
});

test("the starts of the parts name the hashing", () => {
  assert.equal(hashingOf(["", "05C1B5EFF0"]), "v1");
  assert.equal(hashingOf(["", "003FFFFFFFFFFFFFFFFFFFFFFFFFFFFF"]), "v2");
});

test("a key is in the part that its fraction names", () => {
  assert.equal(partOf("", "v2", 256), 0);
  assert.equal(partOf("FF", "v2", 256), 255);
  assert.equal(partOf("20000000000000000000000000000001", "v2", 256), 128);
});

test("a range holds its start and not its end", () => {
  const range = { min: "10", max: "20" };
  assert.ok(contains(range, "10") && contains(range, "1F00") && !contains(range, "20"));
  assert.ok(contains({ min: "20", max: "FF" }, "3F"));
});

test("labels are short and name both ends", () => {
  assert.equal(rangeText({ min: "", max: "20000000000000000000000000000000" }), "00–20");
  assert.equal(shortEpk("1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"), "1FFF");
  assert.equal(shortEpk("FF"), "FF");
});

test("the middle of a range is where the server splits it", () => {
  assert.equal(middleOf({ min: "", max: "FF" }, "v2"), "20000000000000000000000000000000");
  const left = { min: "", max: "20000000000000000000000000000000" };
  assert.equal(middleOf(left, "v2"), "10000000000000000000000000000000");
  assert.equal(middleOf({ min: "", max: "FF" }, "v1"), null);
});
