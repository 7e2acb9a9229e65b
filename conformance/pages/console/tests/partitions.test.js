/** The partitions of a container: hash space, split history, load, heat map, top keys, splits and merges, shares. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ended, exhaust, partitionsOf, pathOf, posts, query, read, splitPartition, tabOf } from "../load.js";
import { startServer } from "../programs.js";
import { assertAccessible, looksRight, owner, person, screenshot } from "../world.js";

/** The bounds of this file only find an error of order: machines of tests are slow and busy. */
const FRAME_MS_MAX = 1_000;

async function opened(test, database, options = {}) {
  const page = await person(test, { ...options, path: tabOf(database, "posts", `partitions${options.query ?? ""}`) });
  await page.getByRole("heading", { name: "Hash space" }).waitFor();
  return page;
}

test("each physical partition is a segment and a row, and its ancestors are the split history", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 3 });
  const partitions = await partitionsOf(me, database);
  const page = await opened(t, database);
  for (const { id, items } of partitions) {
    await page.getByRole("button", { name: new RegExp(`^Partition ${id} with`) }).waitFor();
    const row = page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: id, exact: true }) });
    assert.match(await row.innerText(), new RegExp(`\\b${items}\\b`));
  }
  const history = page.getByText("Split history, the newest at the bottom").locator("..");
  await history.getByTitle(/^Partition 0, since .* replaced/).waitFor();
  await history.getByTitle(/^Partition 1 from 0/).waitFor();
});

test("a segment is chosen by keyboard and marks its row and the address", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 2 });
  const [first] = await partitionsOf(me, database);
  const page = await opened(t, database);
  const segment = page.getByRole("button", { name: new RegExp(`^Partition ${first.id} with`) });
  await segment.focus();
  await page.keyboard.press("Enter");
  await page.locator("tr.selected").waitFor();
  assert.match(page.url(), new RegExp(`partition=${first.id}`));
  await page.reload();
  await page.locator("tr.selected").waitFor();
});

test("a split is planned, runs while the page is open, and its successors appear", async (t) => {
  const me = await owner();
  const database = await posts(me);
  const page = await opened(t, database);
  await page.getByRole("button", { name: "Actions of partition 0" }).click();
  await page.getByRole("menuitem", { name: "Split" }).click();
  const dialog = page.getByRole("dialog", { name: "Split partition 0" });
  await dialog.getByText("40 items are copied").waitFor();
  await dialog.getByText("With equal shares, a partition has 200 RU/s instead of 400.").waitFor();
  await dialog.getByLabel("Middle of the hash range").check();
  await dialog.getByText("Partition 0 (00–FF) becomes 00–20 and 20–FF.").waitFor();
  await assertAccessible(page, "the plan of a split");
  await dialog.getByRole("button", { name: "Split partition" }).click();
  await page.getByText("Split of partition 0 → 1, 2").waitFor();
  await page.getByRole("button", { name: /^Partition 1 with the range 00–20/ }).waitFor();
  await page.getByRole("button", { name: /^Partition 2 with the range 20–FF/ }).waitFor();
});

test("a point for a split must lie inside of the partition", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 4 });
  const page = await opened(t, database);
  await page.getByRole("button", { name: "Actions of partition 0" }).click();
  await page.getByRole("menuitem", { name: "Split" }).click();
  const dialog = page.getByRole("dialog", { name: "Split partition 0" });
  await dialog.getByLabel("A point of the hash space").check();
  const point = dialog.getByLabel("Point, in hexadecimal digits");
  await point.fill("xyz");
  await dialog.getByText("Use an even number of hexadecimal digits.").waitFor();
  assert.ok(await dialog.getByRole("button", { name: "Split partition" }).isDisabled());
  await point.fill("1000");
  await dialog.getByText("becomes 00–10 and 10–FF").waitFor();
});

test("a stepwise split waits for each step, says what clients get, and can be cancelled", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 10 });
  const page = await opened(t, database);
  const start = async () => {
    await page.getByRole("button", { name: "Actions of partition 0" }).click();
    await page.getByRole("menuitem", { name: "Split" }).click();
    const dialog = page.getByRole("dialog", { name: "Split partition 0" });
    await dialog.getByLabel("Run step by step").check();
    await dialog.getByRole("button", { name: "Split partition" }).click();
  };
  await start();
  await page.getByText("Rows are being copied. Requests are not affected.").waitFor();
  await page.getByRole("button", { name: "Cancel the split" }).click();
  await page.getByText("cancelled", { exact: true }).waitFor();
  assert.equal((await partitionsOf(me, database)).length, 1);

  await start();
  await page.getByRole("button", { name: "Next step: copy" }).click();
  await page.getByRole("button", { name: "Next step: close" }).click();
  await page.getByText("answered with 410/1007 until the switch").waitFor();
  await page.getByRole("button", { name: "Next step: switch" }).click();
  await page.getByText("Split of partition 0 → 1, 2").waitFor();
  assert.equal((await partitionsOf(me, database)).length, 2);
});

test("adjacent partitions are merged", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 2 });
  const [left, right] = await partitionsOf(me, database);
  const page = await opened(t, database);
  await page.getByRole("button", { name: `Actions of partition ${left.id}` }).click();
  await page.getByRole("menuitem", { name: `Merge with ${right.id}` }).click();
  const dialog = page.getByRole("dialog", { name: `Merge partitions ${left.id} and ${right.id}` });
  await dialog.getByText("One partition with a new id takes the range 00–FF.").waitFor();
  await dialog.getByRole("button", { name: "Merge partitions" }).click();
  await page.getByRole("button", { name: /^Partition 3 with the range 00–FF/ }).waitFor();
});

test("a split by another client appears while the page is open", async (t) => {
  const me = await owner();
  const database = await posts(me);
  const page = await opened(t, database);
  await page.getByRole("button", { name: /^Partition 0 with the range 00–FF/ }).waitFor();
  await splitPartition(me, database, "0");
  await page.getByRole("button", { name: /^Partition 2 with/ }).waitFor();
});

test("a refusal of the server stays in the dialog", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 2 });
  const page = await opened(t, database);
  const { body } = await me.manage("POST", `${pathOf(database, "posts")}/partitions/0/split`, {
    body: { stepwise: "yes" },
  });
  await page.getByRole("button", { name: "Actions of partition 0" }).click();
  await page.getByRole("menuitem", { name: "Split" }).click();
  const dialog = page.getByRole("dialog", { name: "Split partition 0" });
  await dialog.getByRole("button", { name: "Split partition" }).click();
  await dialog.getByRole("alert").waitFor();
  await me.manage("POST", `/operations/${body.id}`, { body: { action: "cancel" } });
  await ended(me, body.id);
});

test("the key with most of the load is the first of the top keys, and leads to its items", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 2 });
  await read(me, database, "p7", "post-7", 60);
  const page = await opened(t, database);
  const first = page.locator(".parts-key-list li").first();
  await first.getByText("post-7").waitFor();
  await page.getByRole("img", { name: /Lorenz curve, Gini coefficient/ }).waitFor();
  const address = await first.getByRole("link").getAttribute("href");
  const text = new URLSearchParams(address.split("?")[1]).get("text");
  assert.equal(text, 'SELECT * FROM c\nWHERE c.postId = "post-7"');
  await page.getByRole("tab", { name: "Stored size" }).click();
  await page.getByText("No logical key is large").waitFor();
});

test("refused requests are counted for their partition", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 4 });
  await exhaust(me, database, "p1", "post-1");
  const page = await opened(t, database);
  const cell = page.locator('td[data-label="429"]');
  await cell.waitFor();
  const [partition] = await partitionsOf(me, database);
  assert.ok(partition.throttled >= 5);
  assert.equal(Number((await cell.innerText()).replaceAll(",", "")), partition.throttled);
  await page.getByLabel("Load", { exact: true }).selectOption("throttled");
  await page.getByRole("application", { name: /Heat map of Refused with 429/ }).waitFor();
});

test("the heat map is read by keyboard, and a cell leads to its requests", async (t) => {
  const me = await owner();
  const database = await posts(me);
  await read(me, database, "p7", "post-7", 40);
  const page = await opened(t, database);
  const map = page.getByRole("application", { name: /Heat map of Request units/ });
  await map.focus();
  await page.keyboard.press("End");
  await page.locator(".parts-tip").getByText("Partition 0, part").waitFor();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Shift+ArrowLeft");
  await page.keyboard.press("Enter");
  const link = page.getByRole("link", { name: "Requests of this time" });
  await link.waitFor();
  assert.match(await link.getAttribute("href"), new RegExp(`^#/requests\\?db=${database}&coll=posts&from=\\d+&to=\\d+`));
  await page.keyboard.press("+");
  await page.getByRole("button", { name: "Show everything" }).waitFor();
  assert.match(page.url(), /zoom=/);
  await map.focus();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Show everything" }).waitFor({ state: "detached" });
});

test("a drag zooms into time and hash space, and a bracket zooms to its partition", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 2 });
  const page = await opened(t, database);
  const map = page.getByRole("application", { name: /Heat map/ });
  await map.scrollIntoViewIfNeeded();
  const box = await map.boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.25);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.75, box.y + box.height * 0.5, { steps: 5 });
  await page.mouse.up();
  await page.getByRole("button", { name: "Show everything" }).waitFor();
  assert.match(decodeURIComponent(page.url()), /zoom=\d+-\d+\.0_25-0_5/);
  await page.getByRole("button", { name: "Show everything" }).click();
  await page.getByRole("button", { name: "Zoom to partition 1" }).click();
  await page.waitForFunction(() => /zoom=\.0-/.test(decodeURIComponent(location.href)));
});

test("the heat map has a table with the busiest parts and their keys", async (t) => {
  const me = await owner();
  const database = await posts(me);
  await read(me, database, "p7", "post-7", 60);
  const page = await opened(t, database);
  await page.getByRole("button", { name: "Table", exact: true }).click();
  const table = page.getByRole("region", { name: "Busiest parts of the hash space" });
  await table.getByRole("cell", { name: /post-7/ }).waitFor();
});

test("shares of throughput must have the sum of the container, and are saved", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 2 });
  const [left, right] = await partitionsOf(me, database);
  const page = await opened(t, database);
  await page.getByRole("button", { name: "Change the shares" }).click();
  await page.getByLabel(`Partition ${left.id}, RU/s`).fill("300");
  await page.getByText("The sum is 500 RU/s, 100 above the container's throughput.").waitFor();
  assert.ok(await page.getByRole("button", { name: "Save shares" }).isDisabled());
  await page.getByLabel(`Partition ${right.id}, RU/s`).fill("100");
  await page.getByRole("button", { name: "Save shares" }).click();
  await page.getByText("400 RU/s, own shares").waitFor();
  const { body } = await me.manage("GET", `${pathOf(database, "posts")}/throughput`);
  assert.deepEqual(body.partitions.map(({ ruPerSecond }) => ruPerSecond), [300, 100]);
});

test("a read-only console shows partitions and splits none", async (t) => {
  const server = await startServer("--console", "read-only");
  t.after(() => server.stop());
  const writing = await person(t, { server: Promise.resolve(server), path: "#/partitions" });
  await writing.getByText("There are no containers").waitFor();
});

test("the overview has a line for each container", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 2, items: 6 });
  const page = await person(t, { path: `#/partitions?filter=${database}` });
  const line = page.getByRole("listitem").filter({ hasText: database });
  await line.getByText("2 partitions").waitFor();
  await line.getByRole("link").click();
  await page.getByRole("heading", { name: "Hash space" }).waitFor();
});

test("256 × 600 cells of the heat map are drawn within frames", async (t) => {
  const me = await owner();
  const database = await posts(me, { items: 2 });
  const page = await person(t, { width: 1280 });
  await page.route(/\/heatmap\?/, async (route) => {
    const to = Number(new URL(route.request().url()).searchParams.get("to"));
    const { body } = await me.manage("GET", `${pathOf(database, "posts")}/heatmap?from=0&to=1`);
    await route.fulfill({ json: { ...body, columns: fullColumns(to) } });
  });
  await page.goto(tabOf(database, "posts", "partitions?range=3600"));
  await page.getByRole("application", { name: /Heat map/ }).waitFor();
  const { frames, median, longest } = await page.evaluate(drive);
  t.diagnostic(`${frames} frames, median ${median.toFixed(1)} ms, longest ${longest.toFixed(1)} ms`);
  assert.ok(median < FRAME_MS_MAX, `${median} ms`);
});

/** Columns of 5 s with load in all parts, for 3,000 s. */
function fullColumns(to) {
  const buckets = [...Array(256).keys()];
  const columns = [];
  for (let at = 600; at > 0; at -= 1) {
    const values = buckets.map((part) => 1 + ((part * 31 + at * 17) % 997));
    columns.push({ start: to - at * 5, seconds: 5, buckets, values, scans: 5 });
  }
  return columns;
}

/** In the page: changes the brightness in each frame and measures the time between frames. */
async function drive() {
  const slider = document.querySelector('input[type="range"]');
  const times = [];
  let before = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < 60; frame += 1) {
    slider.value = String(-4 + (frame % 28) / 2);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    const now = await new Promise(requestAnimationFrame);
    times.push(now - before);
    before = now;
  }
  times.sort((a, b) => a - b);
  return { frames: times.length, median: times[times.length >> 1], longest: times.at(-1) };
}

test("the tab looks right at both widths, light and dark", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 4, items: 120 });
  await read(me, database, "p7", "post-7", 40);
  for (let n = 0; n < 60; n += 1) await read(me, database, `p${n}`, `post-${n}`);
  await query(me, database, "SELECT VALUE COUNT(1) FROM c");
  await exhaust(me, database, "p7", "post-7", 10);
  await looksRight(t, "partitions", tabOf(database, "posts", "partitions?range=300"), async (page) => {
    await page.getByRole("application", { name: /Heat map/ }).waitFor();
    await page.locator(".parts-key-list li").first().waitFor();
    await page.locator(".plot canvas").first().waitFor();
  });
  const page = await opened(t, database, { height: 2600, query: "?range=300" });
  await page.locator(".plot canvas").first().waitFor();
  await page.locator(".parts-key-list li").first().waitFor();
  await screenshot(page, "partitions-whole");
});

test("the overview looks right at both widths, light and dark", async (t) => {
  const me = await owner();
  const database = await posts(me, { partitions: 3, items: 30 });
  await looksRight(t, "partitions-overview", "#/partitions", async (page) => {
    await page.locator(".parts-lines").getByText(database).waitFor();
  });
});
