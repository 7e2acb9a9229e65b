/** New containers and the settings of containers: every field, refusals at their fields, throughput, index. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { freshName, looksRight, owner, person } from "../world.js";

async function prepared(stem, rest = {}) {
  const account = await owner();
  const database = freshName(stem);
  await account.database(database);
  await account.container(database, "c", "/pk", rest);
  const read = async (id = "c") => (await account.data("GET", `/dbs/${database}/colls/${id}`)).body;
  return { account, database, read };
}

const settings = (database, section) => `#/data/${database}/c/settings?section=${section}`;

test("a container with a hierarchical key, unique keys, TTL and policies is created", async (t) => {
  const { database, read } = await prepared("new-full");
  const page = await person(t, { path: `#/data/${database}?new=container` });
  const form = page.getByRole("dialog");
  await form.getByRole("button", { name: "Create container" }).click();
  await form.getByText("The name is missing.").waitFor();
  await form.getByText("The partition key path is malformed.").waitFor();
  await form.getByLabel("Name", { exact: true }).fill("full");
  await form.getByLabel("Partition key", { exact: true }).fill("/tenant");
  await form.getByRole("button", { name: /Add a level/ }).click();
  await form.getByLabel("Second level", { exact: true }).fill("/user");
  await form.getByLabel("Autoscale").check();
  await form.getByText("Unique keys", { exact: true }).click();
  await form.getByRole("button", { name: "Add a unique key" }).click();
  await form.getByLabel("Unique key 1", { exact: true }).fill("/email, /zip");
  await form.getByText("Time to live", { exact: true }).first().click();
  await form.getByLabel("On, with a default").check();
  await form.getByLabel("Seconds after the last write").fill("3600");
  await form.getByText("Vectors", { exact: true }).click();
  await form.getByRole("button", { name: "Add a vector path" }).click();
  await form.getByRole("group", { name: "Vector 1" }).getByLabel("Path").fill("/vector");
  await form.getByText("Full text", { exact: true }).click();
  await form.getByRole("button", { name: "Add a text path" }).click();
  await form.getByRole("group", { name: "Text 1" }).getByLabel("Path").fill("/text");
  await form.getByText("Computed properties", { exact: true }).click();
  await form.getByRole("button", { name: "Add a computed property" }).click();
  await form.getByRole("group", { name: "Computed property 1" }).getByLabel("Name").fill("lower");
  await form.getByRole("group", { name: "Computed property 1" }).getByLabel("Query").fill("SELECT VALUE LOWER(c.name) FROM c");
  await form.getByRole("button", { name: "Create container" }).click();
  await page.waitForURL(new RegExp(`#/data/${database}/full/items$`));
  const made = await read("full");
  assert.deepEqual(made.partitionKey.paths, ["/tenant", "/user"]);
  assert.deepEqual(made.uniqueKeyPolicy.uniqueKeys, [{ paths: ["/email", "/zip"] }]);
  assert.equal(made.defaultTtl, 3600);
  assert.deepEqual(made.indexingPolicy.vectorIndexes, [{ path: "/vector", type: "flat" }]);
  assert.equal(made.fullTextPolicy.fullTextPaths[0].path, "/text");
  assert.equal(made.computedProperties[0].name, "lower");
  await page.getByRole("treeitem", { name: "full" }).waitFor();
});

test("a refusal of the server stands at its field, and nothing typed is lost", async (t) => {
  const { database } = await prepared("new-refused");
  const page = await person(t, { path: `#/data/${database}?new=container` });
  const form = page.getByRole("dialog");
  await form.getByLabel("Name", { exact: true }).fill("c");
  await form.getByLabel("Partition key", { exact: true }).fill("/pk");
  await form.getByRole("button", { name: "Create container" }).click();
  await form.getByText(/already exists/).waitFor();
  const name = form.getByLabel("Name", { exact: true });
  assert.equal(await name.getAttribute("aria-invalid"), "true");
  await name.fill("other");
  await form.getByText("Computed properties", { exact: true }).click();
  await form.getByRole("button", { name: "Add a computed property" }).click();
  const row = form.getByRole("group", { name: "Computed property 1" });
  await row.getByLabel("Name").fill("bad");
  await row.getByLabel("Query").fill("SELECT VALUE FOO(c.a) FROM c");
  await form.getByRole("button", { name: "Create container" }).click();
  await form.getByText(/the computed property 'bad'/).waitFor();
  assert.equal(await row.getByLabel("Query").inputValue(), "SELECT VALUE FOO(c.a) FROM c");
});

test("throughput is replaced within its limits and changes between manual and autoscale", async (t) => {
  const { database } = await prepared("set-scale");
  const page = await person(t, { path: settings(database, "scale") });
  const ru = page.getByLabel("RU/s", { exact: true });
  await page.getByText("The minimum is 400 RU/s").waitFor();
  await ru.fill("300");
  await page.getByRole("button", { name: "Save throughput" }).click();
  await page.getByText("Write RU/s from 400").waitFor();
  await ru.fill("700");
  await page.getByRole("button", { name: "Save throughput" }).click();
  await page.getByText("The throughput was changed.").waitFor();
  await page.getByRole("button", { name: "Change to autoscale" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Change to autoscale" }).click();
  await page.getByText("The throughput is autoscale now.").waitFor();
  const maximum = page.getByLabel("Maximum RU/s");
  await maximum.fill("2000");
  await page.getByRole("button", { name: "Save throughput" }).click();
  await page.getByText("from 200 RU/s to the maximum").waitFor();
  await page.getByRole("button", { name: "Change to manual" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Change to manual" }).click();
  await page.getByText("Manual: the same RU/s at all times.").waitFor();
});

test("TTL, geospatial type and retention of the change feed are saved", async (t) => {
  const { database, read } = await prepared("set-general");
  const page = await person(t, { path: settings(database, "general") });
  await page.getByLabel("On, with a default").check();
  await page.getByLabel("Seconds after the last write").fill("0");
  await page.getByLabel("Minutes for which the change feed").fill("60000");
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("The time to live is not valid.").waitFor();
  await page.getByText("The retention is not valid.").waitFor();
  await page.getByLabel("Seconds after the last write").fill("90");
  await page.getByLabel("Minutes for which the change feed").fill("10");
  await page.getByLabel("Geometry: in a plane").check();
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("The settings were saved.").waitFor();
  const saved = await read();
  assert.equal(saved.defaultTtl, 90);
  assert.equal(saved.changeFeedPolicy.retentionDuration, 10);
  assert.equal(saved.geospatialConfig.type, "Geometry");
  await page.getByLabel("Off: items stay").check();
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByRole("button", { name: "Discard" }).waitFor({ state: "detached" });
  assert.equal((await read()).defaultTtl, undefined);
});

test("an indexing policy is completed while typing, compared, and saved", async (t) => {
  const { account, database, read } = await prepared("set-policy");
  await account.item(database, "c", { id: "1", pk: "a", address: { city: "x" } });
  const page = await person(t, { path: settings(database, "indexing") });
  const editor = page.getByRole("textbox", { name: "Indexing policy" });
  await editor.getByText('"indexingMode"').waitFor();
  const write = async (text) => {
    await editor.focus();
    await page.keyboard.press("ControlOrMeta+A");
    await page.keyboard.insertText(text);
  };
  await write('{"indexingMode": "lazy"}');
  const underlined = editor.locator(".cm-lintRange-error");
  await underlined.waitFor();
  assert.equal(await underlined.textContent(), '"lazy"');
  await page.getByRole("button", { name: "Review and save" }).click();
  await page.getByText("The mode 'lazy' is not available.").first().waitFor();
  await write('{"');
  await page.keyboard.type("comp");
  await page.getByRole("option", { name: /compositeIndexes/ }).waitFor();
  const composite = '[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]';
  await write(`{"indexingMode": "consistent", "includedPaths": [{"path": "/*"}], "compositeIndexes": [${composite}]}`);
  await page.getByRole("button", { name: "Review and save" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Yours").waitFor();
  await dialog.getByRole("button", { name: "Replace policy" }).click();
  await page.getByText("The settings were saved.").waitFor();
  await page.getByText("The index is complete.").waitFor();
  assert.equal((await read()).indexingPolicy.compositeIndexes[0].length, 2);
  await editor.getByText('"excludedPaths"').waitFor();
});

test("computed properties, policies and buckets are saved; a refusal stands at its row", async (t) => {
  const { account, database, read } = await prepared("set-more");
  const page = await person(t, { path: settings(database, "computed") });
  await page.getByRole("button", { name: "Add a computed property" }).click();
  const row = page.getByRole("group", { name: "Computed property 1" });
  await row.getByLabel("Name").fill("lower");
  await row.getByLabel("Query").fill("garbage");
  await page.getByRole("button", { name: "Save computed properties" }).click();
  await row.getByText(/SC1001/).waitFor();
  await row.getByLabel("Query").fill("SELECT VALUE LOWER(c.name) FROM c");
  await page.getByRole("button", { name: "Save computed properties" }).click();
  await page.getByText("The settings were saved.").waitFor();
  assert.equal((await read()).computedProperties.length, 1);

  await page.getByRole("tab", { name: "Vectors and full text" }).click();
  await page.getByRole("button", { name: "Add a vector path" }).click();
  await page.getByRole("group", { name: "Vector 1" }).getByLabel("Path").fill("/v");
  await page.getByRole("group", { name: "Vector 1" }).getByLabel("Dimensions").fill("9000");
  await page.getByRole("button", { name: "Save policies" }).click();
  await page.getByText(/dimension/i).nth(1).waitFor();
  await page.getByRole("group", { name: "Vector 1" }).getByLabel("Dimensions").fill("8");
  await page.getByRole("button", { name: "Save policies" }).click();
  await page.getByRole("button", { name: "Discard" }).waitFor({ state: "detached" });
  assert.equal((await read()).vectorEmbeddingPolicy.vectorEmbeddings[0].dimensions, 8);

  await page.getByRole("tab", { name: "Throughput buckets" }).click();
  await page.getByLabel("Bucket 2, percent").fill("40");
  await page.getByRole("button", { name: "Save buckets" }).click();
  await page.getByText("The buckets were changed.").waitFor();
  const { body } = await account.manage("GET", `/dbs/${database}/colls/c/throughput`);
  assert.deepEqual(body.buckets, [{ id: 2, maxPercent: 40 }]);

  await page.getByRole("tab", { name: "Keys" }).click();
  await page.getByText("so it cannot be changed").waitFor();
});

test("a dialog at the side is inside of the window at phone width", async (t) => {
  const { database } = await prepared("new-phone");
  const page = await person(t, { path: `#/data/${database}?new=container`, width: 390 });
  await page.getByRole("dialog").getByLabel("Name", { exact: true }).fill("c2");
  const box = await page.getByRole("dialog").boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 390, JSON.stringify(box));
});

test("a container is deleted after its name was typed, with words of what goes", async (t) => {
  const { account, database } = await prepared("set-delete");
  await account.item(database, "c", { id: "1", pk: "a" });
  const page = await person(t, { path: settings(database, "scale") });
  await page.getByRole("button", { name: "Delete container" }).click();
  await page.getByText("1 item and").waitFor();
  await page.getByLabel("Type c to confirm").fill("c");
  await page.getByRole("dialog").getByRole("button", { name: "Delete container" }).click();
  await page.getByText("No container yet.").waitFor();
});

test("the conflicts tab says why it is empty, and settings look right", async (t) => {
  const { database } = await prepared("set-look");
  await looksRight(t, "data-conflicts", `#/data/${database}/c/conflicts`, async (page) => {
    await page.getByText("This account has one write region").waitFor();
  });
  await looksRight(t, "data-scale", settings(database, "scale"), async (page) => {
    await page.getByText("The minimum is 400 RU/s").waitFor();
  });
  await looksRight(t, "data-policy", settings(database, "indexing"), async (page) => {
    await page.getByRole("textbox", { name: "Indexing policy" }).getByText('"indexingMode"').waitFor();
  });
  await looksRight(t, "data-new-container", `#/data/${database}?new=container`, async (page) => {
    await page.getByRole("dialog").getByLabel("Partition key", { exact: true }).waitFor();
  });
});
