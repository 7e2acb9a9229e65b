/** Tests of the log of requests as the page keeps it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { KEPT_MAX, RequestLog, costs, matching } from "./log.ts";
import type { RecordedRequest } from "./log.ts";

function request(number: number, changed: Partial<RecordedRequest> = {}): RecordedRequest {
  return {
    number,
    reason: "expensive",
    time: number * 1000,
    operation: "query_items",
    resource: "docs",
    method: "POST",
    path: "/dbs/a/colls/b/docs",
    partitions: ["0"],
    partitionCount: 1,
    status: 200,
    substatus: 0,
    ru: 1,
    parts: [],
    ms: 1,
    activityId: "a",
    client: "127.0.0.1",
    fromConsole: false,
    ...changed,
  };
}

test("pages are merged by number, the newest first", () => {
  const log = new RequestLog();
  assert.equal(log.after, null);
  assert.equal(log.add({ requests: [request(1), request(2)], next: 2 }), 2);
  assert.equal(log.add({ requests: [request(2), request(3)], next: 3 }), 1);
  assert.deepEqual(log.requests.map((found) => found.number), [3, 2, 1]);
  assert.equal(log.after, 3);
});

test("a server that started again begins a new log", () => {
  const log = new RequestLog();
  log.add({ requests: [request(900)], next: 900 });
  log.add({ requests: [request(1)], next: 1 });
  assert.deepEqual(log.requests.map((found) => found.number), [1]);
});

test("the oldest requests fall out", () => {
  const log = new RequestLog();
  for (let first = 0; first < KEPT_MAX + 1000; first += 1000) {
    const page = [...Array(1000).keys()].map((at) => request(first + at));
    log.add({ requests: page, next: first + 999 });
  }
  assert.equal(log.requests.length, KEPT_MAX);
  assert.equal(log.requests[0]?.number, KEPT_MAX + 999);
  assert.equal(log.dropped, 1000);
});

test("operation, partition, time and the console's own requests are filters", () => {
  const all = [
    request(1),
    request(2, { operation: "read_item" }),
    request(3, { partitions: ["1", "2"] }),
    request(4, { fromConsole: true }),
  ];
  const numbers = (filter: Parameters<typeof matching>[1]): number[] =>
    matching(all, filter).map((found) => found.number);
  assert.deepEqual(numbers({ hasConsole: false }), [1, 2, 3]);
  assert.deepEqual(numbers({ hasConsole: true, operation: "query_items" }), [1, 3, 4]);
  assert.deepEqual(numbers({ hasConsole: true, partition: "2" }), [3]);
  assert.deepEqual(numbers({ hasConsole: true, from: 2, to: 4 }), [2, 3]);
});

test("the most expensive part of a charge comes first and rounding is left out", () => {
  const parts = [
    { what: "rounding", count: 1, ru: -0.01 },
    { what: "items", count: 2, ru: 1 },
    { what: "index", count: 3, ru: 4 },
  ];
  assert.deepEqual(costs(parts).map((part) => part.what), ["index", "items"]);
});
