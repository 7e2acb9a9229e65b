/** Tests of json-text.ts, json-stream.ts and csv.ts. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { CsvItemReader, CsvReader, cellOfValue, columnsOf, csvLine, itemLine, separatorOf, valueOfCell } from "./csv.ts";
import { JsonArrayReader, JsonLinesReader, readerFor } from "./json-stream.ts";
import { editableText, feedTexts, indented, itemParts, membersOf, rangeOf } from "./json-text.ts";

const HOSTILE = '{"id":"a/b \\"q\\" \\\\ 😀 <script>alert(1)</script>","n":12345678901234567890,"e":1.0e5,"x":[],"o":{},"in":{"a":[1,{"b":null}]}}';

function readAll(reader, text, size) {
  const items = [];
  for (let at = 0; at < text.length; at += size) items.push(...reader.push(text.slice(at, at + size)));
  return [...items, ...reader.end()];
}

test("indentation changes blanks only", () => {
  assert.deepEqual(JSON.parse(indented(HOSTILE)), JSON.parse(HOSTILE));
  assert.match(indented(HOSTILE), /"n": 12345678901234567890,\n {2}"e": 1\.0e5/);
  assert.equal(indented('{"a":[1,2]}'), '{\n  "a": [\n    1,\n    2\n  ]\n}');
  assert.equal(indented("{ }"), "{}");
  assert.equal(indented('"\\\\"'), '"\\\\"');
  assert.throws(() => indented("{"), SyntaxError);
});

test("members keep the text of their values", () => {
  const members = membersOf(HOSTILE);
  assert.deepEqual(members.map(({ name }) => name), ["id", "n", "e", "x", "o", "in"]);
  assert.equal(members[1].text, "12345678901234567890");
  assert.equal(members[5].text, '{"a":[1,{"b":null}]}');
  assert.deepEqual(membersOf(' { "a" : true , "b":-1 } ').map(({ text }) => text), ["true", "-1"]);
  assert.throws(() => membersOf("[1]"), SyntaxError);
});

test("the place of a value is found by its path", () => {
  const text = ' {"a" : [1, {"b,]": "x}", "\\u0063": -2e3}], "a\\"": {}, "d": 1, "d": true} ';
  const at = (...steps) => {
    const { from, to } = rangeOf(text, steps);
    return text.slice(from, to);
  };
  assert.equal(at(), text.trim());
  assert.equal(at("a"), '[1, {"b,]": "x}", "\\u0063": -2e3}]');
  assert.equal(at("a", "0"), "1");
  assert.equal(at("a", "1", "b,]"), '"x}"');
  assert.equal(at("a", "1", "c"), "-2e3");
  assert.equal(at('a"'), "{}");
  assert.equal(at("d"), "true");
  assert.equal(at("a", "0", "nothing"), "1");
  assert.equal(at("a", "7"), at("a"));
  assert.deepEqual(rangeOf("5", ["a"]), { from: 0, to: 1 });
});

test("an item is shown without the properties of the server", () => {
  const text = '{"id":"1","_rid":"r","_self":"s","_etag":"e","_attachments":"a","_ts":5,"_own":1}';
  assert.equal(editableText(text), '{\n  "id": "1",\n  "_own": 1\n}');
  assert.equal(itemParts(text).system.length, 5);
});

test("a feed gives the text of each element", () => {
  const text = '{"_rid":"x","Documents":[{"a":1.50}, [] ,"s",7],"_count":4}';
  assert.deepEqual(feedTexts(text, "Documents"), ['{"a":1.50}', "[]", '"s"', "7"]);
  assert.deepEqual(feedTexts('{"Documents":[]}', "Documents"), []);
});

test("an array is read the same in pieces of any size", () => {
  const text = `\ufeff[\n${HOSTILE},\n  {"id":"2"} ,{"id":"}]\\""}]\n`;
  for (const size of [1, 2, 3, 7, 1000]) {
    const items = readAll(new JsonArrayReader(), text, size);
    assert.deepEqual(items.map((item) => [item.number, item.line, item.text, item.problem]), [
      [1, 2, HOSTILE, undefined],
      [2, 3, '{"id":"2"}', undefined],
      [3, 3, '{"id":"}]\\""}', undefined],
    ]);
  }
});

test("an element that is no object is refused alone", () => {
  for (const size of [1, 100]) {
    const items = readAll(new JsonArrayReader(), '[1, "a" ,{"id":"x"},[2],null]', size);
    assert.deepEqual(items.map((item) => item.text), ["1", '"a"', '{"id":"x"}', "[2]", "null"]);
    assert.deepEqual(items.map((item) => item.problem === undefined), [false, false, true, false, false]);
  }
});

test("an array without its end is reported", () => {
  const items = readAll(new JsonArrayReader(), '[{"id":"1"},{"id"', 4);
  assert.equal(items[0].problem, undefined);
  assert.match(items[1].problem, /not valid JSON/);
  assert.match(items.at(-1).problem, /no end/);
});

test("text after the array is reported", () => {
  const items = readAll(new JsonArrayReader(), '[{"id":"1"}] {"id":"2"}', 100);
  assert.match(items.at(-1).problem, /after the end/);
});

test("a broken line of JSON lines costs this line only", () => {
  const text = '{"id":"1"}\r\n\n{"id":\n{"id":"3"}';
  for (const size of [1, 5, 100]) {
    const items = readAll(new JsonLinesReader(), text, size);
    assert.deepEqual(items.map((item) => [item.number, item.line, item.problem === undefined]), [
      [1, 1, true],
      [2, 3, false],
      [3, 4, true],
    ]);
  }
});

test("the beginning of a file chooses its reader", () => {
  assert.ok(readerFor(" [1") instanceof JsonArrayReader);
  assert.ok(readerFor('{"id":"1"}\n{"id":"2"}') instanceof JsonLinesReader);
  assert.ok(readerFor('{\n "id":"1"\n}') instanceof JsonArrayReader);
});

test("CSV is read by RFC 4180 in pieces of any size", () => {
  const text = '\ufeffid,text\r\n1,"a ""b"", c"\r\n2,"two\r\nlines"\n\n3,\r\n';
  for (const size of [1, 2, 5, 100]) {
    const records = readAll(new CsvReader(), text, size);
    assert.deepEqual(records.map(({ line, cells }) => [line, cells]), [
      [1, ["id", "text"]],
      [2, ["1", 'a "b", c']],
      [3, ["2", "two\r\nlines"]],
      [6, ["3", ""]],
    ]);
  }
});

test("broken CSV is reported at its line", () => {
  const unclosed = readAll(new CsvItemReader(), 'id\n"a', 3);
  assert.match(unclosed[0].problem, /not closed/);
  const tooLong = readAll(new CsvItemReader(), "id\n1,2", 3);
  assert.match(tooLong[0].problem, /2 cells for 1 columns/);
});

test("an item survives CSV", () => {
  const texts = [
    HOSTILE,
    '{"id":"2","s":"12","t":"true","u":"","v":"{}","w":"=1+1","x":" a ","y":"\\"q\\"","z":null}',
    '{"id":"3","deep":{"a":[1,2.50]},"(odd), name":"line\\nbreak","k":false}',
    '{"id":"4"}',
  ];
  const items = texts.map(membersOf);
  const columns = columnsOf(items.slice(0, 2), ["pk"]);
  assert.deepEqual(columns.slice(0, 2), ["id", "pk"]);
  const file = csvLine(columns) + items.map((members) => itemLine(members, columns)).join("");
  const read = readAll(new CsvItemReader(), file, 11);
  assert.deepEqual(read.map(({ problem }) => problem), [undefined, undefined, undefined, undefined]);
  assert.deepEqual(read.map(({ text }) => JSON.parse(text)), texts.map((text) => JSON.parse(text)));
  assert.match(read[0].text, /12345678901234567890/);
});

test("cells have types", () => {
  assert.equal(valueOfCell("17", "n"), "17");
  assert.equal(valueOfCell("17", "id"), '"17"');
  assert.equal(valueOfCell("0017", "n"), '"0017"');
  assert.equal(valueOfCell("", "n"), undefined);
  assert.equal(cellOfValue('"=SUM(A1)"'), '"=SUM(A1)"');
  assert.equal(separatorOf("a;b;c\n1,2"), ";");
  assert.equal(separatorOf("a,b"), ",");
});

test("the extension of JSON lines decides, so a broken first line costs this line only", () => {
  const text = '{"id":"1","x":\n{"id":"2"}\n{"id":"3"}\n';
  const reader = readerFor(text, "items.jsonl");
  const items = [...reader.push(text), ...reader.end()];
  assert.deepEqual(
    items.map(({ problem }) => problem === undefined),
    [false, true, true],
  );
});

test("a member that occurs twice is refused by name", () => {
  const reader = readerFor("", "items.jsonl");
  const [item] = reader.push('{"id":"1","v":1,"v":2}\n');
  assert.match(item.problem, /member v occurs twice/);
});
