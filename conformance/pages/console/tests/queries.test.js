/** Query forms: of a container and of all containers, their fan-out, advice, the way to the workbench. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { posts, query, tabOf } from "../load.js";
import { looksRight, owner, person, screenshot } from "../world.js";

async function opened(test, database, options = {}) {
  const page = await person(test, { ...options, path: tabOf(database, "posts", "queries") });
  await page.getByText("Query forms").or(page.getByText("RU together")).first().waitFor();
  return page;
}

const ONE_KEY = 'SELECT * FROM c WHERE c.postId = "post-7"';
const ALL_KEYS = "SELECT * FROM c WHERE c.views >= 0 ORDER BY c.views DESC";

test("forms are sorted by total charge and show what a page asks", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 3 });
  for (let n = 0; n < 5; n += 1) await query(me, database, ALL_KEYS);
  await query(me, database, ONE_KEY);
  const page = await opened(t, database);
  await page.getByText("2 forms").waitFor();
  const texts = await page.locator("code[title^=SELECT]").allInnerTexts();
  assert.deepEqual(texts.map((text) => /ORDER BY/.test(text)), [true, false]);
  await page.getByText("3 of 3 partitions for each page").waitFor({ state: "attached" });
  await page.getByText("1 of 3 partitions for each page").waitFor({ state: "attached" });
});

test("an open form has advice in words, and the address keeps it", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 2 });
  await query(me, database, ALL_KEYS);
  const page = await opened(t, database);
  await page.locator("code[title^=SELECT]").first().click();
  const form = page.getByRole("region", { name: "Query form", exact: true });
  await form.getByText("A page asks 2 of 2 physical partitions on average.").waitFor();
  await form.getByText(/A condition of equality on the partition key \/postId asks one/).waitFor();
  assert.match(page.url(), /form=/);
  await page.reload();
  await form.waitFor();
});

test("a form opens in the workbench with its text", async (t) => {
  const me = await owner();
  const database = await posts(me);
  await query(me, database, ONE_KEY);
  const page = await opened(t, database);
  await page.locator("code[title^=SELECT]").first().click();
  const address = await page.getByRole("link", { name: "Open in the workbench" }).getAttribute("href");
  assert.ok(address.startsWith(tabOf(database, "posts", "query")));
  const text = new URLSearchParams(address.split("?")[1]).get("text");
  assert.equal(text, "SELECT * FROM c WHERE c.postId = ?");
});

test("new queries appear while the page is open", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 2 });
  const page = await person(t, { path: tabOf(database, "posts", "queries") });
  await page.getByText("No query has been run").waitFor();
  await query(me, database, ONE_KEY);
  await page.getByText("1 form").waitFor();
});

test("the overview has the forms of all containers with their container", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 2 });
  await query(me, database, ONE_KEY);
  const page = await person(t, { path: "#/queries" });
  await page.getByText(`${database}/posts`).first().waitFor();
});

test("the pages of query forms look right at both widths, light and dark", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 4, items: 80 });
  for (let n = 0; n < 8; n += 1) await query(me, database, ALL_KEYS);
  await query(me, database, 'SELECT c.id FROM c WHERE CONTAINS(c.postId, "7")');
  await query(me, database, ONE_KEY);
  const ready = async (page) => page.locator("code[title^=SELECT]").first().waitFor();
  await looksRight(t, "queries", tabOf(database, "posts", "queries"), ready);
  await looksRight(t, "queries-overview", "#/queries", ready);
  const page = await opened(t, database, { height: 900 });
  await page.locator("code[title^=SELECT]").first().click();
  await page.getByRole("region", { name: "Query form", exact: true }).waitFor();
  await screenshot(page, "queries-form");
});
