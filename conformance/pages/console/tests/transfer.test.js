/** Upload and download of items: formats, preview, refused items, throttling, stop. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { assertAccessible, freshName, owner, person } from "../world.js";

async function prepared(stem) {
  const account = await owner();
  const database = freshName(stem);
  await account.database(database);
  await account.container(database, "c", "/pk");
  const query = async (text) => {
    const answer = await account.data("POST", `/dbs/${database}/colls/c/docs`, {
      headers: {
        "content-type": "application/query+json",
        "x-ms-documentdb-isquery": "True",
        "x-ms-documentdb-query-enablecrosspartition": "True",
      },
      body: { query: text, parameters: [] },
    });
    return answer.body.Documents;
  };
  return { account, database, query, path: `#/data/${database}/c/items` };
}

/** Opens the upload with a file of this text. */
async function choose(t, path, name, text) {
  const page = await person(t, { path: `${path}?transfer=upload` });
  await page.getByLabel("Files to upload").setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
  await page.getByRole("heading", { name: `First items of ${name}` }).waitFor();
  return page;
}

async function upload(page) {
  await page.getByRole("dialog").getByRole("button", { name: "Upload items" }).click();
  await page.getByText("Done.").waitFor();
}

/** Downloads in a format and returns the text of the file. */
async function download(t, path, format, more = async () => {}) {
  const page = await person(t, { path });
  // Without the choice of a file, which no test can answer, the browser saves the file by itself.
  await page.evaluate(() => {
    Object.defineProperty(window, "showSaveFilePicker", { value: undefined });
  });
  await page.getByRole("button", { name: "Upload and download" }).click();
  await page.getByRole("menuitem", { name: "Download items" }).click();
  await page.getByRole("radio", { name: format }).check();
  await more(page);
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("dialog").getByRole("button", { name: "Download items" }).click(),
  ]);
  await page.getByText("The file is complete.").waitFor();
  return readFile(await file.path(), "utf8");
}

test("JSON lines are uploaded, and each refused line is listed with its reason", async (t) => {
  const { account, database, query, path } = await prepared("up-lines");
  await account.item(database, "c", { id: "there", pk: "a" });
  const lines = [
    '{"id": "one", "pk": "a", "n": 9007199254740993}',
    '{"id": "there", "pk": "a"}',
    '{"id": "broken',
    '{"pk": "a"}',
    `{"id": "two 😀 <script>", "pk": "ü"}`,
    "[1]",
  ];
  const page = await choose(t, path, "items.jsonl", lines.join("\n"));
  await upload(page);
  await page.getByText("2 items stored, 4 refused").waitFor();
  const refused = page.getByRole("region", { name: "Refused items" });
  await refused.getByText("already exists").waitFor();
  await refused.getByText("not valid JSON").waitFor();
  await refused.getByText("The item has no id.").waitFor();
  await refused.getByText("not a JSON object").waitFor();
  await assertAccessible(page, "an upload with refused items");
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Save the refused items" }).click(),
  ]);
  const saved = (await readFile(await file.path(), "utf8")).trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(saved.map(({ line }) => line).sort(), [2, 3, 4, 6]);
  assert.deepEqual(await query("SELECT VALUE c.id FROM c ORDER BY c.id"), ["one", "there", "two 😀 <script>"]);
});

test("an array is uploaded as upserts, with ids where they are missing", async (t) => {
  const { account, database, query, path } = await prepared("up-array");
  await account.item(database, "c", { id: "there", pk: "a", old: true });
  const items = [{ id: "there", pk: "a" }, { pk: "a", named: "by the console" }];
  const page = await choose(t, path, "items.json", JSON.stringify(items, null, 2));
  await page.getByRole("radio", { name: /^Replace/ }).check();
  await page.getByLabel("Create an id for items without one").check();
  await upload(page);
  await page.getByText("2 items stored, 0 refused").waitFor();
  assert.deepEqual(await query("SELECT VALUE COUNT(1) FROM c"), [2]);
  assert.deepEqual(await query("SELECT VALUE c.old FROM c"), []);
});

test("CSV has typed cells, and the preview warns of a missing partition key value", async (t) => {
  const { query, path } = await prepared("up-csv");
  const page = await choose(t, path, "items.csv", 'id,other,number,tags\r\n1,"a, ""b""",2.5,"[1,2]"\r\n2,,true,\r\n');
  await page.getByText("2 items of these have no value at").waitFor();
  await assertAccessible(page, "the preview of an upload");
  await upload(page);
  const rows = await query("SELECT c.id, c.other, c.number, c.tags FROM c ORDER BY c.id");
  assert.deepEqual(rows, [{ id: "1", other: 'a, "b"', number: 2.5, tags: [1, 2] }, { id: "2", number: true }]);
});

test("throttled items are sent again until they are stored", async (t) => {
  const { account, database, query, path } = await prepared("up-slow");
  await account.manage("POST", "/faults", {
    body: { operations: ["create_item"], database, status: 429, retryAfterMilliseconds: 1, count: 5 },
  });
  const lines = Array.from({ length: 40 }, (_, number) => JSON.stringify({ id: String(number), pk: "a" }));
  const page = await choose(t, path, "items.jsonl", lines.join("\n"));
  await upload(page);
  await page.getByText("40 items stored, 0 refused").waitFor();
  await page.getByText("5 requests repeated after 429").waitFor();
  assert.deepEqual(await query("SELECT VALUE COUNT(1) FROM c"), [40]);
});

test("an upload stops, and says which items are uncertain", async (t) => {
  const { account, database, path } = await prepared("up-stop");
  const rule = await account.manage("POST", "/faults", {
    body: { operations: ["create_item"], database, delayMilliseconds: 3_600_000 },
  });
  t.after(() => account.manage("DELETE", `/faults/${rule.body.id}`));
  const lines = Array.from({ length: 40 }, (_, number) => JSON.stringify({ id: String(number), pk: "a" }));
  const page = await choose(t, path, "items.jsonl", lines.join("\n"));
  // The server answers no request, so the first items are under way until the stop.
  const sent = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/c/docs"));
  await page.getByRole("dialog").getByRole("button", { name: "Upload items" }).click();
  await sent;
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped.").waitFor();
  await page.getByText("had been sent when the upload stopped").waitFor();
});

test("a download of JSON keeps every digit and leaves system properties out", async (t) => {
  const { account, database, path } = await prepared("down-json");
  await account.data("POST", `/dbs/${database}/colls/c/docs`, {
    headers: { "x-ms-documentdb-partitionkey": '["a"]' },
    body: '{"id":"1","pk":"a","n":9007199254740993}',
  });
  const text = await download(t, path, "JSON: one array");
  assert.match(text, /9007199254740993/);
  assert.deepEqual(JSON.parse(text).map((item) => Object.keys(item)), [["id", "pk", "n"]]);
});

test("a download has all pages, and a throttled page is read again", async (t) => {
  const { account, database, path } = await prepared("down-pages");
  const numbers = Array.from({ length: 1_200 }, (_, number) => number);
  while (numbers.length > 0) {
    const batch = numbers.splice(0, 6);
    await Promise.all(batch.map((number) => account.item(database, "c", { id: String(number), pk: "a" })));
  }
  const rule = { operations: ["query_items"], database, status: 429, retryAfterMilliseconds: 1, count: 1 };
  const text = await download(t, path, "JSON lines", async (page) => {
    await page.getByText("100 items shown").waitFor();
    await account.manage("POST", "/faults", { body: rule });
  });
  const ids = text.trim().split("\n").map((line) => JSON.parse(line).id);
  assert.equal(new Set(ids).size, 1_200);
});

test("a download of CSV under a filter can be uploaded again", async (t) => {
  const { account, database, query, path } = await prepared("down-csv");
  const item = { id: "1", pk: "a", text: 'x, "y"\nz', deep: { a: [1] }, empty: "", digits: "12" };
  await account.item(database, "c", item);
  await account.item(database, "c", { id: "2", pk: "b" });
  const text = await download(t, path, "CSV", async (page) => {
    await page.getByRole("dialog").getByLabel("Filter as a SQL predicate").fill('c.pk = "a"');
  });
  assert.equal(text.split("\r\n")[0], "id,pk,text,deep,empty,digits,(other)");
  await account.data("DELETE", `/dbs/${database}/colls/c/docs/1`, {
    headers: { "x-ms-documentdb-partitionkey": '["a"]' },
  });
  const page = await choose(t, path, "again.csv", text);
  await upload(page);
  const [again] = await query('SELECT c.id, c.pk, c.text, c.deep, c.empty, c.digits FROM c WHERE c.pk = "a"');
  assert.deepEqual(again, item);
});
