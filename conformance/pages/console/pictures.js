/**
 * Makes the pictures of README and documentation from a running blog and its console, in the light and the dark scheme:
 *
 *     node pictures.js DIRECTORY
 *
 * `PICTURES` has a row for each picture. The blog has its usual size, so that the figures in the pictures are those
 * that a reader gets. The load before the pictures of partitions is that of a blog of which one post is read most.
 *
 * Promises: each picture is of a page that has its content; a page that does not get its content ends the run.
 * Leaves out: the pictures of the tutorial, which its test makes (`tests/tutorial.test.js`).
 */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import { chromium } from "playwright-core";

import { launch, start } from "../browser/programs.js";
import { consoleAddress } from "./address.js";

const SCHEMES = ["light", "dark"];
/** Bound on the content of one page. */
const PAGE_MS_MAX = 60_000;
/** The readings of one post, and of each other post of the front page. */
const READINGS = { hot: 400, others: 4 };
/** The container of which the pictures show the partitions. */
const POSTS = "blog-v1/posts";

/**
 * The pictures: the name of the file, the program, the path, the size of the window, and `ready(page)`, which waits for
 * the content and brings the page into the state to be shown.
 */
const PICTURES = [
  { name: "blog-front-v1", program: "blog", path: "/v1", height: 860, ready: openMeter },
  { name: "lesson", program: "blog", path: "/lesson", height: 900, ready: hasPictures },
  { name: "console-overview", program: "console", path: "#/", height: 800, ready: hasHeading },
  { name: "partitions", program: "console", path: `#/data/${POSTS}/partitions`, height: 900, ready: hasPartitions },
  { name: "prediction", program: "console", path: `#/data/${POSTS}/prediction`, height: 900, ready: predict },
  { name: "console-live", program: "console", path: "#/live", height: 800, ready: hasHeading },
  { name: "console-connect-phone", program: "console", path: "#/connect", width: 390, height: 800, ready: hasHeading },
];

async function hasHeading(page) {
  await page.getByRole("heading", { level: 1 }).first().waitFor();
}

async function openMeter(page) {
  await page.locator("#meter summary").first().click();
  await hasHeading(page);
}

async function hasPictures(page) {
  await hasHeading(page);
  await page.locator("main svg").first().waitFor();
}

async function hasPartitions(page) {
  await page.getByRole("heading", { name: "Hash space" }).waitFor();
  await page.locator("main canvas").first().waitFor();
}

/** Proposes the author as partition key, and waits for the prediction. */
async function predict(page) {
  await page.getByRole("group", { name: "Partition key" }).getByRole("combobox").first().fill("/userId");
  await page.getByRole("button", { name: "Predict" }).click();
  await page.getByRole("heading", { name: /^The recorded requests would cost/ }).waitFor();
}

/** Reads one post of the front page often and the others seldom, and all lists once. */
async function readPosts(address) {
  const front = await (await fetch(`${address}v1`)).text();
  const paths = [...new Set(front.match(/\/v1\/posts\/[^"#?/]+/g))];
  for (const [place, path] of paths.entries()) {
    const times = place === 0 ? READINGS.hot : READINGS.others;
    for (let n = 0; n < times; n += 1) await (await fetch(new URL(path, address))).arrayBuffer();
  }
}

/** Opens a window with a session at the console. */
async function windowOf(browser, blog, picture, colorScheme) {
  const base = picture.program === "blog" ? blog.ready.application : consoleAddress(blog);
  const { width = 1280, height } = picture;
  const context = await browser.newContext({
    baseURL: base,
    colorScheme,
    reducedMotion: "reduce",
    viewport: { width, height },
  });
  context.setDefaultTimeout(PAGE_MS_MAX);
  if (picture.program === "console") {
    const data = { key: blog.ready.admin_key };
    const answer = await context.request.post("api/session", { data, headers: { origin: new URL(base).origin } });
    if (!answer.ok()) throw new Error(`the console refused its key with ${answer.status()}`);
  }
  return context;
}

async function take(browser, blog, picture, directory) {
  for (const colorScheme of SCHEMES) {
    const context = await windowOf(browser, blog, picture, colorScheme);
    const page = await context.newPage();
    await page.goto(picture.path);
    await picture.ready(page);
    const path = join(directory, `${picture.name}-${colorScheme}.png`);
    await page.screenshot({ path });
    console.log(path);
    await context.close();
  }
}

const [directory] = process.argv.slice(2);
if (!directory) throw new Error("usage: node pictures.js DIRECTORY");
await mkdir(directory, { recursive: true });
const local = "127.0.0.1:0";
const listen = ["--listen", local, "--database-listen", local, "--admin-listen", local];
const blog = await start(["blog", "--memory", ...listen, "--ready-json"]);
const browser = await launch(chromium);
try {
  await readPosts(blog.ready.application);
  for (const picture of PICTURES) await take(browser, blog, picture, directory);
} finally {
  await browser.close();
  await blog.stop();
}
