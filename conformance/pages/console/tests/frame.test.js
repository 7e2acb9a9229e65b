/** The frame: signing in, a session that ended, a server that went away, palette, theme, keys, navigation. */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { startServer } from "../programs.js";
import { assertAccessible, consoleAddress, looksRight, person, sharedServer } from "../world.js";

async function signInPage(t, options = {}) {
  const page = await person(t, { ...options, signedIn: false });
  await page.getByRole("heading", { name: "Sign in to the console" }).waitFor();
  return page;
}

async function signInWith(page, key) {
  await page.getByLabel("Management key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
}

function navigation(page) {
  return page.getByRole("navigation", { name: "Console" });
}

/** Ends the session of a page on the server, as time or a restart would. */
async function endSession(page) {
  const { csrf } = await (await page.request.get("api/session")).json();
  const { origin } = new URL(page.url());
  const answer = await page.request.delete("api/session", { headers: { "x-orrery-csrf": csrf, origin } });
  assert.equal(answer.status(), 204);
}

test("a person signs in with the management key, and out", async (t) => {
  const page = await signInPage(t);
  await signInWith(page, (await sharedServer()).ready.admin_key);
  await navigation(page).waitFor();
  await page.getByRole("button", { name: /^Account/ }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to the console" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Sign in to the console" }).waitFor();
});

test("a wrong key is refused beside the field, and the typed key stays", async (t) => {
  const page = await signInPage(t);
  await signInWith(page, "wrong-key");
  await page.getByText("not a management key of this server").waitFor();
  assert.equal(await page.getByLabel("Management key").inputValue(), "wrong-key");
  await assertAccessible(page, "the sign-in page with an error");
});

test("the address that the server prints signs in once, and leaves no token in the address", async (t) => {
  const server = await startServer();
  t.after(async () => server.stop());
  const page = await person(t, { server, signedIn: false, path: server.ready.console });
  await navigation(page).waitFor();
  assert.ok(!page.url().includes("token"), page.url());
  const second = await person(t, { server, signedIn: false });
  await second.goto(server.ready.console);
  await second.waitForLoadState();
  const answer = await second.request.get("api/session");
  assert.equal(answer.status(), 401, "the address works a second time");
});

test("a session that ended asks for the key over the page, keeps what was typed, and continues", async (t) => {
  const page = await person(t, { path: "#/settings" });
  const limit = page.getByLabel("Limit in RU");
  await limit.fill("1234");
  await endSession(page);
  await page.getByRole("button", { name: "Search or command" }).click();
  const dialog = page.getByRole("dialog", { name: "Sign in again" });
  await dialog.waitFor();
  await assertAccessible(page, "the dialog that asks for the key");
  await dialog.getByLabel("Management key").fill((await sharedServer()).ready.admin_key);
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal(await limit.inputValue(), "1234");
  await page.getByRole("button", { name: "Search or command" }).click();
  await page.getByRole("option", { name: /Settings/ }).waitFor();
});

test("a page works on after another tab has signed in again", async (t) => {
  const page = await person(t, { path: "#/settings" });
  const limit = page.getByLabel("Limit in RU");
  await limit.fill("4321");
  const { admin_key: key } = (await sharedServer()).ready;
  await page.evaluate(async (typed) => {
    await fetch("api/session", { method: "POST", body: JSON.stringify({ key: typed }) });
  }, key);
  await page.getByRole("button", { name: "Search or command" }).click();
  await page.getByRole("option", { name: /Settings/ }).waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await limit.inputValue(), "4321");
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.getByText("Items", { exact: true }).or(page.getByText("The account has no database.")).first().waitFor();
});

test("a server that goes away shows a banner, keeps what was typed, and is found again by itself", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "orrery-console-"));
  let server = await startServer("--data-dir", directory);
  const ports = {
    data: new URL(server.ready.endpoint_http).host,
    admin: new URL(server.ready.admin_endpoint).host,
  };
  t.after(async () => {
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  });
  const page = await person(t, { server, path: "#/settings" });
  const limit = page.getByLabel("Limit in RU");
  await limit.fill("4321");
  await server.kill();
  await page.getByRole("button", { name: "Try now" }).waitFor();
  await assertAccessible(page, "the banner");
  assert.equal(await limit.inputValue(), "4321");

  server = await startServer("--data-dir", directory, "--listen", ports.data, "--admin-listen", ports.admin);
  const dialog = page.getByRole("dialog", { name: "Sign in again" });
  await dialog.getByLabel("Management key").fill(server.ready.admin_key);
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Try now" }).waitFor({ state: "detached" });
  assert.equal(await limit.inputValue(), "4321");
});

test("the palette finds a page by its name, by keyboard alone", async (t) => {
  const page = await person(t);
  await navigation(page).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search commands and containers" }).waitFor();
  await assertAccessible(page, "the palette");
  await page.keyboard.type("settings");
  await page.getByRole("option", { name: /Settings/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Settings" }).waitFor();
  assert.match(page.url(), /#\/settings$/);
});

test("a chosen theme applies at once and stays after a reload", async (t) => {
  const page = await person(t);
  await page.getByRole("button", { name: "Theme" }).click();
  await page.getByRole("menuitem", { name: "Dark" }).click();
  const theme = async () => page.evaluate(() => document.documentElement.dataset.theme);
  assert.equal(await theme(), "dark");
  const colour = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.reload();
  await navigation(page).waitFor();
  assert.equal(await theme(), "dark");
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), colour);
});

test("the question mark lists the keys, and Escape returns to the page", async (t) => {
  const page = await person(t, { path: "#/settings" });
  await page.getByRole("heading", { level: 1, name: "Settings" }).waitFor();
  await page.keyboard.press("?");
  const dialog = page.getByRole("dialog", { name: "Keys" });
  await dialog.getByText("Ctrl K").waitFor();
  await assertAccessible(page, "the list of keys");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
});

test("the list of the console's requests has each request of the page with its charge", async (t) => {
  const page = await person(t);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.getByRole("button", { name: "Requests of the console" }).click();
  const dialog = page.getByRole("dialog", { name: "Requests of the console" });
  await dialog.getByText("/dbs", { exact: true }).first().waitFor();
  await assertAccessible(page, "the requests of the console");
});

test("the first Tab reaches the link that skips the navigation", async (t) => {
  const page = await person(t, { path: "#/settings" });
  await page.getByRole("heading", { level: 1, name: "Settings" }).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
});

test("at phone width the navigation is a drawer that Escape closes", async (t) => {
  const page = await person(t, { width: 390, path: "#/settings" });
  const opener = page.getByRole("button", { name: "Navigation" });
  await opener.click();
  await navigation(page).getByRole("link", { name: "Overview" }).waitFor();
  await assertAccessible(page, "the drawer");
  await page.keyboard.press("Escape");
  await navigation(page).waitFor({ state: "hidden" });
  await opener.click();
  await navigation(page).getByRole("link", { name: "Overview" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await navigation(page).waitFor({ state: "hidden" });
});

test("an unknown address says so and leads to the overview", async (t) => {
  const page = await person(t, { path: "#/no/such/page" });
  await page.getByText("No page has this address.").waitFor();
  await page.getByRole("link", { name: "Open the overview" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
});

test("the sign-in page is accessible at every width and in every theme", async (t) => {
  const ready = async (page) => page.getByLabel("Management key").waitFor();
  await looksRight(t, "sign-in", "", ready, { signedIn: false });
});

test("the console asks for nothing outside of its own address", async (t) => {
  // `person` fails a test that asks another origin; the page is cut off from all others here.
  const page = await person(t);
  const { origin } = new URL(consoleAddress(await sharedServer()));
  await page.context().route((url) => url.origin !== origin, (route) => route.abort());
  for (const path of ["#/", "#/live", "#/connect", "#/settings"]) {
    await page.goto(path);
    await page.getByRole("heading", { level: 1 }).waitFor();
  }
});
