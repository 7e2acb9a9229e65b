/** The prediction tab: proposing other settings, the prediction in two columns, mistakes, refusals. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { assertAccessible, freshName, looksRight, owner, person } from "../world.js";

/** Makes a container of posts with some requests to it. Returns the address of its prediction tab. */
async function preparedTab(query = "") {
  const account = await owner();
  const database = freshName("what 'if' \"ÄÖ\" 🦉");
  await account.database(database);
  await account.container(database, "posts", "/userId", {}, { "x-ms-offer-throughput": "24000" });
  const docs = `/dbs/${encodeURIComponent(database)}/colls/posts/docs`;
  for (let n = 0; n < 40; n += 1) {
    const item = {
      id: `p${n}`,
      userId: `u${n % 5}`,
      postId: `<b>post ${n % 20}</b>`,
      type: n % 4 === 0 ? "post" : "comment",
      author: { name: `name ${n % 5}` },
      content: "A text of some words. ".repeat(5),
      likes: n,
    };
    await account.item(database, "posts", item, item.userId);
  }
  for (let n = 0; n < 12; n += 1) {
    await account.data("GET", `${docs}/p${n}`, { headers: { "x-ms-documentdb-partitionkey": `["u${n % 5}"]` } });
    await queryOf(account, docs, "SELECT * FROM c WHERE c.postId = @post", [
      { name: "@post", value: `<b>post ${n}</b>` },
    ]);
    await queryOf(account, docs, "SELECT * FROM c WHERE c.userId = @user AND c.type = 'post'", [
      { name: "@user", value: `u${n % 5}` },
    ]);
  }
  return `#/data/${encodeURIComponent(database)}/posts/prediction${query}`;
}

async function queryOf(account, docs, query, parameters) {
  await account.data("POST", docs, {
    body: { query, parameters },
    headers: {
      "content-type": "application/query+json",
      "x-ms-documentdb-isquery": "True",
      "x-ms-documentdb-query-enablecrosspartition": "True",
    },
  });
}

function key(page) {
  return page.getByRole("group", { name: "Partition key" }).getByRole("combobox").first();
}

async function predicted(page) {
  await page.getByRole("button", { name: "Predict" }).click();
  await page.getByRole("heading", { name: /^The recorded requests would cost/ }).waitFor();
}

test("another partition key is predicted, and the sentences and columns say what changes", async (t) => {
  const page = await person(t, { path: await preparedTab() });
  await key(page).fill("/postId");
  await predicted(page);
  await page.getByText(/1 of 2 forms of queries asks more physical partitions/).waitFor();
  await page.getByText(/1 of 2 forms of queries asks fewer physical partitions/).waitFor();
  const figures = page.getByRole("table", { name: "The settings as they are, and as proposed" });
  await figures.getByRole("columnheader", { name: /Proposed \/postId/ }).waitFor();
  const values = figures.getByRole("row", { name: /Partition key values/ });
  assert.match(await values.textContent(), /5.*20/);
  await page.getByText("SELECT * FROM c WHERE c.postId = @post").waitFor();
  await assertAccessible(page, "a prediction");
});

test("the proposal is in the address, and a path of the sample fills the key", async (t) => {
  const page = await person(t, { path: await preparedTab() });
  await page.getByRole("button", { name: /^\/author\/name/ }).click();
  assert.equal(await key(page).inputValue(), "/author/name");
  await page.getByRole("button", { name: "Add a level" }).click();
  await page.getByRole("combobox", { name: "Level 2" }).fill("/postId");
  await page.getByLabel("Throughput").selectOption("Manual");
  await page.reload();
  await page.getByRole("combobox", { name: "Level 2" }).waitFor();
  assert.equal(await page.getByRole("combobox", { name: "Level 2" }).inputValue(), "/postId");
  assert.equal(await page.getByLabel("RU/s").inputValue(), "4000");
  await predicted(page);
  await page.getByRole("columnheader", { name: "Proposed /author/name, /postId" }).waitFor();
});

test("a mistake is said beside its field, and what the server refuses is said in its words", async (t) => {
  const page = await person(t, { path: await preparedTab() });
  await key(page).fill("userId");
  await page.getByRole("button", { name: "Predict" }).click();
  await page.getByText("is not a path. A path starts with /").waitFor();
  await assertAccessible(page, "a mistake");
  await key(page).fill("/userId");
  await page.getByLabel("Throughput").selectOption("Manual");
  await page.getByLabel("RU/s").fill("450");
  await page.getByLabel("RU/s").press("Enter");
  await page.getByText("There is no prediction.").waitFor();
  assert.equal(await page.getByLabel("RU/s").inputValue(), "450");
});

test("a query that has not run is predicted beside the recorded ones, by keyboard alone", async (t) => {
  const page = await person(t, { path: await preparedTab() });
  await page.getByLabel("A query that has not run yet").focus();
  await page.keyboard.type("SELECT * FROM c WHERE c.likes > 30");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByText("not run yet", { exact: true }).waitFor();
  await page.getByText("SELECT * FROM c WHERE c.likes > 30").last().waitFor();
});

test("the tab is accessible at every width and in every theme", async (t) => {
  const path = await preparedTab("?key=%2FpostId");
  await looksRight(t, "prediction", path, predicted);
  await looksRight(t, "prediction-empty", path, async (page) => {
    await page.getByText("What would the recorded requests cost?").waitFor();
    await page.getByRole("button", { name: /^\/author\/name/ }).waitFor();
  });
});
