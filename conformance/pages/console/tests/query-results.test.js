/**
 * The results of a query: pages and bounds, cancel, 100,000 rows, hostile values, views, copies, statistics.
 */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";

import { chargeOf, createAll, openWorkbench, run, view } from "../query.js";
import { freshName, looksRight, owner, person } from "../world.js";

const DATABASE = freshName("results");
/** Bound on what comes later than its cause. */
const LATER_MS_MAX = 60_000;
/** Pages of queries that the server ended because their clients no longer waited. */
const CANCELLED = "orrery_queries_cancelled_total";
/** Queries that the server carries out. */
const RUNNING = "orrery_queries_running";
const LONG = 2 * 1024 * 1024 - 4096;
const SCRIPT = "<script>document.title = 'hacked'</script><img src=x onerror=alert(1)>";

before(async () => {
  const admin = await owner();
  await admin.database(DATABASE);
  await admin.container(DATABASE, "items");
  const items = [];
  for (let number = 0; number < 400; number += 1) {
    const mixed = [number, `text ${number}`, null, [number], { in: number }, number % 2 === 0][number % 6];
    items.push({ id: String(number), pk: `k${number % 4}`, number, mixed, city: number % 3 ? "Bern" : "Oslo" });
  }
  await createAll(admin, DATABASE, "items", items);
  // The elements are not indexed, because a batch of all their entries would be too large.
  const indexingPolicy = { includedPaths: [], excludedPaths: [{ path: "/*" }] };
  await admin.container(DATABASE, "arrays", "/pk", { indexingPolicy });
  const numbers = (length) => Array.from({ length }, (_, at) => at);
  const arrays = numbers(100).map((n) => ({ id: String(n), pk: "a", n, hundred: numbers(100), thousand: numbers(1000) }));
  await createAll(admin, DATABASE, "arrays", arrays);
  await admin.container(DATABASE, "hostile");
  await admin.item(DATABASE, "hostile", { id: "script", pk: "a", text: SCRIPT, [SCRIPT]: 1 });
  await admin.item(DATABASE, "hostile", { id: "long", pk: "a", text: "x".repeat(LONG) });
});

test("pages are loaded one by one, or all, with their sum of request units", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, "items", "SELECT * FROM c");
  await run(page);
  await page.getByText("100 rows of 1 page").waitFor();
  const first = await chargeOf(page);
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByText("200 rows of 2 pages").waitFor();
  await page.getByRole("button", { name: "Load all" }).click();
  await page.getByText(/400 rows of \d+ pages, complete/).waitFor();
  assert.ok((await chargeOf(page)) > 2 * first);

  // The column holds the rows of all pages in order, in both directions.
  const grid = page.getByRole("grid", { name: "Rows" });
  const heading = grid.getByRole("columnheader", { name: /number/ });
  const firstNumber = async () => grid.getByRole("row").nth(1).getByRole("gridcell").nth(3).innerText();
  await heading.getByRole("button").click();
  const sorted = grid.locator("th[aria-sort=ascending], th[aria-sort=descending]");
  await sorted.waitFor();
  const other = (await sorted.getAttribute("aria-sort")) === "ascending" ? "descending" : "ascending";
  const ends = [await firstNumber()];
  await heading.getByRole("button").click();
  await grid.locator(`th[aria-sort=${other}]`).waitFor();
  ends.push(await firstNumber());
  assert.deepEqual(ends.sort(), ["0", "399"]);
  await view(page, "Statistics");
  await page.getByText("Documents retrieved").waitFor();
  const pages = page.getByRole("region", { name: "Requests" }).getByRole("row");
  assert.ok((await pages.count()) >= 4, "a heading and a row for each request");
});

test("the RU limit of a run stops further pages until a person loads on", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, "items", "SELECT * FROM c");
  await page.getByRole("button", { name: "All partitions" }).click();
  await page.getByLabel("RU limit of a run, 0 for none").fill("1");
  await page.getByLabel("Items of a page").fill("10");
  await run(page);
  await page.getByText("The RU limit of a run is reached").waitFor();
  await page.getByText("10 rows of 1 page").waitFor();
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByText("20 rows of 2 pages").waitFor();
});

/** Returns the value of a metric of the server. */
async function metric(admin, name) {
  const { body } = await admin.manage("GET", "/metrics");
  return Number(new RegExp(`^${name} (\\d+)`, "m").exec(body)[1]);
}

/** Waits until a metric of the server has more than a value; each answer is an event. */
async function waitForMore(admin, name, value) {
  const end = Date.now() + LATER_MS_MAX;
  while ((await metric(admin, name)) <= value) {
    assert.ok(Date.now() < end, `${name} stays at ${value}`);
  }
}

test("cancel aborts the request on the server and keeps what was loaded", async (t) => {
  const page = await person(t);
  const admin = await owner();
  const before = await metric(admin, CANCELLED);
  const joins = ["a", "b", "d", "e", "f"].map((name) => `JOIN ${name} IN c.hundred`).join(" ");
  const endless = `SELECT VALUE COUNT(1) FROM c ${joins} WHERE a + b + d + e + f < 0`;
  await openWorkbench(page, DATABASE, "arrays", endless);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  // A request that the browser gives up before the server has it is nothing that the server could count.
  await waitForMore(admin, RUNNING, 0);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("The query was cancelled").waitFor();
  await waitForMore(admin, CANCELLED, before);
});

test("100,000 rows stay in the table and scroll to the last one", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, "arrays", "SELECT c.n, element FROM c JOIN element IN c.thousand");
  await page.getByRole("button", { name: "All partitions" }).click();
  await page.getByLabel("RU limit of a run, 0 for none").fill("0");
  await page.getByLabel("Items of a page").fill("1000");
  await run(page);
  await page.getByRole("button", { name: "Load all" }).click();
  await page.getByText(/100,000 rows of \d+ pages, complete/).waitFor({ timeout: 240_000 });
  const grid = page.getByRole("grid", { name: "Rows" });
  assert.equal(await grid.getAttribute("aria-rowcount"), "100001");
  assert.ok((await grid.getByRole("row").count()) < 200, "only the visible rows are in the page");
  await grid.getByRole("row").nth(1).focus();
  await page.keyboard.press("End");
  await grid.getByText("100,000", { exact: true }).waitFor();
  await grid.getByRole("button", { name: /element/ }).click();
  const sorted = grid.locator("th[aria-sort=ascending], th[aria-sort=descending]");
  await sorted.waitFor();
  const last = (await sorted.getAttribute("aria-sort")) === "ascending" ? "999" : "0";
  await grid.getByRole("row").nth(1).focus();
  await page.keyboard.press("End");
  const cell = grid.locator('tr[aria-rowindex="100001"]').getByRole("gridcell").nth(2);
  assert.equal(await cell.innerText(), last);
});

test("scripts in items are text, and a value of two megabytes is cut with a notice", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, "hostile", "SELECT * FROM c");
  await run(page);
  const grid = page.getByRole("grid", { name: "Rows" });
  await grid.getByText("document.title").first().waitFor();
  assert.ok((await grid.innerHTML()).length < 100_000, "a long value is cut in its cell");
  for (const name of ["JSON", "Tree", "Chart", "Table"]) await view(page, name);
  await grid.getByRole("row").filter({ hasText: "xxxx" }).first().click();
  await page.getByRole("dialog").getByText(/The first .* of [\d.]+ MiB are shown/).waitFor();
  await page.keyboard.press("Escape");
  assert.doesNotMatch(await page.title(), /hacked/);
});

test("rows are seen as JSON, as a tree and as a chart, and are downloaded as JSON and CSV", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, "items", "SELECT c.id, c.number, c.mixed FROM c WHERE c.number < 20 ORDER BY c.number");
  await run(page);
  await view(page, "JSON");
  await page.getByRole("textbox", { name: "Rows as JSON" }).getByText('"number": 1').first().waitFor();
  await view(page, "Tree");
  await page.locator(".query-node").first().click();
  await page.locator(".query-leaf", { hasText: "number" }).first().waitFor();
  await view(page, "Chart");
  await page.locator(".chart canvas").waitFor();
  await page.getByRole("combobox", { name: "Chart" }).selectOption("scatter");
  await page.getByRole("img", { name: /number by id: 20 points/ }).waitFor();
  for (const [item, check] of [
    ["Download JSON", (text) => assert.equal(JSON.parse(text).length, 20)],
    ["Download CSV", (text) => assert.match(text, /^id,number,mixed\r\n0,0,0\r\n1,1,text 1\r\n2,2,null\r\n/)],
  ]) {
    await page.getByRole("button", { name: "Copy or download" }).click();
    const download = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: item }).click();
    check(await readFile(await (await download).path(), "utf8"));
  }
});

test("a number beyond 2^53 is asked, shown and exported with all its digits", async (t) => {
  const admin = await owner();
  const exact = "9007199254740993";
  const headers = { "x-ms-documentdb-partitionkey": '["a"]' };
  const container = freshName("exact");
  await admin.container(DATABASE, container);
  for (const [id, v] of [["near", "9007199254740992"], ["exact", exact]]) {
    const body = `{"id":"${id}","pk":"a","v":${v},"nested":[9007199254740995]}`;
    await admin.data("POST", `/dbs/${DATABASE}/colls/${container}/docs`, { body, headers });
  }
  const page = await person(t);
  await openWorkbench(page, DATABASE, container, "SELECT c.id, c.v, c.nested FROM c WHERE c.v = @v");
  await page.getByRole("textbox", { name: "Value of parameter 1" }).fill(exact);
  await run(page);
  const row = page.getByRole("grid", { name: "Rows" }).getByRole("row").nth(1);
  await row.getByRole("gridcell", { name: exact, exact: true }).waitFor();
  await row.getByRole("gridcell", { name: "[9007199254740995]", exact: true }).waitFor();
  await view(page, "JSON");
  await page.getByRole("textbox", { name: "Rows as JSON" }).getByText(`"v": ${exact}`).waitFor();
  await view(page, "Tree");
  await page.locator(".query-node").first().click();
  await page.locator(".query-leaf", { hasText: exact }).waitFor();
  for (const [item, expected] of [
    ["Download JSON", /"v": 9007199254740993,\s+"nested": \[\s+9007199254740995\s/],
    ["Download CSV", /^id,v,nested\r\nexact,9007199254740993,\[9007199254740995\]\r\n$/],
  ]) {
    await page.getByRole("button", { name: "Copy or download" }).click();
    const download = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: item }).click();
    assert.match(await readFile(await (await download).path(), "utf8"), expected);
  }
});

test("a row that is a whole item opens in the items tab", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, "items", "SELECT * FROM c WHERE c.id = '7'");
  await run(page);
  await page.getByRole("grid", { name: "Rows" }).getByRole("row").nth(1).click();
  await page.getByRole("dialog").getByRole("button", { name: "Edit item" }).click();
  await page.waitForURL((url) => url.hash.includes("/items?") && url.hash.includes("id=7"));
});

test("the workbench looks right at both widths and in both colours", async (t) => {
  const path = `#/data/${DATABASE}/items/query?text=${encodeURIComponent("SELECT TOP 20 * FROM c WHERE c.city = 'Bern' ORDER BY c.number DESC")}`;
  await looksRight(t, "query", path, async (page) => {
    await run(page);
    await page.getByRole("heading", { name: "Plan" }).waitFor();
  });
});
