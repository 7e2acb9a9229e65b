/** Stored procedures, triggers and functions: create, edit, run, cancel, delete. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { freshName, looksRight, owner, person } from "../world.js";

async function prepared(stem) {
  const account = await owner();
  const database = freshName(stem);
  await account.database(database);
  await account.container(database, "c", "/pk");
  const add = async (kind, body) => account.data("POST", `/dbs/${database}/colls/c/${kind}`, { body });
  return { account, database, add, path: (kind) => `#/data/${database}/c/scripts/${kind}` };
}

const ECHO = 'function (a, b) { console.log("first: %s", a); getContext().getResponse().setBody({ a: a, b: b }); }';

async function write(page, text) {
  await page.getByRole("textbox", { name: "Source text" }).focus();
  await page.keyboard.press("ControlOrMeta+A");
  await page.keyboard.insertText(text);
}

test("a stored procedure is created, run with typed parameters, and its log is shown", async (t) => {
  const { database, path } = await prepared("script-run");
  const page = await person(t, { path: path("sprocs") });
  await page.getByRole("button", { name: "New stored procedure" }).click();
  await page.getByRole("button", { name: "Create stored procedure" }).click();
  await page.getByText("The name is missing.").waitFor();
  await page.getByLabel("Name", { exact: true }).fill("echo 'x' 😀");
  await write(page, ECHO);
  await page.getByRole("button", { name: "Create stored procedure" }).click();
  const run = page.getByRole("region", { name: "Run" });
  await run.getByRole("button", { name: "Run" }).click();
  await run.getByText("The partition key value is missing.").waitFor();
  await run.getByLabel("Partition key value (/pk)").fill("a");
  await run.getByRole("button", { name: "Add a parameter" }).click();
  await run.getByRole("group", { name: "Parameter 1" }).getByLabel("Value").fill("<b>one</b>");
  await run.getByRole("button", { name: "Add a parameter" }).click();
  await run.getByRole("group", { name: "Parameter 2" }).getByLabel("Parameter 2", { exact: true }).selectOption("number");
  await run.getByRole("group", { name: "Parameter 2" }).getByLabel("Value").fill("x");
  await run.getByRole("button", { name: "Run" }).click();
  await run.getByText("The value is not a number.").waitFor();
  await run.getByRole("group", { name: "Parameter 2" }).getByLabel("Value").fill("2.5");
  await run.getByRole("button", { name: "Run" }).click();
  await run.getByRole("textbox", { name: "Result" }).getByText("2.5").waitFor();
  await run.getByRole("tab", { name: "console.log" }).click();
  await run.getByText("first: <b>one</b>").waitFor();
  assert.match(page.url(), new RegExp(`#/data/${database}/c/scripts/sprocs/echo`));
});

test("a stored procedure is edited, and a failure of its code is shown", async (t) => {
  const { add, path } = await prepared("script-edit");
  await add("sprocs", { id: "p", body: ECHO });
  const page = await person(t, { path: `${path("sprocs")}/p` });
  await page.getByRole("textbox", { name: "Source text" }).getByText("console.log").waitFor();
  await write(page, 'function () { throw new Error("the words of the script"); }');
  await page.getByText("The saved text runs.").waitFor();
  await page.keyboard.press("ControlOrMeta+S");
  await page.getByText("The stored procedure was saved.").waitFor();
  await page.getByText("unsaved", { exact: true }).waitFor({ state: "detached" });
  await page.getByLabel("Partition key value (/pk)").fill("a");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("alert").getByText(/the words of the script/).waitFor();
});

test("a run that does not end is cancelled", async (t) => {
  const { account, add, database, path } = await prepared("script-cancel");
  await add("sprocs", { id: "p", body: ECHO });
  const rule = await account.manage("POST", "/faults", {
    body: { operations: ["execute_stored_procedure"], database, delayMilliseconds: 3_600_000 },
  });
  t.after(() => account.manage("DELETE", `/faults/${rule.body.id}`));
  const page = await person(t, { path: `${path("sprocs")}/p` });
  await page.getByLabel("Partition key value (/pk)").fill("a");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByText("The run was cancelled.").waitFor();
});

test("a trigger has a type and an operation, and is deleted", async (t) => {
  const { account, database, path } = await prepared("script-trigger");
  const page = await person(t, { path: path("triggers") });
  await page.getByRole("button", { name: "New trigger" }).click();
  await page.getByLabel("Name", { exact: true }).fill("stamp");
  await page.getByLabel("Type", { exact: true }).selectOption("Post");
  await page.getByLabel("Operation", { exact: true }).selectOption("Create");
  await page.getByRole("button", { name: "Create trigger" }).click();
  await page.getByText("x-ms-documentdb-post-trigger-include").waitFor();
  const { body } = await account.data("GET", `/dbs/${database}/colls/c/triggers`);
  const [trigger] = body.Triggers;
  assert.deepEqual([trigger.id, trigger.triggerType, trigger.triggerOperation], ["stamp", "Post", "Create"]);
  await page.getByRole("button", { name: "Delete the trigger" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete trigger" }).click();
  await page.getByText("No trigger yet.").waitFor();
});

test("a function is created and leads to a query that calls the function", async (t) => {
  const { database, path } = await prepared("script-function");
  const page = await person(t, { path: `${path("udfs")}?new=1` });
  await page.getByLabel("Name", { exact: true }).fill("twice");
  await page.getByRole("button", { name: "Create function" }).click();
  const link = page.getByRole("link", { name: "Use in a query" });
  await link.waitFor();
  const target = await link.getAttribute("href");
  assert.ok(target.startsWith(`#/data/${database}/c/query?`) && target.includes("udf.twice"), target);
});

test("the scripts tab looks right", async (t) => {
  const { add, path } = await prepared("script-look");
  await add("sprocs", { id: "p", body: ECHO });
  await looksRight(t, "data-scripts", `${path("sprocs")}/p`, async (page) => {
    await page.getByRole("textbox", { name: "Source text" }).getByText("console.log").waitFor();
    await page.getByLabel("Partition key value (/pk)").waitFor();
  });
});
