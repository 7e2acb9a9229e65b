/**
 * The pictures of chapters 4 to 7 and the five questions, against the real database: each figure is the charge that the
 * server answers to the same request. Their states without scripts, by keyboard alone, with and without motion, with a
 * database that is gone.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, describe, it } from "node:test";

import { otherScheme, pixelsBeyond, screenshot, violationsOf, WINDOWS } from "../../browser/looks.js";
import { Database } from "../database.js";
import { startBlog, startServer } from "../programs.js";
import { later, person } from "../world.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SMALLEST = "0.00002";
/** A step of the lab, with the creation of its containers. */
const STEP_MS_MAX = 60_000;
const FEED = "SELECT TOP 100 * FROM c WHERE c.type = 'post' ORDER BY c.creationDate DESC";
const COUNT = "SELECT VALUE COUNT(1) FROM f WHERE f.id != 'x'";

/** Waits until the small blog of the lab is there. */
async function prepared(page, chapter, picture) {
  await page.goto(`/lesson/${chapter}`);
  await page.locator(`#${picture}:not([data-poll])`).waitFor({ timeout: STEP_MS_MAX });
}

/** The figure beside a label, as the text of the page. */
async function figure(page, picture, label) {
  const row = page.locator(`#${picture} .figures > div`).filter({ has: page.getByText(label, { exact: true }) });
  return (await row.locator("dd").innerText()).replace(/[^0-9.]/g, "");
}

/** Presses a button and waits until `done` is in the page. */
async function press(page, button, done) {
  await page.locator(button).click();
  await page.locator(done).first().waitFor({ timeout: STEP_MS_MAX });
}

function numberOf(text) {
  return Number(text.replace(/[^0-9.]/g, ""));
}

describe("the lab", () => {
  let blog;
  let lab;

  before(async () => {
    blog = await startBlog("--scale", SMALLEST);
    lab = new Database(blog.ready, "blog-lab");
  });

  after(async () => {
    if (blog) await blog.stop();
  });

  it("renames a user, and every copy in the picture has the new name and its lag", async (test) => {
    const page = await person(test, { blog });
    await prepared(page, 4, "names");
    const before = await page.locator(".name-tag").innerText();
    await press(page, "#run-rename", "#names .figures");
    const name = await page.locator(".name-tag").innerText();
    assert.notEqual(name, before);
    const names = await page.locator(".copy b").allInnerTexts();
    assert.ok(names.length > 10, `${names.length} copies`);
    assert.deepEqual([...new Set(names)], [name]);
    assert.equal(await page.locator(".copy[data-at]").count(), names.length);
    assert.equal(await page.locator("#names details tbody tr").count(), names.length);
    assert.ok((await page.locator(".copy-group").first().locator(".copy-partition").count()) > 1, "several partitions");
    assert.match(await page.locator("#names").innerText(), /0 posts have the old name/);
    assert.equal(await page.locator(".copy.old").count(), 0, "no motion is wanted");

    // The picture agrees with the items in the database.
    const stored = await lab.items("feed", "post", `SELECT * FROM c WHERE c.userUsername = "${name}"`);
    const shown = await page.locator(".copy-group").nth(2).locator(".copy").count();
    assert.equal(shown, stored.length);
  });

  it("runs updateUsernames again, for the charge that the server answers", async (test) => {
    const page = await person(test, { blog });
    await prepared(page, 4, "names");
    await page.locator("#names .procedure summary").click();
    await press(page, "#run-repeat", "#names .procedure [role='status']");
    const words = await page.locator("#names .procedure [role='status']").innerText();
    const [, updated, charge, post] = words.match(/changed (\d+) items and cost ([0-9.]+) RU: the post (\w+)/);
    assert.equal(updated, "0");
    const name = await page.locator(".name-tag").innerText();
    const copies = await lab.items("feed", "post", `SELECT * FROM c WHERE c.userUsername = "${name}"`);
    const { userId, postId } = copies.find((copy) => copy.postId.startsWith(post)) ?? copies[0];
    const again = await lab.execute("posts", postId, "updateUsernames", [userId, name]);
    assert.deepEqual([again.charge, again.body.updated], [charge, 0]);
  });

  it("shows each copy under the old name until it followed, if motion is wanted", async (test) => {
    const page = await person(test, { blog, reducedMotion: "no-preference" });
    await prepared(page, 4, "names");
    await page.locator("#run-rename").click();
    await page.locator(".copy.old").first().waitFor({ timeout: STEP_MS_MAX });
    const old = await page.locator(".copy.old b").first().innerText();
    assert.equal(old, await page.locator(".source-item s").innerText());
    await page.waitForFunction(() => document.querySelectorAll(".copy.old").length === 0);
    const name = await page.locator(".name-tag").innerText();
    assert.deepEqual([...new Set(await page.locator(".copy b").allInnerTexts())], [name]);
  });

  it("adds a post to the feed, the oldest is cut, and Q6 costs what the server answers", async (test) => {
    const page = await person(test, { blog });
    await prepared(page, 5, "feed-cut");
    const titles = () => page.locator("#feed-cut tbody th").allTextContents();
    const before = await titles();
    await press(page, "#run-add-post", "#feed-cut .square.new");
    assert.equal(await page.locator("#feed-cut .square:not(.cut)").count(), 100);
    assert.equal(await page.locator("#feed-cut .square.cut").count(), 1);
    const now = await titles();
    assert.deepEqual(now.slice(1), before.slice(0, -1));
    assert.match(await page.locator("#feed-cut p[role='status']").innerText(), new RegExp(before.at(-1).trim()));
    assert.equal(await figure(page, "feed-cut", "to read the feed, Q6"), await lab.queryCharge("feed", "post", FEED));
    const trigger = Number(await figure(page, "feed-cut", "of which the trigger"));
    const whole = Number(await figure(page, "feed-cut", "its copy, with the trigger"));
    assert.ok(trigger > 0 && trigger < whole, `${trigger} of ${whole}`);
  });

  it("lets the feed grow without the trigger until its logical partition is full", async (test) => {
    const page = await person(test, { blog });
    await prepared(page, 5, "feed-cut");
    for (let step = 1; (await page.locator("#uncut .notice.bad").count()) === 0; step += 1) {
      assert.ok(step < 20, "the limit comes");
      await press(page, "#run-grow", `#uncut tbody tr:nth-child(${step})`);
      const cells = await page.locator("#uncut tbody tr").last().locator("td").allInnerTexts();
      assert.equal(cells[2].replaceAll(",", ""), await lab.queryCharge("uncut", "post", COUNT));
      assert.equal(cells[1].replaceAll(",", ""), await lab.queryCharge("uncut", "post", FEED));
    }
    assert.match(await page.locator("#uncut .notice.bad").innerText(), /403\/1014/);
    assert.ok(await page.locator("#run-grow").isDisabled());
    const rows = page.locator("#uncut tbody tr");
    assert.equal(await page.locator("#uncut .q6 circle").count(), await rows.count());
  });

  it("writes one post under four policies, and the query costs what the server answers", async (test) => {
    const page = await person(test, { blog });
    await prepared(page, 5, "feed-cut");
    await press(page, "#run-add-post", "#feed-cut .square.new");
    await page.goto("/lesson/6");
    await press(page, "#run-policies", "#policies tbody tr:nth-child(4)");
    const charges = await page.locator("#policies td:nth-child(2) b").allInnerTexts();
    const [composite, all, noTexts, asked] = charges.map(Number);
    assert.ok(composite > all && all > noTexts && noTexts > asked, `${charges}`);
    const shown = await page.locator("#policies td:nth-child(3) b").allInnerTexts();
    assert.ok(Number(shown[3]) > Number(shown[1]), `${shown}`);

    // The queries are asked again, for the post that was written last in each container.
    const user = await lab.probe();
    const newest = "SELECT * FROM c ORDER BY c.creationDate";
    for (const [place, container] of ["policyComposite", "policyAll", "policyNoTexts", "policyAsked"].entries()) {
      const [post] = await lab.items(container, user, newest);
      const title = [{ name: "@title", value: post.title }];
      const charge = await lab.queryCharge(container, user, "SELECT * FROM c WHERE c.title = @title", title);
      assert.equal(charge, shown[place], container);
    }
  });

  it("answers the five questions, by keyboard alone", async (test) => {
    const page = await person(test, { blog });
    await page.goto("/lesson/questions");
    assert.equal(new URL(page.url()).pathname, "/lesson/8");
    for (const [trial, prediction] of [
      ["fan-out", "4"],
      ["point-read", "few"],
      ["full-feed", "double"],
      ["full-key", "accepted"],
    ]) {
      await page.locator(`#q-${trial} input[value="${prediction}"]`).focus();
      await page.keyboard.press("Space");
      await page.keyboard.press("Enter");
      await page.locator(`#q-${trial} .verdict`).waitFor({ timeout: STEP_MS_MAX });
      assert.match(await page.locator(`#q-${trial} .verdict .mark`).innerText(), /As you predicted/, trial);
    }
    await page.locator("#n-again").focus();
    await page.keyboard.type("3");
    await page.keyboard.press("Enter");
    await page.locator("#q-again .verdict").waitFor({ timeout: STEP_MS_MAX });
    assert.match(await page.locator("#q-again .verdict").innerText(), /Otherwise than you predicted/);
    assert.match(await page.locator("#q-again .verdict").innerText(), /changed 0 items/);
    assert.match(await page.locator(".chapter").innerText(), /4 of 5/);

    const read = await page.locator("#q-point-read .figure").last().innerText();
    const [user] = await lab.items("feed", "post", FEED);
    assert.equal(read.replace(" RU", ""), await lab.readCharge("users", user.userId, user.userId));

    // Another browser has predicted nothing.
    const other = await person(test, { blog });
    await other.goto("/lesson/8");
    assert.equal(await other.locator(".verdict").count(), 0);
  });

  it("works without scripts: a step, a question without a prediction, an experiment, a reset", async (test) => {
    const page = await person(test, { blog, javaScript: false });
    await page.goto("/lesson/4");
    await page.locator("#run-rename").click();
    assert.ok((await page.locator(".copy[data-at]").count()) > 10);
    await page.goto("/lesson/8");
    await page.locator("#q-again form").evaluate((form) => form.setAttribute("novalidate", ""));
    await page.locator("#try-again").click();
    await page.locator("#q-again [role='alert']").waitFor();
    await page.locator("#n-again").fill("0");
    await page.locator("#try-again").click();
    assert.match(await page.locator("#q-again .verdict .mark").innerText(), /As you predicted/);

    await page.goto("/lesson/7");
    await page.locator("#start-full-key").click();
    for (let look = 0; look < 200 && (await page.locator("#lab[data-poll]").count()) > 0; look += 1) await page.reload();
    assert.match(await page.locator("#lab .notice.bad").innerText(), /403\/1014/);
    await page.locator("#lab-reset").click();
    assert.match(await page.locator("#lab").innerText(), /No experiment has run yet/);
    const answer = await page.goto("/lesson/5");
    assert.equal(answer.status(), 200);
  });

  it("shows the hot key at its partition's limit and the growth's split, started without lowered limits", async (test) => {
    const page = await person(test, { blog });
    await page.goto("/lesson/7");
    await page.locator("#start-hot-key").click();
    await page.locator("#lab .partition-columns .throttled").waitFor({ timeout: STEP_MS_MAX });
    await page.locator("#lab:not([data-poll])").waitFor({ timeout: STEP_MS_MAX });
    const state = await (await page.request.get("/lab/state.json")).json();
    const columns = page.locator(".partition-columns li");
    assert.equal(await columns.count(), state.containers[0].partitions.length);
    for (const [place, partition] of state.containers[0].partitions.entries()) {
      const perSecond = Math.round(partition.total.ru / Math.max(partition.seconds.length, 1));
      assert.match((await columns.nth(place).innerText()).replaceAll(",", ""), new RegExp(`· ${perSecond} RU/s`));
    }
    await page.locator("#start-growth").click();
    await page.locator("#lab .partition-columns .gone").waitFor({ timeout: STEP_MS_MAX });
    await page.locator("#lab:not([data-poll])").waitFor({ timeout: STEP_MS_MAX });
    assert.match(await page.locator("#lab").innerText(), /2 physical partitions instead of 1/);
  });

  it("moves the reader's point on the lines of break-even with a slider", async (test) => {
    const page = await person(test, { blog });
    await page.goto("/compare");
    if ((await page.request.get("/compare.json")).status() !== 200) {
      await page.locator("form[action='/compare'] button").first().click();
    }
    await later(page, "/lesson/6", "a chart", (page) => page.locator(".chart .own").first().isVisible());
    const place = () => page.locator(".chart .own").first().getAttribute("cx");
    const before = await place();
    await page.locator("#q6").focus();
    for (let step = 0; step < 5; step += 1) await page.keyboard.press("PageUp");
    await page.waitForFunction((old) => document.querySelector(".chart .own")?.getAttribute("cx") !== old, before);
    assert.equal(await page.locator(".chart .own").count(), 3);

    // The points lie where the mean prices in the table put them. One evaluation reads both: each
    // step of the slider replaces the whole part, table included.
    const { texts, prices } = await page.evaluate(() => {
      const textsOf = (nodes) => [...nodes].map((node) => node.textContent);
      const mix = document.querySelector("#mix");
      const rows = mix.querySelector(".chart + details table").querySelectorAll("tbody tr");
      return {
        texts: textsOf(mix.querySelectorAll("p b")),
        prices: [...rows].map((row) => textsOf(row.querySelectorAll("td"))),
      };
    });
    const [reads, ...costs] = texts;
    assert.equal(costs.length, prices.length);
    for (const [place, cost] of costs.entries()) {
      const [write, read] = prices[place].map(numberOf);
      const expected = write + numberOf(reads) * read;
      assert.ok(Math.abs(numberOf(cost) - expected) < 0.01 * expected + 0.01, `${cost}, not ${expected}`);
    }
  });

  it("pages with results are accessible, fit, and do not move after the first paint", async (test) => {
    const page = await person(test, { blog });
    await prepared(page, 4, "names");
    await press(page, "#run-rename", "#names .figures");
    await prepared(page, 5, "feed-cut");
    await press(page, "#run-add-post", "#feed-cut .square.new");
    await press(page, "#run-grow", "#uncut tbody tr");
    const complaints = [];
    for (const chapter of [4, 5, 6, 7, 8]) {
      await page.goto(`/lesson/${chapter}`);
      const shift = await page.evaluate(
        () =>
          new Promise((resolve) => {
            let sum = 0;
            const observer = new PerformanceObserver((list) => {
              for (const entry of list.getEntries()) if (!entry.hadRecentInput) sum += entry.value;
            });
            observer.observe({ type: "layout-shift", buffered: true });
            requestAnimationFrame(() => requestAnimationFrame(() => resolve(sum)));
          }),
      );
      if (shift > 0.01) complaints.push(`chapter ${chapter} moves by ${shift}`);
      for (const { width, colorScheme } of WINDOWS) {
        for (const scheme of [colorScheme, otherScheme(colorScheme)]) {
          await page.emulateMedia({ colorScheme: scheme });
          await page.setViewportSize({ width, height: 800 });
          const options = { coloursOnly: scheme !== colorScheme };
          for (const violation of await violationsOf(page, AXE, options)) complaints.push(`${chapter}: ${violation}`);
          if ((await pixelsBeyond(page)) > 0) complaints.push(`chapter ${chapter} is wider than ${width} pixels`);
          await screenshot(page, `lab-${chapter}-${width}-${scheme}`);
        }
      }
    }
    assert.deepEqual(complaints, []);
  });
});

describe("the lab of a blog on another server", () => {
  it("says why two experiments are not offered, and that the database is gone once it is", async (test) => {
    const server = await startServer();
    const { endpoint_http: endpoint, key } = server.ready;
    const blog = await startBlog("--endpoint", endpoint, "--key", key, "--scale", SMALLEST);
    try {
      const page = await person(test, { blog });
      await page.goto("/lesson/7");
      for (const name of ["full-key", "growth"]) {
        assert.ok(await page.locator(`#start-${name}`).isDisabled(), name);
      }
      assert.match(await page.locator(".lab-choices").innerText(), /--endpoint/);
      assert.ok(await page.locator("#start-hot-key").isEnabled());
      await page.goto("/lesson/8");
      assert.equal(await page.locator("#try-full-key").count(), 0);

      await server.kill();
      for (const chapter of [4, 5, 6, 7, 8]) {
        const answer = await page.goto(`/lesson/${chapter}`);
        assert.equal(answer.status(), 200, `chapter ${chapter}`);
      }
      await page.goto("/lesson/4");
      await page.locator("#run-rename").click();
      await page.locator("#names [role='alert']").waitFor({ timeout: STEP_MS_MAX });
      assert.match(await page.locator("#names [role='alert']").innerText(), /does not answer/);
      await page.goto("/lesson/8");
      await page.locator("#q-fan-out input[value='4']").check();
      await page.locator("#try-fan-out").click();
      await page.locator("#q-fan-out [role='alert']").waitFor({ timeout: STEP_MS_MAX });
    } finally {
      await blog.stop();
      await server.stop().catch(() => {});
    }
  });
});
