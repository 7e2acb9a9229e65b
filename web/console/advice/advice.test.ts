/** Tests of the rules about containers and queries. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { adviceFrom, adviceText } from "./advice.ts";
import { CONTAINER_RULES, finerKey, type ContainerFacts, type HotKey, type PartitionFacts } from "./container-rules.ts";
import { hotKeyOf } from "./hot-key.ts";
import { QUERY_RULES, type QueryFacts } from "./query-rules.ts";

function partition(id: string, changed: Partial<PartitionFacts> = {}): PartitionFacts {
  const quiet = { bytes: 1000, indexBytes: 100, ruPerSecond: 1000, busyRu: 100, requests: 1000, throttled: 0, largestKeys: [] };
  return { id, ...quiet, ...changed };
}

function container(partitions: readonly PartitionFacts[], changed: Partial<ContainerFacts> = {}): ContainerFacts {
  const limits = { physicalPartitionBytesMax: 50e9, logicalPartitionBytesMax: 20e9 };
  return { keyPaths: ["/postId"], partitions, ...limits, hotKey: null, forms: [], ...changed };
}

function found(...facts: Parameters<typeof container>): string[] {
  return adviceFrom(CONTAINER_RULES, container(...facts)).map(({ rule }) => rule);
}

test("quiet partitions get no advice", () => {
  assert.deepEqual(found([partition("0"), partition("1")]), []);
});

const KEY: HotKey = { name: "p-1", epk: "1C", share: 0.7, ruPerSecond: 380, partition: "0", refused: 0.12 };

test("the hottest key is named with its share, its price and the way out", () => {
  const facts = container([partition("0", { ruPerSecond: 400 }), partition("1")], { hotKey: KEY });
  const [advice] = adviceFrom(CONTAINER_RULES, facts);
  assert.ok(advice);
  assert.equal(advice.urgency, "bad");
  assert.equal(advice.happened, "The key p-1 has 70 % of the traffic.");
  assert.equal(
    advice.cost,
    "It uses 380 of the 400 RU/s (95 %) of physical partition 0. 12 % of the requests there are refused with 429.",
  );
  assert.deepEqual(
    advice.ways?.map(({ tab, query }) => [tab, query]),
    [
      ["partitions", { keyEpk: "1C", partition: "0" }],
      ["prediction", { key: "/postId /id" }],
    ],
  );
});

test("a key is judged by its share and its rate, and says more than its partition", () => {
  const hot = [partition("0", { busyRu: 950 }), partition("1")];
  assert.deepEqual(found(hot, { hotKey: KEY }), ["hot-key"]);
  assert.deepEqual(found(hot, { hotKey: { ...KEY, partition: "1" } }), ["hot-key", "hot-partition"]);
  assert.deepEqual(found([partition("0")], { hotKey: { ...KEY, share: 0.2 } }), []);
  assert.deepEqual(found([partition("0")], { hotKey: { ...KEY, ruPerSecond: 1 } }), []);
  const urgency = (ruPerSecond: number): string | undefined =>
    adviceFrom(CONTAINER_RULES, container([partition("0")], { hotKey: { ...KEY, ruPerSecond, refused: 0 } }))[0]?.urgency;
  assert.deepEqual([urgency(100), urgency(500), urgency(950)], ["info", "warn", "bad"]);
});

test("a finer key has a level more, or is the id", () => {
  assert.deepEqual(finerKey(["/tenant"]), ["/tenant", "/id"]);
  assert.deepEqual(finerKey(["/a", "/b", "/c"]), ["/id"]);
});

test("the key's rate is over the seconds with load, and its refusals are those of its partition", () => {
  const second = (at: number, requestUnits: number, throttled = 0) => ({ second: at, requestUnits, requests: 10, throttled });
  const partitions = [
    { id: "0", minInclusive: "", maxExclusive: "20", lastMinute: [second(95, 50), second(101, 60), second(102, 60, 10)] },
    { id: "1", minInclusive: "20", maxExclusive: "FF", lastMinute: [second(102, 60)] },
  ];
  const top = { by: "ru", since: 100, othersAtMost: 0, total: 180, keys: [{ key: '["a"]', epk: "1C00", amount: 120, error: 0 }] };
  const key = hotKeyOf(top, partitions);
  assert.deepEqual(key, { name: "a", epk: "1C00", share: 120 / 180, ruPerSecond: 60, partition: "0", refused: 10 / 30 });
  assert.equal(hotKeyOf({ ...top, keys: [], total: 0 }, partitions), null);
});

test("a partition at its share beside a cool one is hot", () => {
  assert.deepEqual(found([partition("0", { busyRu: 900 }), partition("1")]), ["hot-partition"]);
  assert.deepEqual(found([partition("0", { busyRu: 900 }), partition("1", { busyRu: 700 })]), []);
  assert.deepEqual(found([partition("0", { busyRu: 900, ruPerSecond: null }), partition("1")]), []);
});

test("refusals are told, and that all partitions are busy", () => {
  const busy = { busyRu: 950, throttled: 20 };
  const [advice] = adviceFrom(CONTAINER_RULES, container([partition("0", busy), partition("1", busy)]));
  assert.equal(advice?.happened, "The throughput is used up.");
  assert.deepEqual(found([partition("0", { throttled: 40 }), partition("1")]), ["throttled"]);
  assert.deepEqual(found([partition("0", { ...busy, throttled: 5 })]), []);
});

test("a key near its limit comes first", () => {
  const large = partition("0", { bytes: 45e9, largestKeys: [{ key: '["a"]', bytes: 17e9 }] });
  assert.deepEqual(found([large, partition("1", { bytes: 44e9 })]), ["large-key", "full", "full"]);
});

test("uneven data and a large index are told", () => {
  assert.deepEqual(found([partition("0", { bytes: 2e9, indexBytes: 1e9 }), partition("1")]), ["uneven", "index"]);
});

test("queries that ask several partitions are told, with another key if they are most", () => {
  const both = [partition("0"), partition("1")];
  const wide = { count: 90, partitions: 180 };
  const [advice] = adviceFrom(CONTAINER_RULES, container(both, { forms: [wide, { count: 10, partitions: 10 }] }));
  assert.equal(advice?.happened, "90 % of the query pages ask several physical partitions.");
  assert.equal(advice?.ways?.[0]?.tab, "prediction");
  assert.deepEqual(found(both, { forms: [{ count: 95, partitions: 190 }] }), [], "below a hundred pages a share says nothing");
});

const RUN: QueryFacts = {
  text: "SELECT * FROM c",
  keyPaths: ["/pk"],
  asked: 1,
  all: 2,
  isSinglePartition: true,
  retrieved: 4,
  rows: 4,
  rowBytes: 100,
  ru: 100,
  parts: [{ what: "items loaded", ru: 80 }, { what: "requests of queries", ru: 5 }],
  access: { isScan: false, walked: 0 },
  missing: [],
  missingComposite: [],
};
const FORM: QueryFacts = { ...RUN, ru: 3, parts: [], access: null };

function rules(base: QueryFacts, changed: Partial<QueryFacts>): string[] {
  return adviceFrom(QUERY_RULES, { ...base, ...changed }).map(({ rule }) => rule);
}

test("a run names the scan, the walk, the candidates and the fan-out", () => {
  const scan = { access: { isScan: true, walked: 0 }, retrieved: 1_000, rows: 3, asked: 2, isSinglePartition: false };
  assert.deepEqual(rules(RUN, scan), ["scan", "fan-out"]);
  const [advice] = adviceFrom(QUERY_RULES, { ...RUN, ...scan });
  assert.ok(advice);
  assert.match(adviceText(advice), /1,000 items for 3 rows\. That is 80 % of the charge\./);
  assert.deepEqual(rules(RUN, { access: { isScan: false, walked: 400 }, rows: 6 }), ["order-walk"]);
  assert.deepEqual(rules(RUN, { retrieved: 100 }), ["items"]);
  assert.deepEqual(rules(RUN, { rows: 2_000, retrieved: 2_000 }), ["large"]);
  assert.deepEqual(rules(RUN, {}), []);
});

test("a form names missing indexes, candidates, fan-out, its price and its words", () => {
  assert.deepEqual(rules(FORM, {}), []);
  assert.deepEqual(rules(FORM, { asked: 4, isSinglePartition: false }), ["fan-out"]);
  assert.deepEqual(rules(FORM, { missing: ["/views/?"], missingComposite: ["/a ASC, /b DESC"] }), ["index", "index"]);
  assert.deepEqual(rules(FORM, { retrieved: 5_000, rows: 10 }), ["items"]);
  assert.deepEqual(rules(FORM, { ru: 400 }), ["large"]);
  assert.deepEqual(rules(FORM, { text: "SELECT * FROM c WHERE CONTAINS(c.t, ?)" }), ["text"]);
  assert.deepEqual(rules(FORM, { text: "SELECT * FROM c WHERE FULLTEXTCONTAINS(c.t, ?)" }), []);
});

test("no rule is in both tables, and none twice", () => {
  const ids = [...CONTAINER_RULES.map(({ id }) => `container ${id}`), ...QUERY_RULES.map(({ id }) => `query ${id}`)];
  assert.equal(new Set(ids).size, ids.length);
});
