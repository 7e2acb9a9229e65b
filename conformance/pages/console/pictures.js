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
/** One reading of this many is of another post than the one that is read most. */
const READINGS = 4;
/** The container of which the pictures show the partitions. */
const POSTS = "blog-v1/posts";

/**
 * The pictures: the name of the file, the program, the path, the size of the window, and `ready(page)`, which waits for
 * the content and brings the page into the state to be shown.
 */
const PICTURES = [
  { name: "blog-front-v1", program: "blog", path: "/v1", height: 860, ready: hasPrices },
  { name: "lesson", program: "blog", path: "/lesson", height: 900, ready: hasPictures },
  { name: "console-overview", program: "console", path: "#/", height: 1000, ready: hasCharts },
  { name: "partitions", program: "console", path: `#/data/${POSTS}/partitions`, height: 900, ready: hasPartitions },
  { name: "prediction", program: "console", path: `#/data/${POSTS}/prediction`, height: 900, ready: predict },
  { name: "console-live", program: "console", path: "#/live", height: 800, ready: hasCharts },
  { name: "console-connect-phone", program: "console", path: "#/connect", width: 390, height: 800, ready: hasHeading },
];

async function hasHeading(page) {
  await page.getByRole("heading", { level: 1 }).first().waitFor();
}

/** Waits for the prices of the page in all models. */
async function hasPrices(page) {
  await hasHeading(page);
  await page.getByText("this page, measured").nth(1).waitFor();
}

async function hasCharts(page) {
  await page.locator("main canvas").nth(2).waitFor();
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

/** Reads the front page's posts until `stop` is called, one of them most of the time; `ready` follows the first round. */
function readers(address) {
  let isOver = false;
  let isRead;
  const ready = new Promise((resolve) => (isRead = resolve));
  const read = async (path) => (await fetch(new URL(path, address))).text();
  const work = async () => {
    const front = await read("v1");
    const paths = [...new Set(front.match(/\/v1\/posts\/[^"#?/]+/g))];
    for (let n = 0; !isOver; n += 1) {
      await read(n % READINGS === 0 ? paths[(n / READINGS) % paths.length] : paths[0]);
      if (n === READINGS * paths.length) isRead();
    }
  };
  const over = work();
  return { ready: Promise.race([ready, over]), stop: async () => ((isOver = true), over) };
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
const readings = readers(blog.ready.application);
try {
  await readings.ready;
  for (const picture of PICTURES) await take(browser, blog, picture, directory);
} finally {
  await readings.stop();
  await browser.close();
  await blog.stop();
}
