/** Tests of the modules behind the results: headers, plan, reasons, advice, tables, exports. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { type IndexingPolicy, jsonDiff, mergedUses, withContext, withIndexes } from "./advice.ts";
import { type Explanation, hintsOf, type IndexUse, parseChargeParts, parseExplanation, parseIndexUse, parseMetrics } from "./answers.ts";
import { series } from "./chart_data.ts";
import { toCsv, toJson } from "./export_rows.ts";
import { accessWords, planOf, shortRange } from "./plan.ts";
import { cellText, cellValue, ColumnSet, COLUMNS_MAX, sortedIndexes } from "./table.ts";

test("the headers of a page give its figures", () => {
  const metrics = parseMetrics(
    "totalExecutionTimeInMs=2.00;retrievedDocumentCount=6;retrievedDocumentSize=1470;outputDocumentCount=5;outputDocumentSize=1225;indexUtilizationRatio=0.83",
  );
  assert.equal(metrics?.retrievedCount, 6);
  assert.equal(metrics?.indexHitRatio, 0.83);
  assert.equal(metrics?.totalMs, 2);
  assert.equal(parseMetrics(null), null);
  const parts = encodeURIComponent(
    JSON.stringify({ charge: 2.8, parts: [{ what: "items loaded", count: 3, ru: 0.04 }, { what: "rounding", count: 1, ru: 0.001 }] }),
  );
  assert.deepEqual(parseChargeParts(parts), [{ what: "items loaded", count: 3, ru: 0.04 }]);
  assert.deepEqual(parseChargeParts("%7Bbroken"), []);
});

test("index metrics are UTF-8 in base64", () => {
  const document = {
    UtilizedSingleIndexes: [{ IndexSpec: "/größe/?", IndexImpactScore: "High" }],
    PotentialCompositeIndexes: [{ IndexSpecs: ["/a ASC", "/b DESC"], IndexImpactScore: "High" }],
  };
  const header = Buffer.from(JSON.stringify(document)).toString("base64");
  assert.deepEqual(parseIndexUse(header), [
    { paths: ["/größe/?"], isComposite: false, isUsed: true, impact: "High" },
    { paths: ["/a ASC", "/b DESC"], isComposite: true, isUsed: false, impact: "High" },
  ]);
  assert.deepEqual(parseIndexUse("no base64!"), []);
});

test("the hints of all pages are shown once", () => {
  const document = { condition: "all", ranges: [], hints: ["write ARRAY_CONTAINS(@list, c.a)"] };
  const page = parseExplanation(encodeURIComponent(JSON.stringify(document)));
  assert.deepEqual(hintsOf([page, null, page]), ["write ARRAY_CONTAINS(@list, c.a)"]);
  assert.deepEqual(explanation([]).hints, []);
});

function explanation(ranges: unknown[], rangesAsked = ranges.length): Explanation {
  const document = { condition: "/a = 1", conditionIsExact: true, order: [], ranges, rangesAsked, itemsParsed: 0, rows: 1 };
  const parsed = parseExplanation(encodeURIComponent(JSON.stringify(document)));
  assert.ok(parsed);
  return parsed;
}

const RANGES = [
  { id: "0", minInclusive: "", maxExclusive: "05C1DF" },
  { id: "1", minInclusive: "05C1DF", maxExclusive: "FF" },
];

test("the plan sums the pages of each partition and shows the ones that were not asked", () => {
  const page = (loaded: number): Explanation =>
    explanation([{ range: "1", access: "index /a = 1", work: { seeks: 1, loadedItems: loaded }, charge: "2.8" }]);
  const plan = planOf([page(2), page(3)], RANGES);
  assert.ok(plan);
  assert.equal(plan.asked, 1);
  assert.equal(plan.all, 2);
  assert.equal(plan.rows[0]?.isAsked, false);
  const row = plan.rows[1];
  assert.ok(row);
  assert.equal(row.loaded, 5);
  assert.equal(row.candidates, 5);
  assert.equal(row.returned, 2);
  assert.equal(row.ru, 5.6);
  assert.equal(row.pages, 2);
  assert.deepEqual(row.access, ["index /a = 1"]);
  assert.equal(shortRange(row), "05C1DF – FFFF");
  assert.equal(planOf([], RANGES), null);
});

test("rows that several partitions may have given are assigned to none of them", () => {
  const range = (id: string, loaded: number) => ({ range: id, access: "full scan", work: { loadedItems: loaded }, charge: "2" });
  const merged = planOf([explanation([range("0", 4), range("1", 3)])], RANGES);
  assert.deepEqual(merged?.rows.map((row) => row.returned), [null, null]);
  assert.equal(merged?.returned, 1);
  const alone = planOf([explanation([range("0", 0), range("1", 3)])], RANGES);
  assert.deepEqual(alone?.rows.map((row) => row.returned), [0, 1]);
});

test("partitions that a split replaced, and a list that the server cut, stay visible", () => {
  const plan = planOf([explanation([{ range: "7", access: "full scan", work: {}, charge: "2.7" }], 60)], RANGES);
  assert.ok(plan);
  assert.equal(plan.rows.length, 3);
  assert.equal(plan.rows[2]?.returned, 1);
  assert.equal(plan.isCut, true);
  assert.match(accessWords("full scan"), /every item/);
});

const COMPOSITE: IndexUse = { paths: ["/type ASC", "/date DESC"], isComposite: true, isUsed: false, impact: "High" };

test("advice adds indexes to a copy of the policy, and each only once", () => {
  const policy: IndexingPolicy = {
    indexingMode: "consistent",
    includedPaths: [{ path: "/*" }],
    excludedPaths: [{ path: "/text/?" }, { path: '/"_etag"/?' }],
    spatialIndexes: [{ path: "/place/*" }],
  };
  const text: IndexUse = { paths: ["/text/?"], isComposite: false, isUsed: false, impact: "High" };
  const once = withIndexes(policy, [COMPOSITE, text]);
  const twice = withIndexes(once, [COMPOSITE, text]);
  assert.deepEqual(once, twice);
  assert.deepEqual(once.compositeIndexes, [
    [{ path: "/type", order: "ascending" }, { path: "/date", order: "descending" }],
  ]);
  assert.deepEqual(once.excludedPaths, [{ path: '/"_etag"/?' }]);
  assert.deepEqual(once.includedPaths, [{ path: "/*" }, { path: "/text/?" }]);
  assert.deepEqual(once["spatialIndexes"], policy["spatialIndexes"]);
  assert.equal(policy.excludedPaths?.length, 2);
});

test("a path below an excluded one is included, and indexing is switched on", () => {
  const policy: IndexingPolicy = { indexingMode: "none", includedPaths: [], excludedPaths: [{ path: "/*" }] };
  const use: IndexUse = { paths: ["/a/b/?"], isComposite: false, isUsed: false, impact: "High" };
  const result = withIndexes(policy, [use]);
  assert.equal(result.indexingMode, "consistent");
  assert.deepEqual(result.includedPaths, [{ path: "/a/b/?" }]);
  assert.deepEqual(result.excludedPaths, [{ path: "/*" }]);
});

test("an index that one page used is used", () => {
  assert.deepEqual(mergedUses([[COMPOSITE], [{ ...COMPOSITE, isUsed: true }], [COMPOSITE]]).map((use) => use.isUsed), [true]);
});

test("a difference of documents has the lines that were added and removed", () => {
  const lines = jsonDiff({ a: 1, b: [1] }, { a: 1, b: [1, 2] });
  assert.deepEqual(
    lines.filter((line) => line.kind !== "same").map((line) => `${line.kind} ${line.text.trim()}`),
    ["removed 1", "added 1,", "added 2"],
  );
  const long = Array.from({ length: 20 }, (_, index) => index);
  const shown = withContext(jsonDiff(long, [...long.slice(0, 10), 99, ...long.slice(10)]), 1);
  assert.deepEqual(shown.map(({ kind }) => kind), ["gap", "same", "added", "same", "gap"]);
});

const ROWS = [{ id: "1", n: 2, _ts: 1 }, { id: "2", nested: { a: [1] } }, 5, [1], null];

test("columns come from all rows; scalars have a column of their own", () => {
  const set = new ColumnSet();
  set.add(ROWS);
  const { list, leftOut } = set.columns();
  assert.deepEqual(list.map((column) => column.title), ["(value)", "id", "n", "nested", "_ts"]);
  assert.equal(leftOut, 0);
  assert.equal(cellValue(ROWS[2], list[0] ?? { name: "", title: "" }), 5);
  assert.equal(cellValue(ROWS[0], { name: "toString", title: "" }), undefined);
});

test("a row of ten thousand members has a bounded table", () => {
  const set = new ColumnSet();
  set.add([Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`p${index}`, index]))]);
  assert.equal(set.columns().list.length, COLUMNS_MAX);
  assert.equal(set.columns().leftOut, 10_000 - COLUMNS_MAX);
});

test("a cell of two megabytes is short", () => {
  assert.equal(cellText("x".repeat(2_000_000)).length, 201);
  assert.ok(cellText({ a: "x".repeat(2_000_000), b: Array(100_000).fill(1) }).length <= 201);
  assert.equal(cellText({ a: [1, null, true] }), '{"a":[1,null,true]}');
  assert.equal(cellText(undefined), "");
  assert.equal(cellText(null), "null");
});

test("rows of mixed types sort by type, then value, and stay in order otherwise", () => {
  const rows = [{ v: "b" }, { v: 2 }, {}, { v: null }, { v: "a" }, { v: 10 }, { v: true }];
  const column = { name: "v", title: "v" };
  assert.deepEqual(sortedIndexes(rows, column, false), [2, 3, 6, 1, 5, 4, 0]);
  assert.deepEqual(sortedIndexes(rows, column, true), [0, 4, 5, 1, 6, 3, 2]);
});

test("CSV quotes, keeps nested JSON, and defuses formulas", () => {
  const columns = [{ name: "a", title: "a" }, { name: "b", title: 'b"' }];
  const rows = [{ a: 'x,"y"\n', b: { c: 1 } }, { a: "=1+1", b: -5 }, { a: null }];
  assert.equal(toCsv(rows, columns), 'a,"b"""\r\n"x,""y""\n","{""c"":1}"\r\n\'=1+1,-5\r\nnull,\r\n');
  assert.deepEqual(JSON.parse(toJson(rows)), rows);
});

test("a chart sorts numbers, names texts, and counts what it leaves out", () => {
  const x = { name: "x", title: "x" };
  const y = { name: "y", title: "y" };
  const rows = [{ x: 2, y: 1 }, { x: 1, y: 3 }, { x: 5 }];
  assert.deepEqual(series(rows, x, y, "line"), { x: [1, 2], y: [3, 1], labels: null, withoutNumber: 1, leftOut: 0 });
  assert.deepEqual(series(rows, x, y, "bar").labels, ["2", "1"]);
});
