/** The log of requests: thresholds, filters in the address, following, details with the parts of a charge. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { exhaust, posts, query, read, tabOf } from "../load.js";
import { assertAccessible, looksRight, owner, person, screenshot } from "../world.js";

/** The owner's requests come through the console's door, so the page is asked for them. */
function logOf(database, more = "") {
  return `#/requests?db=${database}&console=yes${more}`;
}

/** Leaves the refused requests. The table draws its first rows only, and slow or followed reads may come before. */
const REFUSED = "&status=429";

/** The first row of the table with a text; the filters offer the same words. */
function row(page, text) {
  return page.locator(".data-table").getByText(text, { exact: true }).first();
}

test("every request appears while the page follows, and its details have the parts of the charge", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 3 });
  const page = await person(t, { path: logOf(database, "&all=yes") });
  await page.getByText("The server records every request while this page follows.").waitFor();
  await read(me, database, "p1", "post-1");
  await row(page, "read_item").click();
  const details = page.getByRole("dialog", { name: /read_item 200/ });
  await details.getByRole("region", { name: "Parts of the charge" }).getByText("1.00 RU").first().waitFor();
  await details.getByText("Activity id").waitFor();
  await details.getByRole("button", { name: "Copy the activity id" }).waitFor();
  assert.match(page.url(), /request=\d+/);
  await assertAccessible(page, "the details of a request");
  await page.keyboard.press("Escape");
  await details.waitFor({ state: "detached" });
});

test("refused requests are in the log without following, and a filter finds them", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 2 });
  await exhaust(me, database, "p1", "post-1");
  const page = await person(t, { path: logOf(database, REFUSED) });
  await row(page, "429/3200").waitFor();
  await page.getByLabel("Status").selectOption("404");
  await page.getByText("No request matches the filters").waitFor();
  await page.getByLabel("Status").selectOption("429");
  await row(page, "429/3200").waitFor();
  assert.match(page.url(), /status=429/);
  await page.reload();
  await row(page, "429/3200").waitFor();
});

test("time and partition of a cell of the heat map are filters that can be removed", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 2 });
  await exhaust(me, database, "p1", "post-1");
  const page = await person(t, { path: logOf(database, `${REFUSED}&from=1000&to=1005&partition=0`) });
  await page.getByText("No request matches the filters").waitFor();
  await page.getByRole("button", { name: "Remove the time and partition" }).click();
  await row(page, "429/3200").waitFor();
  assert.doesNotMatch(page.url(), /from=/);
});

test("thresholds are changed on the page, and an expensive query is recorded", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 20 });
  const page = await person(t, { path: logOf(database) });
  await page.getByRole("button", { name: "Thresholds" }).click();
  const dialog = page.getByRole("dialog", { name: "Thresholds of the log" });
  await dialog.getByLabel("Charge from, RU").fill("2");
  await assertAccessible(page, "the thresholds");
  await dialog.getByRole("button", { name: "Save thresholds" }).click();
  await page.getByText("The server records requests from 2.00 RU").waitFor();
  await query(me, database, "SELECT * FROM c WHERE c.views >= 0");
  await row(page, "query_items").click();
  const details = page.getByRole("dialog", { name: /query_items/ });
  await details.getByText("SELECT * FROM c WHERE c.views >= ?").waitFor();
  const link = await details.getByRole("link", { name: "Open in the workbench" }).getAttribute("href");
  assert.ok(link.startsWith(tabOf(database, "posts", "query")));
  await me.manage("PUT", "/requests/settings", { body: { minRu: 50, minMs: 100 } });
});

test("a paused log stands still and goes on with what came meanwhile", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 2 });
  const page = await person(t, { path: logOf(database, "&all=yes") });
  await page.getByText("The server records every request while this page follows.").waitFor();
  await read(me, database, "p1", "post-1");
  await row(page, "read_item").waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Go on" }).click();
  await query(me, database, "SELECT VALUE COUNT(1) FROM c");
  await row(page, "query_items").waitFor();
});

test("the console's own requests are left out unless a person asks for them", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 2 });
  await exhaust({ ...me, data: me.throughConsole }, database, "p1", "post-1");
  const page = await person(t, { path: `#/requests?db=${database}${REFUSED}` });
  await page.getByText("No request matches the filters").waitFor();
  await page.getByLabel("The console's own").check();
  await row(page, "429/3200").waitFor();
});

test("the log looks right at both widths, light and dark", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 3, items: 40 });
  await me.manage("PUT", "/requests/settings", { body: { all: true, seconds: 600 } });
  for (let n = 0; n < 4; n += 1) {
    await query(me, database, "SELECT * FROM c WHERE c.views >= 0 ORDER BY c.views DESC");
    await query(me, database, `SELECT c.id FROM c WHERE CONTAINS(c.postId, "${n}")`);
    await read(me, database, `p${n}`, `post-${n}`, 2);
  }
  await exhaust(me, database, "p1", "post-1");
  await query(me, database, "SELECT * FROM c WHERE c.views >= 0 ORDER BY c.views DESC");
  const path = logOf(database);
  await looksRight(t, "requests", path, async (page) => row(page, "query_items").waitFor());
  const page = await person(t, { path });
  await row(page, "query_items").click();
  await page.getByRole("dialog").waitFor();
  await screenshot(page, "requests-details");
  await me.manage("PUT", "/requests/settings", { body: { all: false } });
});
