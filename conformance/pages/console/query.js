/**
 * The steps of a person in the query workbench, and containers with items to query.
 *
 * Leaves out: checks of the page.
 */

import assert from "node:assert/strict";

/** Opens the workbench of a container with a query in the editor. */
export async function openWorkbench(page, database, container, text) {
  const address = ["data", database, container, "query"].map(encodeURIComponent).join("/");
  const query = text === undefined ? "" : `?text=${encodeURIComponent(text)}`;
  await page.goto(`#/${address}${query}`);
  await editorOf(page).waitFor();
}

/** The text of the query editor. */
export function editorOf(page) {
  return page.getByRole("textbox", { name: "Query", exact: true });
}

/** Replaces the text of the editor as a person does. */
export async function typeQuery(page, text) {
  await editorOf(page).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
}

/** Starts the query and waits until the page that was asked for is there, or the run stopped. */
export async function run(page) {
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await ended(page);
}

/** Waits until the run loads nothing any more. */
export async function ended(page) {
  await page.locator(".query-outcome[data-status]:not([data-status=running])").waitFor();
}

/** The request units of the run that is shown. */
export async function chargeOf(page) {
  return Number(await page.locator(".query-line [data-ru]").getAttribute("data-ru"));
}

/** Opens one of the views of the result. */
export async function view(page, name) {
  await page.getByRole("tab", { name }).click();
}

/** Creates a container of four physical partitions with these items. */
export async function wideContainer(owner, database, container, items, rest = {}) {
  const headers = { "x-ms-offer-throughput": "24000" };
  await owner.container(database, container, "/pk", rest, headers);
  await createAll(owner, database, container, items);
}

/** Creates items by transactional batches, one for each partition key and hundred items. */
export async function createAll(owner, database, container, items) {
  const path = `/dbs/${encodeURIComponent(database)}/colls/${encodeURIComponent(container)}/docs`;
  const byKey = new Map();
  for (const item of items) byKey.set(item.pk, [...(byKey.get(item.pk) ?? []), item]);
  for (const [key, all] of byKey) {
    for (let at = 0; at < all.length; at += 100) {
      const operations = all.slice(at, at + 100).map((item) => ({ operationType: "Create", resourceBody: item }));
      const headers = {
        "x-ms-documentdb-partitionkey": asciiJson([key]),
        "x-ms-cosmos-is-batch-request": "True",
        "x-ms-cosmos-batch-atomic": "True",
      };
      const { body } = await owner.data("POST", path, { body: operations, headers });
      // A batch that failed answers 207, with a status for each operation.
      const refused = body.find(({ statusCode }) => statusCode >= 300 && statusCode !== 424);
      assert.equal(refused, undefined, "every item of the batch is created");
    }
  }
}

/** JSON in ASCII, as headers need it. */
function asciiJson(value) {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
