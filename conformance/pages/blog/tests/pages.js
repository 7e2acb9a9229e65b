/**
 * Every page at two widths and in both themes: no violation of axe-core's rules, no horizontal scrolling, a screenshot.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, it } from "node:test";

import { otherScheme, pixelsBeyond, screenshot, violationsOf, WINDOWS } from "../../browser/looks.js";
import { AT_ONCE, commentOn, freshName, person, signUp, writePost } from "../world.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Checks the page at `path` in each window and both schemes, with the meter open. */
async function check(page, name, path) {
  const complaints = [];
  await page.goto(path);
  await openMeter(page);
  for (const { width, colorScheme } of WINDOWS) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    complaints.push(...(await complaintsOf(page, `${name}-${width}-${colorScheme}`)));
    const other = otherScheme(colorScheme);
    await page.emulateMedia({ colorScheme: other });
    complaints.push(...(await complaintsOf(page, `${name}-${width}-${other}`, { coloursOnly: true })));
  }
  assert.deepEqual(complaints, []);
}

async function openMeter(page) {
  await page.evaluate(() => {
    const meter = document.querySelector("#meter");
    if (meter) meter.open = true;
  });
}

async function complaintsOf(page, where, options) {
  const complaints = await violationsOf(page, AXE, options);
  const beyond = await pixelsBeyond(page);
  if (beyond > 0) complaints.push(`${beyond} pixels wider than the window`);
  await screenshot(page, where);
  return complaints.map((complaint) => `${where}: ${complaint}`);
}

describe("pages", AT_ONCE, () => {
  for (const model of ["v1", "v2", "v3"]) {
    it(`of ${model} are accessible and fit, with the meter open`, async (test) => {
      const page = await person(test);
      await page.goto(`/${model}`);
      const post = await page.locator("#posts h2 a").first().getAttribute("href");
      const user = await page.locator("#posts .author").first().getAttribute("href");
      for (const [name, path] of [
        ["front", `/${model}`],
        ["post", post],
        ["likes", `${post}/likes`],
        ["user", user],
      ]) {
        await check(page, `${name}-${model}`, path);
      }
    });
  }

  it("of a person who is signed in are accessible and fit", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Vera"));
    const path = await writePost(page, "v3", freshName("Seen"), "# A heading\n\n- a list\n\n`code`\n\n> words of others");
    await commentOn(page, "A comment");
    for (const [name, address] of [
      ["own-post", path],
      ["write", "/v3/write"],
      ["edit", `${path}/edit`],
      ["delete", `${path}/delete`],
      ["profile", "/profile"],
    ]) {
      await check(page, name, address);
    }
  });

  it("without a post, and forms with errors, are accessible and fit", async (test) => {
    const page = await person(test);
    for (const [name, path] of [
      ["signup", "/signup"],
      ["signin", "/signin"],
      ["no-post", "/v3/posts/no-such-post"],
      ["no-page", "/no-such-page"],
    ]) {
      await check(page, name, path);
    }
  });

  it("that measure and teach are accessible and fit", async (test) => {
    const page = await person(test);
    await page.goto("/lesson");
    const links = page.locator("main a[href^='/lesson/']");
    const chapters = new Set(await links.evaluateAll((found) => found.map((link) => link.pathname)));
    assert.ok(chapters.size >= 7, `${[...chapters]}`);
    for (const path of ["/compare", "/pipelines", "/lesson", ...chapters]) {
      await check(page, path.slice(1).replaceAll("/", "-"), path);
    }
  });
});

describe("files", () => {
  it("carry a policy that forbids scripts and styles in the page, and are kept by browsers", async (test) => {
    const page = await person(test);
    const answer = await page.goto("/v3");
    const policy = answer.headers()["content-security-policy"];
    assert.match(policy, /default-src 'self'/);
    assert.doesNotMatch(policy, /unsafe/);
    assert.equal(await page.locator("[style], style, script:not([src])").count(), 0);
    const style = await page.locator("link[rel='stylesheet']").getAttribute("href");
    const file = await page.request.get(style);
    assert.equal(file.status(), 200);
    assert.match(file.headers()["cache-control"], /immutable/);
    assert.ok(["br", "gzip"].includes(file.headers()["content-encoding"]), file.headers()["content-encoding"]);
  });

  it("of the feed are Atom", async (test) => {
    const page = await person(test);
    const answer = await page.request.get("/v3/feed.atom");
    assert.equal(answer.status(), 200);
    assert.match(answer.headers()["content-type"], /application\/atom\+xml/);
    const kinds = await page.evaluate((text) => {
      const feed = new DOMParser().parseFromString(text, "application/xml");
      return [feed.documentElement.nodeName, feed.getElementsByTagName("entry").length];
    }, await answer.text());
    assert.deepEqual([kinds[0], kinds[1] > 0], ["feed", true]);
  });
});
