/** Tests of the modules that keep queries: tabs, addresses, files of saved queries. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { savedFile, savedOfFile } from "./history.ts";
import { FIRST_QUERY, keyValueOf, newTab, parsedValue, readWorkspace, withAddress, type Workspace } from "./workspace.ts";

function workspaceOf(...texts: string[]): Workspace {
  const tabs: Workspace["tabs"][number][] = [];
  for (const text of texts) tabs.push(newTab(tabs, text));
  return { tabs, current: tabs[0]?.id ?? "" };
}

test("a query of an address takes the tab without typed text, or a new one", () => {
  const fresh = withAddress(workspaceOf(FIRST_QUERY), "SELECT 1", [], null);
  assert.deepEqual(fresh.tabs.map((tab) => tab.text), ["SELECT 1"]);
  const second = withAddress(workspaceOf("SELECT 2"), "SELECT 1", [{ name: "@a", text: "1" }], ["k"]);
  assert.deepEqual(second.tabs.map((tab) => tab.text), ["SELECT 2", "SELECT 1"]);
  assert.equal(second.current, second.tabs[1]?.id);
  assert.deepEqual(second.tabs[1]?.key, ["k"]);
});

test("a query that is open already is selected, not opened again", () => {
  const before = workspaceOf("SELECT 1", "SELECT 2");
  const after = withAddress(before, "SELECT 2", [], null);
  assert.equal(after.tabs.length, 2);
  assert.equal(after.current, before.tabs[1]?.id);
});

test("the names of new tabs are free", () => {
  const { tabs } = workspaceOf("a", "b", "c");
  const left = tabs.filter((tab) => tab.name !== "Query 2");
  assert.equal(newTab(left, "").name, "Query 2");
});

test("a browser without storage starts with a first query", () => {
  const workspace = readWorkspace("db", "coll");
  assert.deepEqual(workspace.tabs.map((tab) => tab.text), [FIRST_QUERY]);
});

test("a value of a partition key is JSON, or else a text", () => {
  assert.equal(keyValueOf("12"), 12);
  assert.equal(keyValueOf("true"), true);
  assert.equal(keyValueOf("null"), null);
  assert.equal(keyValueOf('"12"'), "12");
  assert.equal(keyValueOf("customer-1"), "customer-1");
  assert.equal(keyValueOf("[1]"), "[1]");
  assert.match(parsedValue("text").error ?? "", /no JSON/);
});

test("a file of saved queries is read back, and another file is refused", () => {
  const query = { name: "n <b>", text: "SELECT 1", parameters: [{ name: "@a", text: "1" }], key: null };
  assert.deepEqual(savedOfFile(savedFile([query])), [query]);
  assert.deepEqual(savedOfFile('{"queries":[1,{"name":2}]}'), []);
  assert.equal(savedOfFile("[]"), null);
  assert.equal(savedOfFile("no JSON"), null);
});
