/** The pages overview, connect, settings and live: their states, their figures, how they look. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import { startServer } from "../programs.js";
import { freshName, looksRight, owner, person, sharedServer } from "../world.js";

const HOSTILE = `<img src=x onerror=alert(1)> é💥 '"`;

async function heading(page, name) {
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

/** A server whose overview has containers, one of them with a hostile name. */
async function filled() {
  const account = await owner();
  const database = freshName("overview");
  await account.database(database);
  await account.container(database, "orders");
  await account.container(database, HOSTILE);
  for (const number of [1, 2, 3]) await account.item(database, "orders", { id: `o${number}`, pk: "a" });
  return { account, database };
}

test("an empty account offers a sample, and the sample's figures are then shown", async (t) => {
  const server = await startServer();
  t.after(async () => server.stop());
  const page = await person(t, { server });
  await page.getByText("The account has no database.").waitFor();
  await page.getByRole("button", { name: "Load a sample" }).click();
  const row = page.getByRole("row", { name: /sample\s+orders\s+240/ });
  await row.waitFor();
  const { data } = await owner(server);
  const answer = await data("POST", "/dbs/sample/colls/orders/docs", {
    headers: {
      "content-type": "application/query+json",
      "x-ms-documentdb-isquery": "True",
      "x-ms-documentdb-query-enablecrosspartition": "True",
    },
    body: { query: "SELECT VALUE COUNT(1) FROM c" },
  });
  assert.deepEqual(answer.body.Documents, [240]);
});

test("the overview has each container with its items, and names are text, never markup", async (t) => {
  const { database } = await filled();
  const page = await person(t);
  await page.getByRole("gridcell", { name: HOSTILE, exact: true }).waitFor();
  const row = page.getByRole("row").filter({ hasText: database }).filter({ hasText: "orders" });
  assert.match(await row.innerText(), /\b3\b/);
});

test("a row of the overview opens the container by keyboard alone", async (t) => {
  const { database } = await filled();
  const page = await person(t);
  const row = page.getByRole("row").filter({ hasText: database }).filter({ hasText: "orders" });
  await row.focus();
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.hash === `#/data/${encodeURIComponent(database)}/orders/items`);
});

test("the overview advises on queries that ask every physical partition", async (t) => {
  const server = await startServer();
  t.after(async () => server.stop());
  const account = await owner(server);
  await account.database("shop");
  const headers = { "x-ms-offer-throughput": "20000" };
  await account.container("shop", "orders", "/pk", {}, headers);
  const query = {
    headers: {
      "content-type": "application/query+json",
      "x-ms-documentdb-isquery": "True",
      "x-ms-documentdb-query-enablecrosspartition": "True",
    },
    body: { query: "SELECT * FROM c WHERE c.price > 3" },
  };
  for (let round = 0; round < 120; round += 1) await account.data("POST", "/dbs/shop/colls/orders/docs", query);
  const page = await person(t, { server });
  const card = page.getByRole("listitem").filter({ hasText: "ask several physical partitions" });
  await card.waitFor();
  assert.match(await card.innerText(), /shop \/ orders/);
});

test("the connect page's shell program lists the databases", async (t) => {
  const page = await person(t, { path: "#/connect?language=shell" });
  await heading(page, "Connect");
  const program = await page.getByRole("tabpanel").locator("pre").innerText();
  const { ready } = await sharedServer();
  const answer = execFileSync("sh", ["-c", program], { env: { ...process.env, COSMOS_KEY: ready.key } }).toString();
  assert.match(answer, /^HTTP\/1\.1 200/);
  assert.match(answer, /"Databases":\[/);
});

test("the language of the program is in the address, and arrow keys change it", async (t) => {
  const page = await person(t, { path: "#/connect?language=go" });
  const go = page.getByRole("tab", { name: "Go" });
  await go.focus();
  await page.keyboard.press("ArrowRight");
  await page.getByRole("tab", { name: "Rust", selected: true }).waitFor();
  assert.match(page.url(), /language=rust$/);
});

test("the key is on the page only after a person asks for it", async (t) => {
  const page = await person(t, { path: "#/connect" });
  await heading(page, "Connect");
  assert.ok(!(await page.content()).includes("C2y6yDjf5"));
  await page.getByRole("button", { name: "Show the emulator's key" }).click();
  await page.getByText("C2y6yDjf5", { exact: false }).waitFor();
});

test("settings apply at once and stay after a reload; a limit that is no number is refused", async (t) => {
  const page = await person(t, { path: "#/settings" });
  await page.getByLabel("Items and rows on a page").selectOption("25");
  await page.getByLabel("Limit in RU").fill("750");
  await page.getByLabel("Limit in RU").fill("");
  await page.getByText("The limit is still 750 RU.").waitFor();
  await page.reload();
  await heading(page, "Settings");
  assert.equal(await page.getByLabel("Items and rows on a page").inputValue(), "25");
  assert.equal(await page.getByLabel("Limit in RU").inputValue(), "750");
});

test("the live page shows the requests that were just answered, as a table too", async (t) => {
  await filled();
  const page = await person(t, { path: "#/live" });
  const chart = page.getByRole("group", { name: /^Requests, chart/ });
  await chart.waitFor();
  await page.getByRole("button", { name: "Requests: table and CSV", exact: true }).click();
  await page.getByRole("menuitem", { name: "Show as a table" }).click();
  const table = page.getByRole("dialog", { name: "Requests" }).getByRole("grid");
  await table.getByRole("row").nth(1).waitFor();
  await page.getByRole("dialog").getByText(/^[1-9]\d*(\.\d+)?\/s$/).first().waitFor();
});

test("arrow keys read the values of a chart", async (t) => {
  await filled();
  const page = await person(t, { path: "#/live" });
  const chart = page.getByRole("group", { name: /^Request units, chart/ });
  await chart.focus();
  await page.keyboard.press("ArrowLeft");
  await chart.getByText(/Request units .* RU\/s/).waitFor({ state: "attached" });
});

/** Samples of two and three quarter hours in the form of the management API. */
function samples(count) {
  const start = Array.from({ length: count }, (_, at) => 1_780_000_000 + at);
  const wave = (scale) => start.map((_, at) => Math.round(scale * (1 + Math.sin(at / 40)) + (at % 17)));
  return {
    start,
    seconds: start.map(() => 1),
    requests: wave(400),
    requestUnits: wave(2_000),
    throttled: wave(3),
    clientErrors: wave(1),
    serverErrors: start.map(() => 0),
    microsecondsP50: wave(300),
    microsecondsP95: wave(900),
    microsecondsP99: wave(4_000),
    connections: wave(12),
    storedBytes: start.map((_, at) => 5_000_000 + at * 700),
    processorSeconds: wave(1).map((value) => value / 100),
    residentBytes: start.map((_, at) => 90_000_000 + at * 900),
    diskReadBytes: wave(4_096),
    diskWrittenBytes: wave(8_192),
    containers: [
      { db: "blog", coll: "posts", requestUnits: wave(1_200), requests: wave(200), throttled: wave(2) },
      { db: "blog", coll: "users", requestUnits: wave(500), requests: wave(90), throttled: wave(1) },
    ],
  };
}

test("charts with 10,000 points follow the cursor; the time of a frame is printed", async (t) => {
  const page = await person(t);
  const body = JSON.stringify(samples(10_000));
  await page.route("**/api/manage/live?*", (route) => route.fulfill({ contentType: "application/json", body }));
  await page.goto("#/live?from=1780000000&to=1780010000");
  const chart = page.getByRole("group", { name: /^Requests, chart/ });
  await chart.locator("canvas").waitFor();
  const box = await chart.boundingBox();
  const frames = page.evaluate(async () => {
    const times = [];
    let before = performance.now();
    while (times.length < 120) {
      await new Promise((resolve) => requestAnimationFrame(resolve));
      const now = performance.now();
      times.push(now - before);
      before = now;
    }
    return times.sort((left, right) => left - right);
  });
  for (let step = 0; step < 60; step += 1) {
    await page.mouse.move(box.x + 70 + (step * (box.width - 80)) / 60, box.y + box.height / 2);
  }
  const times = await frames;
  t.diagnostic(`frame with 10,000 points in each chart: median ${times[60].toFixed(1)} ms, p95 ${times[114].toFixed(1)} ms`);
  assert.equal(times.length, 120);
  assert.match(await page.locator(".chart", { hasText: "Latency" }).innerText(), /p99 .*ms/);
});

test("dragging over a chart puts the range into the address, and Follow returns to now", async (t) => {
  const page = await person(t);
  const body = JSON.stringify(samples(600));
  await page.route("**/api/manage/live?*", (route) => route.fulfill({ contentType: "application/json", body }));
  await page.goto("#/live?from=1780000000&to=1780000600");
  const plot = page.getByRole("group", { name: /^Request units, chart/ }).locator(".u-over");
  await plot.waitFor();
  const box = await plot.boundingBox();
  const middle = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width / 4, middle);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 3, middle);
  await page.mouse.move(box.x + box.width / 2, middle);
  await page.mouse.up();
  await page.waitForURL((url) => /from=1780000\d+&to=1780000\d+$/.test(url.hash) && !url.hash.includes("from=1780000000"));
  await page.getByRole("button", { name: "Follow" }).click();
  await page.waitForURL((url) => url.hash === "#/live");
});

test("the pages look right at every width and in every theme", async (t) => {
  await filled();
  for (const [name, path, content] of [
    ["overview", "", "RU since start"],
    ["connect", "#/connect", "A first program"],
    ["settings", "#/settings", "This console"],
  ]) {
    await looksRight(t, name, path, async (page) => page.getByText(content).first().waitFor({ state: "attached" }));
  }
  await looksRight(t, "live", "#/live", async (page) => page.locator(".chart canvas").nth(5).waitFor());
});
