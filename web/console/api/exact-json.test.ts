/** Tests of the numbers that JavaScript cannot hold: reading, writing, order, exports, requests. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { inputValue } from "../areas/data/logic/script-input.ts";
import { differences, type JsonValue } from "../areas/feed/diff.ts";
import { SeenVersions } from "../areas/feed/seen.ts";
import { curl } from "../areas/query/copy/curl.ts";
import { csharp } from "../areas/query/copy/csharp.ts";
import { python } from "../areas/query/copy/python.ts";
import { series } from "../areas/query/chart_data.ts";
import { toCsv, toJson } from "../areas/query/export_rows.ts";
import { cellText, sortedIndexes } from "../areas/query/table.ts";
import { keyValueOf, parsedValue } from "../areas/query/workspace.ts";
import { partitionKeyHeader, type Json } from "./data.ts";
import { compareNumbers, ExactNumber, isNumber, jsonText, parseJson } from "./exact-json.ts";

const BIG = "9007199254740993";
const EXACT = [BIG, `-${BIG}`, "1e400", "-1E-400", "-0", "12345678901234567890.5", "0.10000000000000000001", "1.50", "1e2", "0.0000001"];

test("a number keeps its text wherever it stands", () => {
  for (const number of EXACT) {
    for (const text of [number, `[${number}]`, `{"a":${number}}`, `{"a":[{"b":[1,${number},"x"]}]}`]) {
      assert.equal(jsonText(parseJson(text)), text);
      assert.equal(jsonText(parseJson(text.replaceAll(":", " :\n ")), 0), text);
    }
    assert.ok(parseJson(number) instanceof ExactNumber, number);
  }
});

test("other values are those of JSON.parse", () => {
  const plain = ["0", "-1", "-0.5", "1.05", "9007199254740991", "0.1234567890123456", "1e+21", "null", '"a"'];
  const strings = [`"${BIG}"`, '"1e400, -0 1.50"', `{"${BIG}":"\\\\\\": -0, ${BIG}"}`, '{"__proto__":1,"e":"1e5"}'];
  for (const text of [...plain, ...strings]) assert.deepEqual(parseJson(text), JSON.parse(text), text);
  const mixed = parseJson(`{"__proto__":[${BIG}],"a\\\\":": ${BIG}\\"","b":-0}`);
  assert.deepEqual(Object.keys(mixed as object), ["__proto__", "a\\", "b"]);
  assert.equal(jsonText(mixed), `{"__proto__":[${BIG}],"a\\\\":": ${BIG}\\"","b":-0}`);
  for (const text of ["", "1.2.3", "9007199254740993x", '{"a":01}', '"1e400', "[-0"]) {
    assert.throws(() => parseJson(text), SyntaxError, text);
  }
});

test("JSON.stringify writes the nearest number, and nothing of how the text is kept", () => {
  const value = parseJson(`[${BIG},"x"]`);
  assert.equal(JSON.stringify(value), '[9007199254740992,"x"]');
  assert.equal(jsonText([value, undefined, { a: undefined }]), `[[${BIG},"x"],null,{}]`);
  assert.equal(jsonText(value, 2), `[\n  ${BIG},\n  "x"\n]`);
});

test("numbers are compared by all digits", () => {
  const rising = ["-1e400", "-12345678901234567891", "-12345678901234567890.5", "-1", "-0", "1e-400", "0.5", "9007199254740992", BIG, "9007199254740993.5", "1e399", "1e400"];
  const values = rising.map((text) => parseJson(text) as ExactNumber);
  for (const [at, a] of values.entries()) {
    for (const [other, b] of values.entries()) assert.ok(Math.sign(compareNumbers(a, b)) === Math.sign(at - other), `${rising[at]} ${rising[other]}`);
  }
  assert.equal(compareNumbers(parseJson("1.50") as ExactNumber, 1.5), 0);
  const rows = [BIG, "9007199254740992", '"a"', "1"].map((text) => parseJson(`{"v":${text}}`));
  assert.deepEqual(sortedIndexes(rows, { name: "v", title: "v" }, false), [3, 1, 0, 2]);
});

test("cells, exports and charts have the number", () => {
  const rows = parseJson(`[{"v":${BIG},"n":[${BIG}]},{"v":-0,"n":1e400}]`) as Json[];
  const columns = ["v", "n"].map((name) => ({ name, title: name }));
  assert.equal(toCsv(rows, columns), `v,n\r\n${BIG},[${BIG}]\r\n-0,1e400\r\n`);
  assert.match(toJson(rows), new RegExp(`"v": ${BIG},\n    "n": \\[\n      ${BIG}\n`));
  assert.equal(cellText(rows[0]), `{"v":${BIG},"n":[${BIG}]}`);
  assert.equal(cellText((rows[0] as { v: unknown }).v), BIG);
  assert.deepEqual(series(rows, columns[0]!, columns[0]!, "line").y, [0, 2 ** 53].map((y) => (y === 0 ? -0 : y)));
  assert.equal(series(rows, columns[0]!, columns[1]!, "line").withoutNumber, 2);
});

test("parameters, partition keys and inputs are sent as they are typed", () => {
  const { value } = parsedValue(BIG);
  assert.equal(jsonText({ parameters: [{ name: "@v", value }] }), `{"parameters":[{"name":"@v","value":${BIG}}]}`);
  assert.ok(isNumber(keyValueOf(BIG)));
  assert.equal(partitionKeyHeader([keyValueOf(BIG) as Json, "ü"]), `[${BIG},"\\u00fc"]`);
  for (const type of ["number", "JSON"] as const) {
    const input = inputValue({ type, text: ` ${BIG} ` });
    assert.ok("value" in input && jsonText([input.value]) === `[${BIG}]`);
  }
  assert.deepEqual(inputValue({ type: "number", text: "0x10" }), { value: 16 });
  assert.deepEqual(inputValue({ type: "number", text: ".5" }), { value: 0.5 });
  const copy = { endpoint: "http://h", database: "d", container: "c", query: "SELECT 1", parameters: [{ name: "@v", value }], partitionKey: [keyValueOf(BIG)], pageSize: null };
  assert.match(python(copy), new RegExp(`"value": ${BIG}`));
  assert.match(csharp(copy), new RegExp(`JToken.Parse\\("${BIG}"\\)`));
  assert.match(curl(copy), new RegExp(`partitionkey: \\[${BIG}\\]`));
});

test("the change feed sees a change of the last digit", () => {
  const [before, after] = ["9007199254740992", BIG].map((v) => parseJson(`{"v":${v}}`) as JsonValue);
  assert.equal(jsonText(differences(before!, after!)), `[{"kind":"changed","path":"/v","before":9007199254740992,"after":${BIG}}]`);
  const seen = new SeenVersions();
  seen.replace("r", after as Record<string, JsonValue>);
  assert.deepEqual(seen.replace("r", null), after);
});

test("a page without such a number costs little more than JSON.parse", () => {
  const row = { id: "item", _etag: "00000000-0000-0000-0000-000000000000", v: 12.25, _ts: 1_700_000_000, text: "y".repeat(100) };
  const text = JSON.stringify(Array(100_000).fill(row));
  const startedAt = performance.now();
  parseJson(text);
  assert.ok(performance.now() - startedAt < 5_000);
});
