/** The tree and the pages of databases: keys, filter, favourites, many containers, new and deleted databases. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { startServer } from "../programs.js";
import { assertAccessible, freshName, looksRight, owner, person } from "../world.js";

/** Containers of the large database; `ORRERY_CONTAINERS` asks for another number. */
const MANY = Number(process.env.ORRERY_CONTAINERS ?? 400);
const HOSTILE = "a 'b' \"c\" 😀 %2F <img src=x onerror=alert(1)>";

const row = (page, name) => page.getByRole("treeitem", { name, exact: true });

async function prepared(name) {
  const account = await owner();
  await account.database(name);
  await account.container(name, "posts", "/userId");
  return account;
}

test("a person opens a container by keys alone", async (t) => {
  const database = freshName("tree-keys");
  await prepared(database);
  const page = await person(t, { path: "#/data" });
  const tree = page.getByRole("tree");
  await row(page, database).waitFor();
  await page.getByRole("searchbox", { name: "Filter databases and containers" }).fill(database);
  await tree.focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  await row(page, "posts").waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL(new RegExp(`#/data/${database}/posts/items$`));
  await page.getByText("No item yet.").waitFor();
  await page.keyboard.press("ArrowLeft");
  await row(page, "Scale & settings").waitFor({ state: "detached" });
});

test("names with quotes, emoji and markup are shown as text and lead to their pages", async (t) => {
  const database = `${freshName("tree-names")} ${HOSTILE.replace("/", "")}`;
  const container = HOSTILE;
  const account = await owner();
  await account.database(database);
  await account.container(database, container);
  const page = await person(t, { path: "#/data" });
  await row(page, database).click();
  await page.getByRole("heading", { name: database, exact: true }).waitFor();
  await row(page, container).click();
  await page.getByRole("heading", { name: `${database} / ${container}`, exact: true }).waitFor();
  await page.reload();
  await page.getByText("No item yet.").waitFor();
});

test("a database of many containers is filtered, and few rows are drawn", async (t) => {
  const database = freshName("tree-many");
  const account = await owner();
  await account.database(database);
  const numbers = Array.from({ length: MANY }, (_, number) => number);
  while (numbers.length > 0) {
    const batch = numbers.splice(0, 4);
    await Promise.all(batch.map((number) => account.container(database, `container-${String(number).padStart(5, "0")}`)));
  }
  const page = await person(t, { path: "#/data" });
  const started = Date.now();
  await row(page, database).click();
  await row(page, "container-00000").waitFor();
  t.diagnostic(`${MANY} containers: the first are there after ${Date.now() - started} ms`);
  assert.ok((await page.getByRole("treeitem").count()) < 120, "only visible rows are drawn");
  const last = `container-${String(MANY - 1).padStart(5, "0")}`;
  const typed = Date.now();
  await page.getByRole("searchbox", { name: "Filter databases and containers" }).fill(last);
  await row(page, last).waitFor();
  t.diagnostic(`the filter found the last container after ${Date.now() - typed} ms`);
  await page.getByRole("main").getByRole("link", { name: "container-00000" }).waitFor();
});

test("a favourite is at the top after a reload", async (t) => {
  const database = freshName("tree-pin");
  await prepared(database);
  const page = await person(t, { path: `#/data/${database}` });
  await row(page, database).click();
  await row(page, "posts").click({ button: "right" });
  await page.getByRole("menuitem", { name: "Add to favourites" }).click();
  await row(page, `${database} / posts`).waitFor();
  await page.reload();
  await row(page, `${database} / posts`).click();
  await page.waitForURL(new RegExp(`#/data/${database}/posts/items$`));
});

test("the menu of a row opens by keys and offers what can be done there", async (t) => {
  const database = freshName("tree-menu");
  await prepared(database);
  const page = await person(t, { path: "#/data" });
  await row(page, database).waitFor();
  await page.getByRole("searchbox", { name: "Filter databases and containers" }).fill(database);
  await page.getByRole("tree").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+F10");
  await page.getByRole("menuitem", { name: "New container" }).waitFor();
  await assertAccessible(page, "the menu of a row");
  await page.keyboard.press("Escape");
  await page.getByRole("menu").waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("role")), "tree");
});

test("a database is created, and deleted after its name was typed", async (t) => {
  const database = freshName("tree-new");
  const page = await person(t, { path: "#/data?new=database" });
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Create database" }).click();
  await dialog.getByText("The name is missing.").waitFor();
  await dialog.getByLabel("Name").fill(database);
  await dialog.getByLabel("Manual").check();
  await dialog.getByLabel("RU/s", { exact: true }).fill("450");
  await dialog.getByRole("button", { name: "Create database" }).click();
  await dialog.getByText("in steps of 100").waitFor();
  await dialog.getByLabel("RU/s", { exact: true }).fill("500");
  await dialog.getByText("Estimate for a hosted service").waitFor();
  await dialog.getByRole("button", { name: "Create database" }).click();
  await page.waitForURL(new RegExp(`#/data/${database}$`));
  await page.getByRole("link", { name: "Throughput", exact: true }).waitFor();
  await row(page, database).waitFor();

  await page.getByRole("button", { name: "More for the database" }).click();
  await page.getByRole("menuitem", { name: "Delete database" }).click();
  await page.getByText("0 containers with 0 items").waitFor();
  const remove = page.getByRole("button", { name: "Delete database" });
  assert.ok(await remove.isDisabled(), "the name must be typed first");
  await page.getByLabel(`Type ${database} to confirm`).fill(database);
  await remove.click();
  await page.waitForURL(/#\/data$/);
  await row(page, database).waitFor({ state: "detached" });
});

test("the tree is in the drawer at phone width", async (t) => {
  const database = freshName("tree-phone");
  await prepared(database);
  const page = await person(t, { path: "#/data", width: 390 });
  assert.ok(!(await page.getByRole("tree").isVisible()), "the drawer is closed");
  await page.getByRole("button", { name: /navigation|menu/i }).first().click();
  await row(page, database).click();
  await page.waitForURL(new RegExp(`#/data/${database}$`));
  await page.getByRole("tree").waitFor({ state: "hidden" });
});

test("an empty account offers a sample and shows its items", async (t) => {
  const server = await startServer();
  t.after(() => server.stop());
  const page = await person(t, { path: "#/data", server });
  await page.getByRole("paragraph").filter({ hasText: /^No database yet\.$/ }).first().waitFor();
  await page.getByRole("button", { name: "Load a sample" }).click();
  await page.waitForURL(/#\/data\/sample\/orders\/items$/);
  await page.getByText("100 items shown, more on the server").waitFor();
});

test("the pages of databases look right", async (t) => {
  const database = freshName("tree-look");
  await prepared(database);
  await looksRight(t, "data-databases", "#/data", async (page) => {
    await page.getByRole("main").getByRole("link", { name: database }).waitFor();
  });
  await looksRight(t, "data-database", `#/data/${database}`, async (page) => {
    await page.getByRole("main").getByText("/userId").waitFor();
  });
});
