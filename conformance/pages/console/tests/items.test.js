/** The items tab: new, edit, conflict, delete, filter, columns, large and hostile items. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { assertAccessible, freshName, looksRight, owner, person, screenshot } from "../world.js";

/** A database with a container of items, for one test. */
async function prepared(stem, count = 0, keyPath = "/pk") {
  const account = await owner();
  const database = freshName(stem);
  await account.database(database);
  await account.container(database, "c", keyPath);
  for (let number = 0; number < count; number += 1) {
    const id = `item-${String(number).padStart(3, "0")}`;
    await account.item(database, "c", { id, pk: `key-${number % 3}`, number });
  }
  return { account, database, path: `#/data/${database}/c/items` };
}

const listed = (page) => page.getByRole("grid", { name: "Items" });
const editor = (page) => page.getByRole("textbox", { name: "Item as JSON" });

/** Replaces the whole text of the editor. */
async function type(page, text) {
  await editor(page).focus();
  await page.keyboard.press("ControlOrMeta+A");
  await page.keyboard.insertText(text);
}

async function open(page, id) {
  await listed(page).getByText(id, { exact: true }).click();
  await page.getByRole("heading", { name: id, exact: true }).waitFor();
  await editor(page).getByText(JSON.stringify(id)).first().waitFor();
}

test("an item is created, edited after a look at the changes, and deleted", async (t) => {
  const { account, database, path } = await prepared("items-flow");
  const page = await person(t, { path });
  await page.getByRole("button", { name: "New item" }).first().click();
  await type(page, '{"id": "", "pk": "a"}');
  await page.getByRole("button", { name: "Create item" }).click();
  await page.getByText("The item has no id.").waitFor();
  await type(page, '{"id": "one", "pk": "a", "big": 9007199254740993, "title": "first"}');
  await page.keyboard.press("ControlOrMeta+S");
  await page.getByText("The item was created").waitFor();
  await listed(page).getByText("one", { exact: true }).waitFor();

  await type(page, '{"id": "one", "pk": "a", "big": 9007199254740993, "title": "second"}');
  await page.getByText("unsaved", { exact: true }).waitFor();
  await page.keyboard.press("ControlOrMeta+S");
  const dialog = page.getByRole("dialog");
  await dialog.getByText('"title": "second"').waitFor();
  await dialog.getByText("1 line removed").waitFor();
  await dialog.getByRole("button", { name: "Replace item" }).click();
  await page.getByText("The item was saved").waitFor();
  const stored = await account.data("GET", `/dbs/${database}/colls/c/docs/one`, {
    headers: { "x-ms-documentdb-partitionkey": '["a"]' },
  });
  assert.equal(stored.body.title, "second");
  await page.reload();
  await editor(page).getByText("9007199254740993").waitFor();

  await page.getByRole("button", { name: "Delete the item" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete item" }).click();
  await page.getByText("No item yet.").waitFor();
});

test("a change of another client is shown as a conflict, and nothing is overwritten", async (t) => {
  const { account, database, path } = await prepared("items-conflict", 1);
  const page = await person(t, { path });
  await open(page, "item-000");
  const address = `/dbs/${database}/colls/c/docs/item-000`;
  const headers = { "x-ms-documentdb-partitionkey": '["key-0"]' };
  await account.data("PUT", address, { headers, body: { id: "item-000", pk: "key-0", number: 77 } });
  await type(page, '{"id": "item-000", "pk": "key-0", "number": 0, "mine": true}');
  await page.keyboard.press("ControlOrMeta+S");
  await page.getByRole("button", { name: "Replace item" }).click();
  const conflict = page.getByRole("region", { name: "Conflict" });
  await conflict.getByText("Another client changed the item").waitFor();
  await conflict.getByText('"number": 77').waitFor();
  await conflict.getByText('"mine": true').waitFor();
  assert.equal((await account.data("GET", address, { headers })).body.number, 77);

  await conflict.getByRole("button", { name: "Continue with mine" }).click();
  await page.keyboard.press("ControlOrMeta+S");
  await page.getByRole("dialog").getByText('"number": 77').waitFor();
  await page.getByRole("button", { name: "Replace item" }).click();
  await page.getByText("The item was saved").waitFor();
  assert.equal((await account.data("GET", address, { headers })).body.mine, true);

  await account.data("PUT", address, { headers, body: { id: "item-000", pk: "key-0", theirs: true } });
  await type(page, '{"id": "item-000", "pk": "key-0", "lost": true}');
  await page.keyboard.press("ControlOrMeta+S");
  await page.getByRole("button", { name: "Replace item" }).click();
  await page.getByRole("button", { name: "Take the server's version" }).click();
  await editor(page).getByText('"theirs"').waitFor();
  await page.getByText("unsaved", { exact: true }).waitFor({ state: "detached" });
});

test("unsaved changes are not lost by another item or another page", async (t) => {
  const { path } = await prepared("items-unsaved", 2);
  const page = await person(t, { path });
  await open(page, "item-000");
  await type(page, '{"id": "item-000", "pk": "key-0", "typed": 1}');
  await listed(page).getByText("item-001", { exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Discard the changes" });
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await editor(page).getByText('"typed"').waitFor();
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await editor(page).getByText('"typed"').waitFor();
  await listed(page).getByText("item-001", { exact: true }).click();
  await dialog.getByRole("button", { name: "Discard changes" }).click();
  await page.getByRole("heading", { name: "item-001" }).waitFor();
});

test("a link to the same tab asks before unsaved text goes, a parameter of the list does not", async (t) => {
  const { path } = await prepared("items-same-tab", 2);
  const page = await person(t, { path });
  await open(page, "item-000");
  await type(page, '{"id": "item-000", "pk": "key-0", "typed": 1}');
  await page.getByRole("combobox", { name: "Filter as a SQL predicate" }).fill("c.number < 5");
  await page.keyboard.press("Enter");
  await page.waitForURL(/filter=/);
  const opened = page.url();
  await page.evaluate(() => {
    location.hash = location.hash.replace("number", "other");
  });
  const ask = page.getByRole("dialog", { name: "Discard unsaved changes?" });
  const tab = page.locator("main").getByRole("link", { name: "Items", exact: true });
  await tab.click();
  await ask.getByRole("button", { name: "Keep editing" }).click();
  await editor(page).getByText('"typed"').waitFor();
  assert.equal(page.url(), opened.replace("number", "other"));
  await tab.click();
  await ask.getByRole("button", { name: /^Discard/ }).click();
  await editor(page).waitFor({ state: "detached" });
});

test("an item keeps its partition key value, and the console says what to do instead", async (t) => {
  const { path } = await prepared("items-key", 1);
  const page = await person(t, { path });
  await open(page, "item-000");
  await type(page, '{"id": "item-000", "pk": "other"}');
  await page.keyboard.press("ControlOrMeta+S");
  await page.getByText("A replace cannot change the partition key value.").waitFor();
  await page.getByRole("button", { name: "Duplicate the item" }).click();
  await page.getByRole("button", { name: "Discard changes" }).click();
  await page.getByRole("button", { name: "Create item" }).click();
  await page.getByText("The item was created").waitFor();
});

test("markup in items is text: nothing in an item runs", async (t) => {
  const { account, database, path } = await prepared("items-markup");
  const markup = '<img src=x onerror="window.ran=1"><script>window.ran=1<\u002fscript>';
  const id = `odd ?# % + 'q' "d" 😀 <b onmouseover=alert(1)>`;
  await account.item(database, "c", { id, pk: markup, text: markup, [markup]: markup });
  const page = await person(t, { path });
  await open(page, id);
  await editor(page).getByText("onerror").first().waitFor();
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByLabel("/text").check();
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("columnheader", { name: "/text" }).waitFor();
  await listed(page).getByText(markup).first().waitFor();
  await page.reload();
  await page.getByRole("heading", { name: id, exact: true }).waitFor();
  await page.getByRole("columnheader", { name: "/text" }).waitFor();
  assert.equal(await page.evaluate(() => window.ran), undefined);
});

test("an item of 2 MB opens, is edited and saved", async (t) => {
  const { account, database, path } = await prepared("items-large");
  const rows = Array.from({ length: 9_000 }, (_, number) => ({ number, text: "x".repeat(180) }));
  const item = { id: "large", pk: "a", long: "y".repeat(100_000), rows };
  await account.item(database, "c", item);
  const page = await person(t, { path });
  const started = Date.now();
  await open(page, "large");
  t.diagnostic(`an item of ${JSON.stringify(item).length} bytes is open after ${Date.now() - started} ms`);
  await editor(page).focus();
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  const typed = Date.now();
  await page.keyboard.insertText(',\n  "added": true');
  await page.getByText("unsaved", { exact: true }).waitFor();
  t.diagnostic(`a change is drawn after ${Date.now() - typed} ms`);
  await page.keyboard.press("ControlOrMeta+S");
  await page.getByRole("dialog").getByText('"added": true').waitFor();
  await page.getByRole("button", { name: "Replace item" }).click();
  await page.getByText("The item was saved").waitFor();
});

test("a word at the end of a large item is found, also on a small screen", async (t) => {
  const { account, database, path } = await prepared("items-find");
  const rows = Array.from({ length: 9_000 }, (_, number) => ({ number, text: "x".repeat(180) }));
  await account.item(database, "c", { id: "large", pk: "a", rows, last: { needle: "found at the end" } });
  const key = encodeURIComponent('["a"]');
  for (const [width, colorScheme] of [[1280, "dark"], [390, "light"]]) {
    const page = await person(t, { path: `${path}?id=large&key=${key}`, width, colorScheme });
    await editor(page).getByText('"large"').first().waitFor();
    await editor(page).focus();
    assert.equal(await editor(page).getByText("found at the end").count(), 0);
    await page.keyboard.press("ControlOrMeta+F");
    await page.getByRole("textbox", { name: "Find" }).pressSequentially("needle");
    await assertAccessible(page, `find at ${width}`);
    await page.keyboard.press("Enter");
    await editor(page).getByText('"found at the end"').waitFor();
    const match = page.locator(".cm-searchMatch-selected");
    await match.waitFor();
    assert.equal(await match.textContent(), "needle");
    await assertAccessible(page, `find at ${width}`);
    await screenshot(page, `data-item-find-${width}`);
    await page.keyboard.press("Escape");
    await page.getByRole("textbox", { name: "Find" }).waitFor({ state: "detached" });
    await page.close();
  }
});

test("the place that is not JSON is underlined, and a new line stands one level deeper", async (t) => {
  const { path } = await prepared("items-json");
  const page = await person(t, { path });
  await page.getByRole("button", { name: "New item" }).first().click();
  await type(page, '{\n  "id": "a",\n  "wrong": tru\n}');
  const underlined = editor(page).locator(".cm-lintRange-error");
  await underlined.waitFor();
  assert.equal(await underlined.textContent(), "tru");
  await type(page, "");
  await page.keyboard.type('{\n"list": [\n1');
  await editor(page).getByText("1", { exact: true }).waitFor();
  const lines = await editor(page).locator(".cm-line").allTextContents();
  assert.deepEqual(lines, ["{", '  "list": [', "    1", "  ]", "}"]);
  await page.getByTitle("Fold line", { exact: true }).first().click();
  await page.getByTitle("unfold", { exact: true }).waitFor();
  assert.equal(await editor(page).locator(".cm-line").count(), 1);
});

test("a wrong filter is underlined where the server names it, and a right one is kept in the address", async (t) => {
  const { path } = await prepared("items-filter", 6);
  const page = await person(t, { path });
  await listed(page).waitFor();
  const filter = page.getByRole("combobox", { name: "Filter as a SQL predicate" });
  await filter.fill("c.number > AND 3");
  await page.keyboard.press("Enter");
  await page.locator("mark", { hasText: "AND" }).waitFor();
  await filter.fill("c.number >= 4");
  await page.keyboard.press("Enter");
  await page.getByText("2 items shown").waitFor();
  await page.reload();
  await page.getByText("2 items shown").waitFor();
  assert.equal(await filter.inputValue(), "c.number >= 4");
  await page.getByRole("button", { name: "Remove the filter" }).click();
  await page.getByText("6 items shown").waitFor();
});

test("more items are loaded page by page", async (t) => {
  const { path } = await prepared("items-pages", 120);
  const page = await person(t, { path });
  await page.getByText("100 items shown, more on the server").waitFor();
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByText("120 items shown").waitFor();
});

test("the selected items are deleted, throttled deletions are repeated", async (t) => {
  const { account, database, path } = await prepared("items-bulk", 8);
  const page = await person(t, { path });
  await listed(page).waitFor();
  await page.getByLabel("Select all rows").check();
  await listed(page).getByLabel('Select ["item-003","key-0"]').uncheck();
  await account.manage("POST", "/faults", {
    body: { operations: ["delete_item"], database, status: 429, retryAfterMilliseconds: 1, count: 3 },
  });
  await page.getByRole("button", { name: "Delete 7 selected" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Delete 7 items" }).click();
  await dialog.getByText("7 items deleted, 0 not deleted").waitFor();
  await dialog.getByText("3 requests repeated after 429").waitFor();
  await dialog.getByRole("contentinfo").or(dialog.locator("footer")).getByRole("button", { name: "Close" }).click();
  await page.getByText("1 item shown").waitFor();
});

test("items of a hierarchical key, and without a key, open", async (t) => {
  const { account, database, path } = await prepared("items-levels", 0, ["/tenant", "/user"]);
  const headers = { "x-ms-documentdb-partitionkey": '["t",{}]' };
  await account.data("POST", `/dbs/${database}/colls/c/docs`, { headers, body: { id: "half", tenant: "t" } });
  await account.item(database, "c", { id: "whole", tenant: "t", user: 5 }, ["t", 5]);
  const page = await person(t, { path });
  await open(page, "half");
  await page.getByText("/user = undefined").waitFor();
  await open(page, "whole");
  await page.getByText("/user = 5").waitFor();
});

test("the items with the nearest vectors are found from an item, and open", async (t) => {
  const account = await owner();
  const database = freshName("items-nearest");
  await account.database(database);
  await account.container(database, "c", "/pk", {
    vectorEmbeddingPolicy: {
      vectorEmbeddings: [{ path: "/v", dataType: "float32", dimensions: 2, distanceFunction: "cosine" }],
    },
    indexingPolicy: { vectorIndexes: [{ path: "/v", type: "flat" }] },
  });
  const vectors = { east: [1, 0], "north-east": [1, 1], north: [0, 1], west: [-1, 0] };
  for (const [id, v] of Object.entries(vectors)) await account.item(database, "c", { id, pk: `key-${id}`, v });
  await account.item(database, "c", { id: "nowhere", pk: "none" });
  const page = await person(t, { path: `#/data/${database}/c/items` });
  await open(page, "nowhere");
  assert.equal(await page.getByRole("button", { name: /^Nearest items/ }).count(), 0);
  await open(page, "east");
  await page.getByRole("button", { name: "Nearest items by /v" }).click();
  const list = page.getByRole("region", { name: "Nearest items" });
  await list.getByText("north-east", { exact: true }).waitFor();
  const found = await list.getByRole("link").allTextContents();
  assert.deepEqual(found, ["north-east", "north", "west"]);
  await list.getByText("0.7071").waitFor();
  await list.getByText(/RU/).waitFor();
  await assertAccessible(page, "nearest items");
  await list.getByRole("link", { name: "north", exact: true }).click();
  await page.getByRole("heading", { name: "north", exact: true }).waitFor();
});

test("a deleted item says so, and a server that went away loses nothing that was typed", async (t) => {
  const { account, database, path } = await prepared("items-gone", 1);
  const page = await person(t, { path });
  await open(page, "item-000");
  await type(page, '{"id": "item-000", "pk": "key-0", "typed": 1}');
  await page.context().setOffline(true);
  await page.keyboard.press("ControlOrMeta+S");
  await page.getByRole("button", { name: "Replace item" }).click();
  await page.getByText("The server does not answer").first().waitFor();
  await editor(page).getByText('"typed"').waitFor();
  await page.context().setOffline(false);
  await page.getByText("What you typed stays here").waitFor({ state: "detached" });
  await page.keyboard.press("ControlOrMeta+S");
  await page.getByRole("button", { name: "Replace item" }).click();
  await page.getByText("The item was saved").waitFor();
  await account.data("DELETE", `/dbs/${database}/colls/c/docs/item-000`, {
    headers: { "x-ms-documentdb-partitionkey": '["key-0"]' },
  });
  await page.reload();
  await page.getByText("The item does not exist any more.").waitFor();
});

test("the items tab looks right", async (t) => {
  const { path } = await prepared("items-look", 5);
  const key = encodeURIComponent('["key-0"]');
  await looksRight(t, "data-items", path, async (page) => listed(page).getByText("item-004").waitFor());
  await looksRight(t, "data-item", `${path}?id=item-003&key=${key}`, async (page) => {
    await editor(page).getByText('"item-003"').waitFor();
  });
});
