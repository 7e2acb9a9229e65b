/** The change feed of a container: a tail over physical partitions, splits, versions, differences, consumers. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { partitionsOf, pathOf, posts, remove, splitPartition, tabOf, write } from "../load.js";
import { assertAccessible, freshName, looksRight, owner, person, screenshot } from "../world.js";

const VERSIONS = { changeFeedPolicy: { retentionDuration: 60 } };

async function opened(test, database, query = "", options = {}) {
  const page = await person(test, { ...options, path: tabOf(database, "posts", `feed${query}`) });
  await page.getByRole("heading", { name: "Positions" }).waitFor();
  return page;
}

async function upToDate(page) {
  await page.getByText("up to date").waitFor();
}

test("a tail from now on shows what is written while the page is open", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 2, items: 10 });
  const page = await opened(t, database);
  await upToDate(page);
  await page.getByText("No changes yet").waitFor();
  await write(me, database, "fresh", "post-1", { n: 1 });
  await page.getByText("fresh", { exact: true }).waitFor();
  await page.getByText("first version seen here").waitFor();
});

test("from the beginning each item comes once, over all partitions", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 3, items: 30 });
  const page = await opened(t, database, "?start=beginning");
  await upToDate(page);
  await page.getByRole("status").getByText("30 changes").waitFor();
  const positions = page.getByRole("region", { name: "Positions" });
  for (const { id } of await partitionsOf(me, database)) {
    await positions.getByRole("rowheader", { name: id, exact: true }).waitFor();
  }
});

test("a later version is compared with the one that was seen before", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 1 });
  const page = await opened(t, database, "?start=beginning");
  await upToDate(page);
  await write(me, database, "p0", "post-0", { views: 5, tags: ["a"] });
  await page.getByText("/views, /tags").click();
  const details = page.getByRole("dialog", { name: "Change of p0" });
  const row = details.getByRole("row").filter({ hasText: "/views" });
  assert.match(await row.innerText(), /0\s+5/);
  await assertAccessible(page, "the details of a change");
});

test("a split divides the position and no change is lost or read twice", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 8 });
  const page = await opened(t, database, "?start=beginning");
  await upToDate(page);
  await page.getByRole("status").getByText("8 changes").waitFor();
  await splitPartition(me, database, "0");
  await write(me, database, "p1", "post-1", { views: 100 });
  await write(me, database, "p6", "post-6", { views: 100 });
  const positions = page.getByRole("region", { name: "Positions" });
  await positions.getByRole("rowheader", { name: "1", exact: true }).waitFor();
  await positions.getByRole("rowheader", { name: "2", exact: true }).waitFor();
  await page.getByRole("status").getByText("10 changes").waitFor();
});

test("a pause keeps the position", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 2 });
  const page = await opened(t, database);
  await upToDate(page);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("The tail is paused").waitFor();
  await write(me, database, "meanwhile", "post-1");
  await page.getByRole("button", { name: "Go on" }).click();
  await page.getByText("meanwhile", { exact: true }).waitFor();
});

test("all versions and deletions are shown where the container keeps them", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 1, rest: VERSIONS });
  const page = await opened(t, database, "?mode=all");
  await upToDate(page);
  await write(me, database, "v", "post-9", { n: 1 });
  await write(me, database, "v", "post-9", { n: 2 });
  await remove(me, database, "v", "post-9");
  await page.getByText("delete", { exact: true }).waitFor();
  await page.getByText("create", { exact: true }).waitFor();
  await page.getByText("replace", { exact: true }).waitFor();
  await page.getByRole("status").getByText("3 changes").waitFor();
});

test("a container without versions says what its feed leaves out", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 1 });
  const page = await opened(t, database);
  await page.getByText("The container keeps no versions").waitFor();
  assert.equal(await page.getByLabel("Changes", { exact: true }).locator("option").count(), 1);
});

test("changes after a time leave the earlier ones out", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 3 });
  const page = await opened(t, database, "?start=time&time=2000-01-01T00:00");
  await upToDate(page);
  await page.getByRole("status").getByText("3 changes").waitFor();
  await page.getByLabel("Changes after").fill("2090-01-01T00:00");
  await page.getByText("No changes yet").waitFor();
});

test("names and values of items that look like markup stay text", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 1 });
  const page = await opened(t, database);
  await upToDate(page);
  const hostile = `<img src=x onerror="alert(1)">'"`;
  await write(me, database, hostile, "post-1", { [hostile]: hostile });
  await page.getByText(hostile, { exact: true }).first().click();
  await page.getByRole("dialog").getByText(/onerror/).first().waitFor();
  assert.equal(await page.locator("img[src=x]").count(), 0);
});

test("the consumers of the feed are listed with what they have not read", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 6 });
  const { body: container } = await me.data("GET", pathOf(database, "posts"));
  const leases = freshName("leases");
  await me.container(database, leases, "/id");
  const lease = {
    id: `host_${container._rid}..0`,
    LeaseToken: "0",
    ContinuationToken: '"2"',
    Owner: "worker-1",
    FeedRange: { Range: { min: "", max: "FF" } },
  };
  await me.item(database, leases, lease, lease.id);
  const page = await opened(t, database, `?leases=${encodeURIComponent(`${database}/${leases}`)}`);
  const table = page.getByRole("region", { name: "Leases" });
  await table.getByText("worker-1").waitFor();
  assert.match(await table.innerText(), /\d+ changes?/);
});

test("a wrong name of the lease container is told beside the field", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 1 });
  const page = await opened(t, database);
  await page.getByLabel("Container with the leases").fill("nowhere");
  await page.getByText("Write the database, a slash and the container.").waitFor();
  await page.getByLabel("Container with the leases").fill(`${database}/nowhere`);
  await page.getByRole("button", { name: "Show the consumers" }).click();
  await page.getByText("The leases could not be read.").waitFor();
});

test("the tab looks right at both widths, light and dark", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 3, items: 60 });
  await looksRight(t, "feed", tabOf(database, "posts", "feed?start=beginning"), async (page) => {
    await upToDate(page);
    await page.getByText("first version seen here").first().waitFor();
  });
  const page = await opened(t, database, "?start=beginning");
  await upToDate(page);
  await write(me, database, "p7", "post-7", { views: 12, title: "New title" });
  await page.getByText("/views, /title").click();
  await page.getByRole("dialog").waitFor();
  await screenshot(page, "feed-change");
});
