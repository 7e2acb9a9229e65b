/** The vector and full-text indexes of a container: sizes, progress, the measurement of an approximate index. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { freshName, looksRight, owner, person } from "../world.js";

const DIMENSIONS = 32;
/** The number of vectors from which on the server quantises them. */
const APPROXIMATE_FROM = 10_000;
const ITEMS_PER_BATCH = 100;
/** Batches under way at a time. */
const CLIENTS = 4;

const policies = (type) => ({
  vectorEmbeddingPolicy: {
    vectorEmbeddings: [
      { path: "/vector", dataType: "float32", dimensions: DIMENSIONS, distanceFunction: "cosine" },
    ],
  },
  fullTextPolicy: { defaultLanguage: "en-US", fullTextPaths: [{ path: "/text", language: "en-US" }] },
  indexingPolicy: {
    vectorIndexes: [{ path: "/vector", type }],
    fullTextIndexes: [{ path: "/text" }],
    includedPaths: [{ path: "/*" }],
    excludedPaths: [{ path: "/vector/*" }],
  },
});

const settings = (database) => `#/data/${database}/c/settings?section=search`;

async function prepared(stem, type) {
  const account = await owner();
  const database = freshName(stem);
  await account.database(database);
  await account.container(database, "c", "/pk", policies(type));
  return { account, database };
}

/** A vector that follows from a number, as if its components were random. */
function vectorOf(n) {
  return Array.from({ length: DIMENSIONS }, (_, at) => (Math.sin(n * 12.9898 + at * 78.233) * 43_758.5453) % 1);
}

/** Creates items with vectors and texts in batches, each with a partition key of its own. */
async function fill(account, database, items) {
  const path = `/dbs/${database}/colls/c/docs`;
  let next = 0;
  const work = async () => {
    while (next < items) {
      const first = next;
      next += ITEMS_PER_BATCH;
      const operations = [];
      for (let n = first; n < Math.min(next, items); n += 1) {
        const resourceBody = { id: `i${n}`, pk: `p${first}`, vector: vectorOf(n), text: "a red rod" };
        operations.push({ operationType: "Create", resourceBody });
      }
      const headers = {
        "x-ms-cosmos-is-batch-request": "True",
        "x-ms-cosmos-batch-atomic": "True",
        "x-ms-documentdb-partitionkey": JSON.stringify([`p${first}`]),
      };
      await account.data("POST", path, { body: operations, headers });
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, work));
}

test("few vectors are compared, texts are counted, and a container without indexes has no table", async (t) => {
  const { account, database } = await prepared("search-few", "diskANN");
  await fill(account, database, 30);
  const page = await person(t, { path: settings(database) });
  const table = page.getByRole("grid", { name: "Search indexes" });
  const vectors = table.getByRole("row", { name: /\/vector/ });
  await vectors.getByText("compares all vectors").waitFor();
  await vectors.getByText("30 vectors").waitFor();
  assert.equal(await vectors.getByRole("button", { name: "Measure recall" }).count(), 0);
  const texts = table.getByRole("row", { name: /\/text/ });
  await texts.getByText("full text, en-US").waitFor();
  await texts.getByText("30 texts").waitFor();
  await texts.getByText("complete").waitFor();

  await account.container(database, "plain");
  await page.goto(settings(database).replace("/c/", "/plain/"));
  await page.getByRole("heading", { name: "Vectors", exact: true }).waitFor();
  assert.equal(await table.count(), 0);
});

test("the table follows the task, and the recall of an approximate index is measured", async (t) => {
  const { account, database } = await prepared("search-many", "quantizedFlat");
  await fill(account, database, APPROXIMATE_FROM);
  const page = await person(t, { path: settings(database) });
  const table = page.getByRole("grid", { name: "Search indexes" });
  const vectors = table.getByRole("row", { name: /\/vector/ });
  await vectors.getByText("10,000 vectors").waitFor();
  await vectors.getByText("complete").waitFor();
  await vectors.getByRole("button", { name: "Measure recall" }).click();
  const result = page.getByText(/^\/vector: [01]\.\d{3} of the nearest 10 found in 20 searches; \S+ .?s instead of/);
  assert.match(await result.innerText(), /: (1\.000|0\.[89]\d\d) of/);
  await looksRight(t, "search-indexes", settings(database), async (other) => {
    await other.getByRole("button", { name: "Measure recall" }).click();
    await other.getByText(/of the nearest 10 found/).waitFor();
  });
});

test("a refusal of a measurement stands below the table", async (t) => {
  const { account, database } = await prepared("search-refused", "quantizedFlat");
  await fill(account, database, 30);
  const page = await person(t, { path: "#/" });
  // The server says that the index is approximate; it has changed since.
  await page.route("**/api/manage/dbs/*/colls/*/indexes", async (route) => {
    const answer = await route.fetch();
    const body = await answer.json();
    for (const index of body.indexes) Object.assign(index, { state: "building", percent: 45, path: `${index.path}x` });
    await route.fulfill({ response: answer, json: body });
  });
  await page.goto(settings(database));
  await page.getByText("building, 45 %").first().waitFor();
  await page.getByRole("button", { name: "Measure recall" }).click();
  await page.getByText("the container has no vector index with the path '/vectorx'").waitFor();
});
