/** Tests of the figures and of the facts of query forms. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { factsOf, fanOut, indexMetrics, readRatio } from "./forms.ts";
import type { QueryForm } from "./forms.ts";

function form(changed: Partial<QueryForm> = {}): QueryForm {
  return {
    text: "SELECT * FROM c WHERE c.id = ?",
    count: 10,
    ru: 30,
    ruP50: 3,
    ruP95: 4,
    microsecondsP50: 100,
    microsecondsP99: 300,
    partitions: 10,
    retrieved: 10,
    output: 10,
    crossPartition: false,
    last: 0,
    ...changed,
  };
}

test("fan-out is partitions for each page and the ratio items for each row", () => {
  assert.equal(fanOut(form({ partitions: 40 })), 4);
  assert.equal(fanOut(form({ count: 0, partitions: 0 })), 0);
  assert.equal(readRatio(form({ retrieved: 50 })), 5);
  assert.equal(readRatio(form({ retrieved: 50, output: 0 })), Infinity);
  assert.equal(readRatio(form({ retrieved: 0, output: 0 })), null);
});

test("missing indexes are named", () => {
  const indexAdvice = JSON.stringify({
    UtilizedSingleIndexes: [{ IndexSpec: "/type/?" }],
    PotentialSingleIndexes: [{ IndexSpec: "/views/?" }],
    PotentialCompositeIndexes: [{ IndexSpecs: ["/type ASC", "/date DESC"] }],
  });
  assert.deepEqual(indexMetrics(form({ indexAdvice })).used, ["/type/?"]);
  const facts = factsOf(form({ indexAdvice }), ["/postId"], 4);
  assert.deepEqual([facts.missing, facts.missingComposite], [["/views/?"], ["/type ASC, /date DESC"]]);
});

test("advice that is not JSON is left out", () => {
  assert.deepEqual(indexMetrics(form({ indexAdvice: "{" })).potential, []);
  assert.deepEqual(indexMetrics(form({ indexAdvice: "[1]" })).potential, []);
});
