/** Tests of the figures and of the advice of query forms. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { fanOut, formAdvice, indexMetrics, readRatio } from "./forms.ts";
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

function kinds(changed: Partial<QueryForm>): string[] {
  return formAdvice(form(changed), ["/postId"]).map((advice) => advice.kind);
}

test("fan-out is partitions for each page and the ratio items for each row", () => {
  assert.equal(fanOut(form({ partitions: 40 })), 4);
  assert.equal(fanOut(form({ count: 0, partitions: 0 })), 0);
  assert.equal(readRatio(form({ retrieved: 50 })), 5);
  assert.equal(readRatio(form({ retrieved: 50, output: 0 })), Infinity);
  assert.equal(readRatio(form({ retrieved: 0, output: 0 })), null);
});

test("a cheap query for one partition gets no advice", () => {
  assert.deepEqual(kinds({}), []);
});

test("a query that asks several partitions is told the partition key", () => {
  const [advice] = formAdvice(form({ partitions: 40, crossPartition: true }), ["/postId"]);
  assert.equal(advice?.kind, "fan-out");
  assert.match(advice?.text ?? "", /4 partitions.*\/postId/);
});

test("missing indexes are named", () => {
  const indexAdvice = JSON.stringify({
    UtilizedSingleIndexes: [{ IndexSpec: "/type/?" }],
    PotentialSingleIndexes: [{ IndexSpec: "/views/?" }],
    PotentialCompositeIndexes: [{ IndexSpecs: ["/type ASC", "/date DESC"] }],
  });
  assert.deepEqual(indexMetrics(form({ indexAdvice })).used, ["/type/?"]);
  const texts = formAdvice(form({ indexAdvice }), []).map((advice) => advice.text);
  assert.deepEqual(texts, [
    "Index the path /views/?: the query filters or sorts by it.",
    "Add the composite index (/type ASC, /date DESC).",
  ]);
});

test("advice that is not JSON is left out", () => {
  assert.deepEqual(indexMetrics(form({ indexAdvice: "{" })).potential, []);
  assert.deepEqual(indexMetrics(form({ indexAdvice: "[1]" })).potential, []);
});

test("a scan, a large page and functions over every value are told", () => {
  assert.deepEqual(kinds({ retrieved: 5000, output: 10 }), ["scan"]);
  assert.deepEqual(kinds({ ruP50: 400 }), ["large"]);
  assert.deepEqual(kinds({ text: "SELECT * FROM c WHERE CONTAINS(c.t, ?)" }), ["text"]);
  assert.deepEqual(kinds({ text: "SELECT * FROM c WHERE FULLTEXTCONTAINS(c.t, ?)" }), []);
});
