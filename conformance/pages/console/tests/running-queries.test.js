/** The queries that run: another client's query is listed, and a person cancels it; results that are out of date say so. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { pathOf, posts, query, tabOf } from "../load.js";
import { assertAccessible, owner, person } from "../world.js";

/** Multiplies a list of a thousand numbers with itself three times: 10^12 rows, more than any request can count. */
const ENDLESS = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.list JOIN y IN c.list JOIN z IN c.list JOIN w IN c.list";

test("a query of another client is cancelled, and its client is told", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 1 });
  const list = Array.from({ length: 1_000 }, (_, n) => n);
  await me.item(database, "posts", { id: "wide", postId: "p", list }, "p");
  const page = await person(t, { path: "#/queries" });
  await page.getByRole("heading", { name: "Queries" }).waitFor();
  const answer = query(me, database, ENDLESS).then(
    () => "an answer",
    (error) => error.message,
  );
  const running = page.getByRole("region", { name: "Running now" });
  await running.getByText(`${database} / posts`).waitFor();
  await assertAccessible(page, "a query that runs");
  const { body } = await me.manage("GET", "/running-queries");
  assert.deepEqual([body.queries.length, body.queries[0].db, body.queries[0].fromConsole], [1, database, false]);
  await running.getByRole("button", { name: /^Cancel the query of/ }).focus();
  await page.keyboard.press("Enter");
  assert.match(await answer, /: 403 .*An operator of the server cancelled the query/);
  await page.getByText("The query was cancelled.").waitFor();
  await running.waitFor({ state: "detached" });
  const { body: after } = await me.manage("GET", "/running-queries");
  assert.deepEqual(after.queries, []);
});

test("results say that the query or the container changed since the run", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 3 });
  const page = await person(t, { path: tabOf(database, "posts", `query?text=${encodeURIComponent("SELECT * FROM c")}`) });
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("heading", { name: /this query/ }).waitFor();
  const stale = page.getByText(/changed since this run/);
  assert.equal(await stale.count(), 0);

  const editor = page.getByRole("textbox", { name: "Query" });
  await editor.click();
  await page.keyboard.press("End");
  await page.keyboard.type(" WHERE c.views > 1");
  await page.getByText("The query changed since this run.").waitFor();
  await assertAccessible(page, "results that are out of date");
  await page.getByRole("button", { name: "Run the query again" }).click();
  await stale.waitFor({ state: "detached" });
  await page.getByText("1 row", { exact: true }).waitFor();

  const path = pathOf(database, "posts");
  const { body } = await me.data("GET", path);
  await me.data("PUT", path, { body: { id: "posts", partitionKey: body.partitionKey, indexingPolicy: { ...body.indexingPolicy, compositeIndexes: [[{ path: "/views" }, { path: "/id" }]] } } });
  await page.getByText("The container changed since this run.").waitFor();
});

test("the first items of a container are in the list without a click, and a page has one scroller", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 60 });
  await query(me, database, "SELECT * FROM c");
  const page = await person(t, { path: `#/data/${database}/posts` });
  await page.getByRole("row", { name: /p\d+/ }).first().waitFor();
  for (const tab of ["items", "query?text=SELECT%20*%20FROM%20c", "partitions", "queries", "settings"]) {
    await page.goto(tabOf(database, "posts", tab));
    if (tab.startsWith("query?")) {
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await page.getByRole("grid", { name: "Rows" }).waitFor();
    }
    const scrollers = await page.evaluate(() => {
      const found = [];
      for (const element of document.querySelectorAll(".page, .page *")) {
        const { overflowY } = getComputedStyle(element);
        const isTall = element.clientHeight > 0 && element.scrollHeight > element.clientHeight + 1;
        if (/auto|scroll/.test(overflowY) && isTall) found.push(element.className);
      }
      return found;
    });
    assert.ok(scrollers.length <= 1, `${tab}: ${scrollers.join(", ")}`);
  }
});
