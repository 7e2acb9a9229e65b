/** Tests of the modules behind the editor: statements, completion, diagnostics, format. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { aliases, type CompletionInput, member, propose } from "./completion.ts";
import { marksOfError, plainMessage } from "./diagnostics.ts";
import { formatSql } from "./format_sql.ts";
import { propertiesOf } from "./sample.ts";
import { missingParameters, withoutPlaceholders } from "./placeholders.ts";
import { statementAt, statements, textToRun } from "./statements.ts";
import { tokenize } from "./tokens.ts";

const KEYWORDS = ["SELECT", "FROM", "WHERE", "AND", "OR", "ORDER", "BY", "IN", "JOIN", "VALUE", "TOP", "BETWEEN"];

test("the tokens of any text cover it without a gap", () => {
  const texts = ["", "a\r\nb", `'un"closed\nnext`, "/* open", "1.5e+3.x 0xFF @p 😀 ; >>> --", '"\\"'];
  for (const text of texts) {
    assert.equal(tokenize(text).map((token) => token.text).join(""), text);
  }
});

test("a semicolon in a string or a comment separates nothing", () => {
  const text = "SELECT ';' -- a; b\nFROM c; /* ; */\n\nSELECT 2;\n-- the end";
  assert.deepEqual(
    statements(text).map((statement) => statement.text),
    ["SELECT ';' -- a; b\nFROM c", "/* ; */\n\nSELECT 2"],
  );
});

test("a run sends the selection, or else the statement at the cursor", () => {
  const text = "SELECT 1;\nSELECT 2";
  assert.equal(statementAt(text, 0)?.text, "SELECT 1");
  assert.equal(statementAt(text, 9)?.text, "SELECT 1");
  assert.equal(textToRun(text, 12, 12)?.text, "SELECT 2");
  assert.deepEqual(textToRun(text, 10, 16), { start: 10, end: 16, text: "SELECT" });
  assert.equal(textToRun("  -- nothing", 0, 0), null);
});

function input(items: unknown[]): CompletionInput {
  return {
    language: {
      keywords: KEYWORDS,
      functions: [{ name: "CONTAINS", signature: "CONTAINS(text, part)", help: "Searches." }],
    },
    properties: propertiesOf(items),
    parameters: ["@p", "@day"],
  };
}

function labels(query: string, items: unknown[], asked = true): string[] {
  const at = query.indexOf("|");
  const text = query.replace("|", "");
  return propose(text, at, input(items), asked)?.list.map((proposal) => proposal.label) ?? [];
}

const ITEMS = [
  { id: "1", address: { city: "A", "post code": 1 }, tags: [{ name: "x" }], value: 1 },
  { id: "2", address: null, _etag: "e" },
];

test("properties are proposed by path, through nesting, JOIN and brackets", () => {
  assert.deepEqual(labels("SELECT c.| FROM c", ITEMS), ["address", "id", "tags", "value"]);
  assert.deepEqual(labels("SELECT c.address.ci| FROM c", ITEMS), ["city", "post code"]);
  assert.deepEqual(labels('SELECT c["address"].| FROM c', ITEMS), ["city", "post code"]);
  assert.deepEqual(labels("SELECT t.| FROM c JOIN t IN c.tags", ITEMS), ["name"]);
  assert.deepEqual(labels("SELECT x.| FROM c AS x", ITEMS), ["address", "id", "tags", "value"]);
  assert.deepEqual(labels("SELECT c.tags[0].| FROM c", ITEMS), ["name"]);
  assert.deepEqual(labels("SELECT unknown.| FROM c", ITEMS), []);
});

test("a property tells its types and the share of items that have it", () => {
  const found = propose("SELECT c. FROM c", 9, input(ITEMS), true);
  const address = found?.list.find((proposal) => proposal.label === "address");
  assert.equal(address?.detail, "object | null · 100 %");
  assert.equal(found?.list.find((proposal) => proposal.label === "tags")?.detail, "array · 50 %");
});

test("a name that is no identifier or is a keyword is written in brackets", () => {
  const { language } = input([]);
  assert.equal(member("city", language), ".city");
  assert.equal(member("post code", language), '["post code"]');
  assert.equal(member("value", language), '["value"]');
  assert.equal(member('a"b', language), '["a\\"b"]');
});

test("strings and comments have no proposals, parameters only behind an at sign", () => {
  assert.deepEqual(labels("SELECT 'c.|' FROM c", ITEMS), []);
  assert.deepEqual(labels("SELECT 'c.|", ITEMS), []);
  assert.deepEqual(labels("SELECT 1 -- c.|", ITEMS), []);
  assert.deepEqual(labels("SELECT @|", ITEMS), ["@p", "@day"]);
  assert.deepEqual(labels("SELECT @d|", ITEMS), ["@p", "@day"]);
  assert.deepEqual(labels("SELECT | FROM c", ITEMS, false), []);
  assert.ok(labels("SELECT CON| FROM c", ITEMS, false).includes("CONTAINS"));
  assert.ok(labels("SELECT | FROM c", ITEMS).includes("c"));
});

test("the aliases of FROM and JOIN stand for their paths", () => {
  const found = aliases(tokenize("SELECT * FROM root r JOIN t IN r.a.b JOIN u IN t.c WHERE 1"));
  assert.deepEqual(Object.fromEntries(found), { r: [], t: ["a", "b", "[]"], u: ["a", "b", "[]", "c", "[]"] });
});

function refusal(errors: unknown): string {
  return `Message: ${JSON.stringify(errors)}\r\nActivityId: 1`;
}

test("a mark lies at the server's place, counted in characters, not UTF-16 units", () => {
  const query = "SELECT '😀' = = 1";
  const message = refusal({
    errors: [{ severity: "Error", location: { start: 13, end: 14 }, code: "SC1001", message: "near '='." }],
  });
  const [mark] = marksOfError(message, query, 100);
  assert.ok(mark);
  assert.equal(query.slice(mark.from - 100, mark.to - 100), "=");
  assert.equal(mark.from, 114);
  assert.equal(mark.code, "SC1001");
});

test("an error at the end of the text marks the last word", () => {
  const query = "SELECT * FROM c WHERE\n";
  const message = refusal({
    errors: [{ location: { start: 22, end: 22 }, code: "SC1002", message: "end-of-file" }],
  });
  assert.deepEqual(
    marksOfError(message, query, 0).map((mark) => query.slice(mark.from, mark.to)),
    ["WHERE\n"],
  );
});

test("an error without a place marks the query, another message marks nothing", () => {
  const message = refusal({ Errors: ["No composite index."] });
  assert.deepEqual(marksOfError(message, "SELECT", 0), [
    { from: 0, to: 6, code: "", message: "No composite index." },
  ]);
  assert.deepEqual(marksOfError("Message: {broken", "SELECT", 0), []);
  assert.equal(plainMessage(message), "No composite index.");
  assert.equal(plainMessage("Message: gone\r\nActivityId: 7"), "gone");
});

test("formatting changes no token and is stable", () => {
  const keywords = new Set(KEYWORDS);
  const text =
    "select  top 3 c.id,c[\"a b\"] from c join t in c.tags where c.n between 1 and 2 and (c.a=1 or udf.f(c.b))  -- why\n order by c.n";
  const formatted = formatSql(text, keywords);
  assert.equal(
    formatted,
    [
      'SELECT TOP 3 c.id, c["a b"]',
      "FROM c",
      "JOIN t IN c.tags",
      "WHERE c.n BETWEEN 1 AND 2",
      "  AND (c.a = 1 OR udf.f(c.b)) -- why",
      "ORDER BY c.n",
    ].join("\n"),
  );
  assert.equal(formatSql(formatted, keywords), formatted);
});

test("the placeholders of a query form become parameters with values of the sample", () => {
  const properties = propertiesOf([{ a: { b: "x" }, n: 5, tags: ["t"] }]);
  const form = "SELECT TOP ? * FROM c WHERE c.a.b = ? AND c.n IN (?, ?) AND CONTAINS(c.a.b, ?) AND (c.n > ? ? c.n : ?) OFFSET ? LIMIT ?";
  const filled = withoutPlaceholders(form, properties);
  assert.equal(
    filled.text,
    "SELECT TOP @p1 * FROM c WHERE c.a.b = @p2 AND c.n IN (@p3, @p4) AND CONTAINS(c.a.b, @p5) AND (c.n > @p6 ? c.n : @p7) OFFSET @p8 LIMIT @p9",
  );
  assert.deepEqual(
    filled.parameters.map(({ text }) => text),
    ["10", '"x"', "5", "5", '"x"', "5", "5", "0", "10"],
  );
});

test("parameters without a value get one of the path that they are compared with", () => {
  const properties = propertiesOf([{ a: { b: "x" } }]);
  const text = "SELECT * FROM c WHERE c.a.b = @b AND c.z = @z AND c.a.b != @b AND '@no' = @given";
  assert.deepEqual(missingParameters(text, [{ name: "@given", text: "1" }], properties), [
    { name: "@b", text: '"x"' },
    { name: "@z", text: '""' },
  ]);
});
