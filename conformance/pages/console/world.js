/**
 * The fixtures of the tests: a server and a browser for each file, persons with a page, and the owner of the account,
 * who prepares data without a page.
 *
 * Promises: a page that reports an error of a script or of the content security policy, or that sends a request to
 * another origin, fails its test.
 * Leaves out: starting programs (`programs.js`).
 */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after } from "node:test";

import { otherScheme, pixelsBeyond, screenshot, violationsOf, WINDOWS } from "../browser/looks.js";
import { consoleAddress } from "./address.js";
import { startBrowser, startServer } from "./programs.js";

export { consoleAddress, screenshot };

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Bound on one step of a person; nothing waits that long on a machine with time. */
const STEP_MS_MAX = 30_000;

let server;
let browser;

/** The server that the tests of a file share, started on first use. */
export function sharedServer() {
  server ??= startServer();
  return server;
}

/** The browser of the tests of a file, started on first use. */
export function sharedBrowser() {
  browser ??= startBrowser();
  return browser;
}

after(async () => {
  const [started, running] = await Promise.allSettled([browser, server]);
  if (started.value) await started.value.close();
  if (running.value) await running.value.stop();
});

/**
 * Opens the console in a window of its own, signed in, and closes it when the test ends.
 *
 * `path` is the part of the address after the base, such as `#/data`; `server` a running server, by default the shared
 * one; `signedIn: false` opens the page without a session.
 */
export async function person(test, options = {}) {
  const { path = "", width = 1280, height = 800, colorScheme = "light", signedIn = true, reducedMotion = "reduce" } = options;
  const running = await (options.server ?? sharedServer());
  const address = consoleAddress(running);
  const context = await (await sharedBrowser()).newContext({
    baseURL: address,
    colorScheme,
    reducedMotion,
    viewport: { width, height },
  });
  context.setDefaultTimeout(STEP_MS_MAX);
  if (signedIn) {
    const answer = await context.request.post("api/session", {
      data: { key: running.ready.admin_key },
      headers: { origin: new URL(address).origin },
    });
    assert.equal(answer.status(), 200, await answer.text());
  }
  const page = await context.newPage();
  watch(test, context, page, new URL(address).origin);
  await page.goto(path);
  return page;
}

/** Fails the test if the page reports an error, or asks another origin for anything. */
function watch(test, context, page, origin) {
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.stack ?? error.message));
  page.on("dialog", (dialog) => {
    errors.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/Content Security Policy/.test(message.text())) errors.push(message.text());
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !/^(data|blob):/.test(url)) errors.push(`a request to ${url}`);
  });
  test.after(async () => {
    await context.close();
    assert.deepEqual(errors, [], "errors of scripts, of the content security policy, and foreign requests");
  });
}

/**
 * The owner of the account, who prepares what a test needs: data as a client of the account, the rest through the console's door.
 *
 * `data(method, path, { body, headers })` and `manage(…)` return `{ status, headers, body }` and fail on a refusal.
 */
export async function owner(running) {
  const resolved = await (running ?? sharedServer());
  const address = consoleAddress(resolved);
  const { origin } = new URL(address);
  const signedIn = await fetch(`${address}api/session`, {
    method: "POST",
    headers: { "content-type": "application/json", origin },
    body: JSON.stringify({ key: resolved.ready.admin_key }),
  });
  assert.equal(signedIn.status, 200, "the owner signs in");
  const cookie = signedIn.headers.get("set-cookie").split(";")[0];
  const { csrf } = await signedIn.json();
  const send = async (door, method, path, { body, headers = {} } = {}) => {
    const response = await fetch(`${address}api/${door}${path}`, {
      method,
      headers: { cookie, origin, "x-orrery-csrf": csrf, "content-type": "application/json", ...headers },
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    });
    return answerOf(response, method, path);
  };
  // The server leaves requests through the console out of its figures, so data comes as from a client.
  const data = async (method, path, { body, headers = {} } = {}) => {
    const response = await fetch(new URL(path, resolved.ready.endpoint_http), {
      method,
      headers: { "content-type": "application/json", ...headers, ...signed(method, path, resolved.ready.key) },
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    });
    return answerOf(response, method, path);
  };
  return {
    data,
    manage: async (...request) => send("manage", ...request),
    /** As `data`, through the console. */
    throughConsole: async (...request) => send("data", ...request),
    async database(id) {
      await data("POST", "/dbs", { body: { id } });
    },
    /** Creates a container with this partition key and the rest of a definition. */
    async container(database, id, keyPath = "/pk", rest = {}, headers = {}) {
      const paths = [keyPath].flat();
      const kind = paths.length > 1 ? "MultiHash" : "Hash";
      const body = { id, partitionKey: { paths, kind, version: 2 }, ...rest };
      await data("POST", `/dbs/${encodeURIComponent(database)}/colls`, { body, headers });
    },
    /** Creates an item; `key` is the value or the values of its partition key. */
    async item(database, container, item, key = item.pk) {
      const path = `/dbs/${encodeURIComponent(database)}/colls/${encodeURIComponent(container)}/docs`;
      const header = JSON.stringify([key].flat()).replace(
        /[\u007f-\uffff]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
      );
      return data("POST", path, { body: item, headers: { "x-ms-documentdb-partitionkey": header } });
    },
  };
}

async function answerOf(response, method, path) {
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  const isJson = /json/.test(response.headers.get("content-type") ?? "");
  return { status: response.status, headers: response.headers, body: isJson && text ? JSON.parse(text) : text };
}

/** The headers that sign a request with the account key, as clients do. */
function signed(method, path, key) {
  const names = path.split("?")[0].split("/").filter(Boolean).map(decodeURIComponent);
  const isFeed = names.length % 2 === 1;
  const type = isFeed ? names.at(-1) : (names.at(-2) ?? "");
  const link = (isFeed ? names.slice(0, -1) : names).join("/");
  const date = new Date().toUTCString();
  const text = `${method.toLowerCase()}\n${type}\n${link}\n${date.toLowerCase()}\n\n`;
  const signature = createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
  return {
    authorization: encodeURIComponent(`type=master&ver=1.0&sig=${signature}`),
    "x-ms-date": date,
    "x-ms-version": "2020-07-15",
  };
}

let names = 0;

/** A name that no other test uses. */
export function freshName(stem) {
  names += 1;
  return `${stem}-${process.pid}x${names}`;
}

/** Fails if axe-core finds a violation on the page as it is now. */
export async function assertAccessible(page, what, options = {}) {
  assert.deepEqual(await violationsOf(page, AXE, options), [], `${what}: violations of axe-core`);
}

/** Fails if the page is wider than the window. */
export async function assertNoSideways(page, what) {
  const wider = await pixelsBeyond(page);
  assert.equal(wider, 0, `${what} is ${wider} px wider than the window`);
}

/**
 * Opens `path` in both windows and turns each to the other scheme; `ready(page)` waits for the content; then axe-core,
 * width, a screenshot.
 */
export async function looksRight(test, name, path, ready, options = {}) {
  for (const { width, colorScheme } of WINDOWS) {
    const page = await person(test, { ...options, width, colorScheme, path });
    await ready(page);
    await assertLooks(page, `${name}-${width}-${colorScheme}`);
    const other = otherScheme(colorScheme);
    await page.emulateMedia({ colorScheme: other });
    await assertLooks(page, `${name}-${width}-${other}`, { coloursOnly: true });
    // A page that stays open goes on asking the server.
    await page.close();
  }
}

async function assertLooks(page, what, options) {
  await assertAccessible(page, what, options);
  await assertNoSideways(page, what);
  await screenshot(page, what);
}
