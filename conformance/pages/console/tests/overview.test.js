/** The overview: it names the key that has the traffic, with its price and the way out; charts, the strip of partitions. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { partitionsOf, pathOf, posts, read } from "../load.js";
import { startServer } from "../programs.js";
import { assertAccessible, looksRight, owner, person } from "../world.js";

/** Within this time a load that has begun is named. */
const NAMED_MS_MAX = 10_000;
/** Within this time the page has shown the share that the server tells. */
const AGREED_MS_MAX = 60_000;
/** The requests that prepare a container with one partition: a database, a container, 40 items and 20 more. */
const OWN_REQUESTS = 62;

/** Reads items until `done` is called: 70 % of the reads are of one key. Returns the begin of the load. */
function hotLoad(me, database) {
  let isOver = false;
  const work = async () => {
    for (let n = 0; !isOver; n += 1) {
      const key = n % 10 < 7 ? 1 : 2 + (n % 17);
      await read(me, database, `post-${key}`, `p-${key}`);
    }
  };
  const workers = [work(), work()];
  return {
    begun: Date.now(),
    async stop() {
      isOver = true;
      await Promise.all(workers);
    },
  };
}

/** Ends the load before the server. */
function stopAfter(load, stop) {
  return async () => {
    await load.stop();
    return stop();
  };
}

/** Creates items with known keys in a container of several partitions. */
async function prepared(me, partitions = 2) {
  const database = await posts(me, { partitions });
  for (let n = 1; n <= 20; n += 1) await me.item(database, "posts", { id: `post-${n}`, postId: `p-${n}` }, `p-${n}`);
  return database;
}

test("the key of a prepared load is named within ten seconds, with its share, its price and the way out", async (t) => {
  const running = await startServer();
  t.after(() => running.stop());
  const me = await owner(running);
  const database = await prepared(me);
  const page = await person(t, { server: running, path: "#/" });
  await page.getByText("No key has much of the traffic").waitFor();

  const load = hotLoad(me, database);
  running.stop = stopAfter(load, running.stop);
  const advice = page.locator('[data-rule="hot-key"]');
  await advice.getByText("The key p-1 has").waitFor({ timeout: NAMED_MS_MAX });
  t.diagnostic(`named ${Date.now() - load.begun} ms after the load began`);
  assert.ok(Date.now() - load.begun <= NAMED_MS_MAX, "the key is named within ten seconds of the load's begin");

  // The share is that of the server's own counts, whose window moves: page and server are read until both tell of one
  // moment.
  const end = Date.now() + AGREED_MS_MAX;
  let [share, counted] = [0, 100];
  while (Math.abs(share - counted) > 15 && Date.now() < end) {
    share = Number(/has (\d+) % of the traffic/.exec(await advice.innerText())[1]);
    const { body } = await me.manage("GET", `${pathOf(database, "posts")}/top-keys?window=now`);
    assert.equal(body.keys[0].key, '["p-1"]');
    counted = (body.keys[0].amount / body.total) * 100;
  }
  assert.ok(Math.abs(share - counted) <= 15, `${share} % on the page and ${counted} % on the server`);
  assert.match(await advice.innerText(), /It uses [\d.,]+ of the \d+.* RU\/s \(.* %\) of physical partition \d/);

  const proposal = await advice.getByRole("link", { name: /^Try the key/ }).getAttribute("href");
  await advice.getByRole("link", { name: "Show the key" }).click();
  await page.locator('li[aria-current="true"]').getByText("p-1", { exact: true }).waitFor();
  await page.locator("tr.selected").waitFor();
  await page.goto(proposal);
  await page.getByLabel("Level 1").waitFor();
  assert.deepEqual(
    [await page.getByLabel("Level 1", { exact: true }).inputValue(), await page.getByLabel("Level 2", { exact: true }).inputValue()],
    ["/postId", "/id"],
  );
});

test("the console's own requests are in no figure of the clients", async (t) => {
  const running = await startServer();
  t.after(() => running.stop());
  const me = await owner(running);
  const database = await prepared(me, 1);
  const heat = () => me.manage("GET", `${pathOf(database, "posts")}/heatmap?metric=requests`);
  const before = await heat();
  const requests = async () => {
    const { body } = await me.manage("GET", "/live?step=86400");
    return body.requests.reduce((sum, one) => sum + one, 0);
  };
  const sent = await requests();
  const page = await person(t, { server: running, path: `#/data/${database}/posts/items` });
  await page.getByRole("row", { name: /post-1\b/ }).first().waitFor();
  await page.goto(`#/data/${database}/posts/query`);
  await page.getByRole("textbox", { name: "Query" }).waitFor();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("heading", { name: /this query/ }).waitFor();
  const after = await heat();
  const sum = ({ body }) => body.columns.flatMap(({ values, scans }) => [...values, scans]).reduce((a, b) => a + b, 0);
  assert.equal(sum(after), sum(before), "the heat map has the requests of clients only");
  const { body: forms } = await me.manage("GET", `${pathOf(database, "posts")}/queries`);
  assert.deepEqual(forms.queries, []);
  // The last requests of the owner may have been in no sample yet when the page opened.
  assert.ok((await requests()) <= Math.max(sent, OWN_REQUESTS), "the live samples have the owner's requests only");
});

test("each partition is a cell that leads to it, by keyboard", async (t) => {
  const me = await owner();
  const database = await prepared(me, 3);
  const page = await person(t, { path: "#/" });
  const line = page.getByRole("listitem").filter({ has: page.getByText(database, { exact: true }) });
  const partitions = await partitionsOf(me, database);
  const cells = line.getByRole("link", { name: /^Partition \d+ of posts/ });
  await cells.first().waitFor();
  assert.equal(await cells.count(), partitions.length);
  await cells.last().focus();
  await page.keyboard.press("Enter");
  await page.locator("tr.selected").waitFor();
  assert.match(page.url(), new RegExp(`partition=${partitions.at(-1).id}`));
});

test("the charts show the load against what is provisioned, and the process", async (t) => {
  const me = await owner();
  await prepared(me, 1);
  const page = await person(t, { path: "#/" });
  for (const title of ["Request units", "Latency", "Refused requests", "Stored data", "Processor", "Memory", "Disk"]) {
    await page.getByRole("figure").filter({ hasText: title }).first().waitFor();
  }
  await page.getByRole("figure").filter({ hasText: "Request units" }).getByText("provisioned").waitFor();
  await assertAccessible(page, "the overview with charts");
});

test("the overview of a server with data looks right", async (t) => {
  const me = await owner();
  const database = await prepared(me, 4);
  const load = hotLoad(me, database);
  t.after(() => load.stop());
  await looksRight(t, "overview-load", "#/", async (page) => {
    await page.locator('[data-rule="hot-key"]').waitFor();
    await page.getByRole("figure").filter({ hasText: "Disk" }).waitFor();
  });
});
