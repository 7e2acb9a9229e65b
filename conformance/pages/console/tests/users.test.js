/** Users and permissions of a database, and tokens on demand. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { freshName, looksRight, owner, person, sharedServer } from "../world.js";

async function prepared(stem) {
  const account = await owner();
  const database = freshName(stem);
  await account.database(database);
  await account.container(database, "c", "/pk");
  return { account, database, path: `#/data/${database}?view=users` };
}

test("a user gets a permission, and its token reads the container and nothing else", async (t) => {
  const { account, database, path } = await prepared("users-token");
  await account.item(database, "c", { id: "1", pk: "a" });
  const user = "reader 'x' 😀 <b>";
  const page = await person(t, { path });
  await page.getByRole("main").getByRole("button", { name: "New user" }).click();
  await page.getByRole("dialog").getByLabel("Name", { exact: true }).fill(user);
  await page.getByRole("button", { name: "Create user" }).click();
  await page.getByRole("heading", { name: user, exact: true }).waitFor();
  await page.getByText("No permission yet.").waitFor();
  await page.getByRole("button", { name: "New permission" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("read-c");
  await dialog.getByLabel("Resource", { exact: true }).fill("somewhere");
  await dialog.getByRole("button", { name: "Create permission" }).click();
  await dialog.getByText("The link is malformed.").waitFor();
  await dialog.getByLabel("Resource", { exact: true }).fill(`dbs/${database}/colls/c`);
  await dialog.getByRole("button", { name: "Create permission" }).click();
  await page.getByRole("grid", { name: "Permissions" }).getByText("read-c", { exact: true }).waitFor();

  await page.getByRole("button", { name: "Token", exact: true }).click();
  await page.getByLabel("Valid for").selectOption("600");
  assert.equal(await page.getByRole("textbox", { name: "Token" }).count(), 0, "no token before a person asks");
  await page.getByRole("button", { name: "Show a token" }).click();
  const token = await page.getByRole("textbox", { name: "Token" }).inputValue();
  await page.getByText(/^Ends /).waitFor();
  const { ready } = await sharedServer();
  const ask = async (at) =>
    fetch(new URL(at, ready.endpoint_http), {
      headers: { authorization: encodeURIComponent(token), "x-ms-version": "2020-07-15", "x-ms-documentdb-partitionkey": '["a"]' },
    });
  assert.equal((await ask(`dbs/${database}/colls/c/docs/1`)).status, 200);
  assert.equal((await ask(`dbs/${database}/users`)).status, 403);
});

test("a permission for a partition key is created and deleted, and the user is deleted by name", async (t) => {
  const { account, database, path } = await prepared("users-delete");
  await account.data("POST", `/dbs/${database}/users`, { body: { id: "writer" } });
  const page = await person(t, { path: `${path}&user=writer` });
  await page.getByRole("button", { name: "New permission" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("all-a");
  await dialog.getByLabel("Read and write").check();
  await dialog.getByLabel("Resource", { exact: true }).fill(`dbs/${database}/colls/c`);
  await dialog.getByLabel("Partition key value").fill('["a"]');
  await dialog.getByRole("button", { name: "Create permission" }).click();
  const grid = page.getByRole("grid", { name: "Permissions" });
  await grid.getByText('["a"]').waitFor();
  const stored = await account.data("GET", `/dbs/${database}/users/writer/permissions/all-a`);
  assert.equal(stored.body.permissionMode, "All");
  await page.getByRole("button", { name: "Delete the permission all-a" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete permission" }).click();
  await page.getByText("No permission yet.").waitFor();
  await page.getByRole("button", { name: "Delete the user" }).click();
  await page.getByLabel("Type writer to confirm").fill("writer");
  await page.getByRole("dialog").getByRole("button", { name: "Delete user" }).click();
  await page.getByText("No user yet.").waitFor();
});

test("the users of a database look right", async (t) => {
  const { account, database, path } = await prepared("users-look");
  await account.data("POST", `/dbs/${database}/users`, { body: { id: "reader" } });
  const body = { id: "p", permissionMode: "Read", resource: `dbs/${database}/colls/c` };
  await account.data("POST", `/dbs/${database}/users/reader/permissions`, { body });
  await looksRight(t, "data-users", `${path}&user=reader`, async (page) => {
    await page.getByRole("grid", { name: "Permissions" }).getByText("p", { exact: true }).waitFor();
  });
});
