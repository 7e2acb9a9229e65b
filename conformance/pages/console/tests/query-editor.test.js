/**
 * The editor of the query workbench: completion, errors at the server's place, parameters, tabs, files, history.
 */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";

import { editorOf, ended, openWorkbench, run, typeQuery, view } from "../query.js";
import { freshName, owner, person } from "../world.js";

const DATABASE = freshName("editor");
const CONTAINER = "orders \"of\" <b>customers<b> 😀";

before(async () => {
  const admin = await owner();
  await admin.database(DATABASE);
  await admin.container(DATABASE, CONTAINER);
  for (let number = 0; number < 12; number += 1) {
    await admin.item(DATABASE, CONTAINER, {
      id: String(number),
      pk: `k${number % 3}`,
      total: number,
      address: { city: number % 2 ? "Bern" : "Oslo", "post code": number },
      tags: [{ label: "new" }],
    });
  }
});

/** Waits until the marks of errors cover this text; colours may divide a mark into several elements. */
async function marked(page, text) {
  await page.waitForFunction(
    (expected) => [...document.querySelectorAll(".cm-lintRange-error")].map((mark) => mark.textContent).join("") === expected,
    text,
  );
}

/** The proposals that the editor shows. */
function proposals(page) {
  return page.locator(".cm-tooltip-autocomplete li");
}

test("completion proposes properties of a sample by path, elements of JOIN, functions with help, and parameters", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, CONTAINER, "SELECT * FROM c");
  await typeQuery(page, "SELECT * FROM c WHERE c.");
  await page.keyboard.type("addr");
  // The editor ignores Enter in the moment in which proposals appear, so the test takes the mouse.
  await proposals(page).filter({ hasText: "address" }).first().click();
  await page.keyboard.type(".po");
  await proposals(page).filter({ hasText: "post code" }).filter({ hasText: "number · 100 %" }).click();
  await page.keyboard.type(" = 1 AND CONT");
  await proposals(page).filter({ hasText: "CONTAINS" }).first().waitFor();
  await page.locator(".cm-completionInfo").filter({ hasText: "index" }).waitFor();
  await page.keyboard.press("Escape");
  assert.match(await editorOf(page).innerText(), /c\.address\["post code"\] = 1 AND CONT/);

  await typeQuery(page, "SELECT t.l FROM c JOIN t IN c.tags");
  await page.keyboard.press("Home");
  for (let step = 0; step < "SELECT t.l".length; step += 1) await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Control+Space");
  await proposals(page).filter({ hasText: "label" }).waitFor();
});

test("an error is underlined at the place that the server names, also behind an emoji", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, CONTAINER, "SELECT '😀' FROM c WHERE c.total = = 2");
  const mark = page.locator(".cm-lintRange-error");
  await marked(page, "=");
  await mark.first().hover();
  await page.getByText("Syntax error, incorrect syntax near '='.").first().waitFor();

  await typeQuery(page, "SELECT * FROM c WHERE FOO(c.total)");
  await marked(page, "FOO");
  await typeQuery(page, "SELECT * FROM c");
  await marked(page, "");
});

test("a run that the server refuses says why in plain words, with the activity id, and keeps the text", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, CONTAINER, "SELECT * FROM c ORDER BY c.total, c.pk");
  await run(page);
  const alert = page.getByRole("alert").filter({ hasText: "composite index" });
  await alert.waitFor();
  assert.doesNotMatch(await alert.innerText(), /Message:|\{"Errors"/);
  await alert.getByText("Activity id").waitFor();
  assert.equal(await editorOf(page).innerText(), "SELECT * FROM c ORDER BY c.total, c.pk");
});

test("a query that names a parameter gets a value of the sample, and the value can be changed", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, CONTAINER);
  await typeQuery(page, "SELECT VALUE c.id FROM c WHERE c.address.city = @city AND c.total > @least");
  await page.getByRole("button", { name: "Add the parameters" }).click();
  await page.getByRole("textbox", { name: "Value of parameter 1" }).fill('"Bern"');
  await page.getByRole("textbox", { name: "Value of parameter 2" }).fill("8.5");
  await run(page);
  await page.getByText("2 rows of 1 page").waitFor();
  await page.getByRole("textbox", { name: "Value of parameter 2" }).fill("eight");
  await page.getByText("This is no JSON.").waitFor();
});

test("a query form with placeholders opens with parameters and runs", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, CONTAINER, "SELECT c.id FROM c WHERE c.address.city = ? AND c.total >= ?");
  assert.match(await editorOf(page).innerText(), /c\.address\.city = @p1 AND c\.total >= @p2/);
  await run(page);
  await page.getByText(/rows? of 1 page, complete/).waitFor();
});

test("one of several queries runs: the selection, or the query at the cursor", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, CONTAINER);
  await typeQuery(page, "SELECT VALUE 'first; query';\nSELECT VALUE 'second query'");
  await page.keyboard.press("Shift+Enter");
  await ended(page);
  await page.getByRole("grid").getByText("second query").waitFor();
  assert.equal(await page.locator(".cm-line.query-active").innerText(), "SELECT VALUE 'second query'");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("F5");
  await page.getByRole("grid").getByText("first; query").waitFor();
});

test("several queries stay open after a reload, and the address holds the current one", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, CONTAINER);
  await typeQuery(page, "SELECT 'kept' FROM c");
  await page.getByRole("button", { name: "New query" }).click();
  await typeQuery(page, "SELECT 'other' FROM c");
  await page.waitForURL((url) => url.hash.includes("other"));
  await page.reload();
  await editorOf(page).filter({ hasText: "other" }).waitFor();
  await page.getByRole("button", { name: "Query 1", exact: true }).click();
  await editorOf(page).filter({ hasText: "kept" }).waitFor();
  await page.waitForURL((url) => url.hash.includes("kept"));

  const colleague = await person(t);
  await colleague.goto(page.url());
  await editorOf(colleague).filter({ hasText: "kept" }).waitFor();
});

test("the scope of one partition key is part of the run and of the address", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, CONTAINER, "SELECT VALUE c.id FROM c");
  await page.getByRole("button", { name: "All partitions" }).click();
  await page.getByRole("radio", { name: "One partition key" }).check();
  await page.getByRole("textbox", { name: "Partition key /pk" }).fill("k1");
  await run(page);
  await page.getByText("4 rows of 1 page, complete").waitFor();
  await page.waitForURL((url) => url.hash.includes("pk=%5B%22k1%22%5D"));
});

test("history and saved queries bring a query back; a file takes saved queries to another browser", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, CONTAINER, "SELECT VALUE COUNT(1) FROM c");
  await run(page);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("number of <orders>");
  await page.getByRole("button", { name: "Save query" }).click();
  await typeQuery(page, "SELECT 2");
  await view(page, "History");
  await page.getByRole("searchbox", { name: "Search history and saved queries" }).fill("COUNT");
  const entry = page.locator(".query-entry", { hasText: "RU" }).first();
  assert.match(await entry.innerText(), /SELECT VALUE COUNT\(1\) FROM c[\s\S]*RU ·[\s\S]*1 row/);
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download saved queries" }).click();
  const file = await readFile(await (await download).path());
  await entry.getByRole("button").first().click();
  await editorOf(page).filter({ hasText: "SELECT VALUE COUNT(1) FROM c" }).waitFor();

  const other = await person(t);
  await openWorkbench(other, DATABASE, CONTAINER);
  await other.getByLabel("File of saved queries").setInputFiles({ name: "queries.json", mimeType: "application/json", buffer: file });
  await other.getByRole("button", { name: /number of <orders>/ }).first().click();
  await editorOf(other).filter({ hasText: "SELECT VALUE COUNT(1) FROM c" }).waitFor();
});

test("format lays the query out, and a .sql file is opened and downloaded", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, CONTAINER);
  await page.getByLabel("File with a query").setInputFiles({
    name: "report.sql",
    mimeType: "application/sql",
    buffer: Buffer.from("select c.id from c where c.total > 3 and c.pk = 'k1' order by c.total"),
  });
  await page.getByRole("button", { name: "report", exact: true }).waitFor();
  await page.getByRole("button", { name: "Format" }).click();
  const formatted = "SELECT c.id\nFROM c\nWHERE c.total > 3\n  AND c.pk = 'k1'\nORDER BY c.total";
  await page.waitForFunction(
    (text) => [...document.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n") === text,
    formatted,
  );
  await page.getByRole("button", { name: "Files and layout" }).click();
  const download = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "Download as .sql" }).click();
  const file = await download;
  assert.equal(file.suggestedFilename(), "report.sql");
  assert.equal(await readFile(await file.path(), "utf8"), formatted);
});
