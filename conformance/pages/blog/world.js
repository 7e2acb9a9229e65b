/**
 * The fixtures of the tests: one blog and one browser for all of them, pages, and the steps of a person.
 *
 * Leaves out: starting programs (`programs.js`) and checks, except that a page may not report an error of a script or of
 * the content security policy.
 */

import assert from "node:assert/strict";
import { after } from "node:test";

import { startBlog, startBrowser } from "./programs.js";

/** Users at this scale have more than 100 posts together, so the front page is full. */
export const SCALE = "0.0001";
/** Bound on what comes later than its cause: pipelines, retries. */
const LATER_MS_MAX = 60_000;
const STEP_MS_MAX = 30_000;

/**
 * The options of a group whose tests share nothing but the blog, so that three run at a time: a page often waits. A
 * group that compares figures of the whole blog has its tests one after another.
 */
export const AT_ONCE = { concurrency: 3 };

let blog;
let browser;

/** The blog that the tests share, started on first use. */
export function sharedBlog() {
  blog ??= startBlog("--scale", SCALE);
  return blog;
}

/** The browser of all tests, started on first use. */
function sharedBrowser() {
  browser ??= startBrowser();
  return browser;
}

after(async () => {
  const started = await Promise.allSettled([browser, blog]);
  if (started[0].value) await started[0].value.close();
  if (started[1].value) await started[1].value.stop();
});

/** The address of a blog, without the slash at its end. */
export function addressOf(program) {
  return program.ready.application.replace(/\/$/, "");
}

/**
 * Opens a page of a person of their own, with cookies and storage of their own; closes it when the test ends.
 *
 * `blog` is a running blog, by default the shared one; `javaScript: false` switches scripts off;
 * `reducedMotion: "no-preference"` lets pages move.
 */
export async function person(test, options = {}) {
  const { blog, javaScript = true, width = 1280, colorScheme = "light", reducedMotion = "reduce" } = options;
  const address = addressOf(await (blog ?? sharedBlog()));
  const context = await (await sharedBrowser()).newContext({
    baseURL: address,
    colorScheme,
    javaScriptEnabled: javaScript,
    reducedMotion,
    viewport: { width, height: 800 },
  });
  context.setDefaultTimeout(STEP_MS_MAX);
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("dialog", (dialog) => {
    errors.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/Content Security Policy/.test(message.text())) errors.push(message.text());
  });
  test.after(async () => {
    await context.close();
    assert.deepEqual(errors, [], "errors of scripts and of the content security policy");
  });
  return page;
}

let names = 0;

/** A name that no other test uses, for a user or a title. */
export function freshName(stem) {
  names += 1;
  return `${stem}-${process.pid}x${names}`;
}

/** Loads the page at `path` again until `holds(page)` is true; fails after a bound, with `what`. */
export async function later(page, path, what, holds) {
  const end = Date.now() + LATER_MS_MAX;
  for (;;) {
    await page.goto(path);
    if (await holds(page)) return;
    if (Date.now() > end) assert.fail(`${what}: not after ${LATER_MS_MAX} ms at ${path}`);
  }
}

export const PASSWORD = "correct horse battery staple";

/** Signs up under this name. */
export async function signUp(page, name) {
  await page.goto("/signup");
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("main").getByRole("button", { name: "Sign up" }).click();
  await page.getByRole("banner").getByText(name).waitFor();
}

/** Writes a post in this model and returns its path. */
export async function writePost(page, model, title, content) {
  await page.goto(`/${model}/write`);
  await page.getByLabel("Title").fill(title);
  await page.getByLabel("Text", { exact: true }).fill(content);
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByRole("heading", { level: 1, name: title }).waitFor();
  return new URL(page.url()).pathname;
}

/** Comments on the post of the current page. */
export async function commentOn(page, content) {
  await page.getByLabel("Your comment").fill(content);
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await page.locator(".comment", { hasText: content }).waitFor();
}

/** The id at the end of a path such as `/v3/posts/ID`. */
export function idOf(path) {
  return path.split("/").at(-1);
}

/** The figures of the meter on the current page: its own sums, and the sums of its rows. */
export async function meterOf(page) {
  return page.locator("#meter").evaluate((meter) => {
    const text = (selector) => meter.querySelector(selector).textContent.trim();
    const hundredths = (text) => Math.round(Number(text.replace(/[^0-9.]/g, "")) * 100);
    const sum = (values) => values.reduce((all, value) => all + value, 0);
    const rows = [...meter.querySelectorAll("section .requests tbody[data-ru]")];
    return {
      codes: text("summary .codes"),
      requests: parseInt(text("summary .codes + span").replaceAll(",", ""), 10),
      hundredths: hundredths(text("summary .charge")),
      rowRequests: sum(rows.map((row) => Number(row.dataset.count))),
      rowHundredths: sum(rows.map((row) => hundredths(row.dataset.ru))),
    };
  });
}

/** The posts of a list, without what depends on the model or on the moment of reading. */
export async function postsOf(page) {
  return page.locator("#posts > li").evaluateAll((items) =>
    items.map((item) => ({
      path: new URL(item.querySelector("h2 a").href).pathname.replace(/^\/v[123]/, ""),
      title: item.querySelector("h2").textContent.trim(),
      short: item.querySelector(".short")?.textContent.trim(),
      author: item.querySelector(".author")?.textContent.trim(),
      created: item.querySelector("time").dateTime,
      counts: [...item.querySelectorAll(".count")].map((count) => count.textContent.trim()),
    })),
  );
}
