/**
 * The lesson's opening picture and chapters 1 to 3 against the real database: figures are the charges that the server
 * answered; each picture works by keyboard alone and without scripts; nothing moves the page; a database that is gone
 * is said to be gone.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, it } from "node:test";

import { otherScheme, pixelsBeyond, screenshot, violationsOf, WINDOWS } from "../../browser/looks.js";
import { Database } from "../database.js";
import { startBlog, startServer } from "../programs.js";
import { AT_ONCE, idOf, person, sharedBlog } from "../world.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SMALLEST = "0.00002";

const hundredths = (text) => Math.round(Number(text.replace(/[^0-9.]/g, "")) * 100);

/** The database of the home model of the shared blog. */
async function homeDatabase(page) {
  const { ready } = await sharedBlog();
  await page.goto("/");
  const model = new URL(page.url()).pathname.slice(1, 3);
  return new Database(ready, `blog-${model}`);
}

/** Presses the button `name` in the trial and returns the trial with its result. */
async function run(page, trial, button, result) {
  await page.locator(`#trial-${trial}`).getByRole("button", { name: button, exact: true }).click();
  await page.locator(`#trial-${trial} ${result}`).first().waitFor();
  return page.locator(`#trial-${trial}`);
}

/** Places a key of a kind in chapter 1 and returns what the page says. */
async function place(page, kind, key) {
  const trial = page.locator("#trial-hashing");
  await trial.getByLabel(kind, { exact: true }).check();
  await trial.getByLabel("A partition key").fill(key);
  await trial.getByRole("button", { name: "Place the key" }).click();
  await trial.locator("dt", { hasText: new RegExp(`hash of the ${kind}`) }).waitFor();
  const text = (selector) => trial.locator(selector).innerText();
  return {
    epk: await text("[data-epk]"),
    computed: await text("[data-computed]"),
    answered: await text("[data-answered]"),
    charge: await text("[data-charge]"),
  };
}

describe("the opening picture", AT_ONCE, () => {
  it("changes with the slider by keyboard alone, and figures equal those of the comparison", async (test) => {
    const page = await person(test);
    await page.goto("/lesson?model=1&request=q3");
    const slider = page.getByLabel("Drag from V1 to V3");
    const figure = page.locator(".price-row", { has: page.locator("input[value='q3']") }).locator("[data-ours]");
    const first = hundredths(await figure.innerText());
    await slider.focus();
    await page.keyboard.press("ArrowRight");
    const second = hundredths(await figure.innerText());
    await page.keyboard.press("ArrowRight");
    const third = hundredths(await figure.innerText());
    assert.ok(first > second && second > third, `${[first, second, third]}`);
    assert.equal(await page.locator(".containers:visible section").count(), 3);
    assert.match(page.url(), /model=3&request=q3/);
    // The address opens the same picture again.
    await page.reload();
    assert.equal(hundredths(await figure.innerText()), third);
  });

  it("works without scripts by its links", async (test) => {
    const page = await person(test, { javaScript: false });
    await page.goto("/lesson?request=q6");
    await page.getByRole("link", { name: "V3" }).last().click();
    await page.waitForURL(/model=3/);
    assert.equal(await page.locator(".containers:visible section").count(), 3);
    assert.equal(await page.locator("input[name='request']:checked").inputValue(), "q6");
  });
});

describe("the hash of a key", AT_ONCE, () => {
  it("leads to the partition in which the database keeps an item with the key", async (test) => {
    const page = await person(test);
    const database = await homeDatabase(page);
    const post = idOf(await page.locator("#posts h2 a").first().getAttribute("href"));
    await page.goto("/lesson/1");
    const found = await place(page, "text", post);
    const container = `dbs/${database.name}/colls/posts`;
    const answer = await database.send("GET", `${container}/docs/${post}`, `${container}/docs/${post}`, post);
    assert.equal(answer.status, 200);
    const range = answer.headers.get("x-ms-documentdb-partitionkeyrangeid");
    assert.deepEqual([found.computed, found.answered], [range, range]);
  });

  it("differs between 1 and \"1\", and earlier keys stay as marks", async (test) => {
    const page = await person(test);
    await page.goto("/lesson/1");
    const before = await page.locator(".hash-bar .pin").count();
    const text = await place(page, "text", "forty-two");
    assert.equal(text.computed, text.answered);
    for (const [kind, key] of [["boolean", "true"], ["null", ""], ["number", "7"]]) {
      const found = await place(page, kind, key);
      assert.equal(found.computed, found.answered, kind);
      assert.notEqual(found.epk, text.epk);
    }
    assert.equal((await place(page, "boolean", "true")).epk, "0E711127C5B5A8E4726AC6DD306A3E59");
    assert.equal(await page.locator(".hash-bar .pin").count(), before + 4);
    const rows = await page.locator("#trial-hashing .same tbody tr").allTextContents();
    const hashes = rows.filter((row) => /: "?1"?(text|number)/.test(row)).map((row) => row.match(/[0-9A-F]{8}/)[0]);
    assert.equal(new Set(hashes).size, 2, `${rows}`);
  });

  it("says what is wrong with a key, and keeps it", async (test) => {
    const page = await person(test);
    await page.goto("/lesson/1");
    const trial = page.locator("#trial-hashing");
    await trial.getByLabel("number", { exact: true }).check();
    await trial.getByLabel("A partition key").fill("<b>seven</b>");
    await page.keyboard.press("Enter");
    await trial.getByRole("alert").getByText("not a number").waitFor();
    assert.equal(await trial.getByLabel("A partition key").inputValue(), "<b>seven</b>");
  });
});

describe("comments inside a post", () => {
  it("cost more with each one, and comments of their own do not", async (test) => {
    const page = await person(test);
    await page.goto("/lesson/1");
    const trial = await run(page, "embedding", "Measure both", "[data-embedded]");
    const rows = await trial.locator("tbody tr").evaluateAll((found) =>
      found.map((row) => [...row.cells].map((cell) => cell.textContent)));
    const embedded = rows.map((row) => hundredths(row[2]));
    const referenced = rows.map((row) => hundredths(row[3]));
    assert.deepEqual(embedded, [...embedded].sort((one, other) => one - other));
    assert.ok(embedded.at(-1) > 5 * embedded[0], `${embedded}`);
    assert.equal(new Set(referenced).size, 1, `${referenced}`);
  });
});

describe("a fan-out", AT_ONCE, () => {
  for (const [list, model] of [["q3", "v1"], ["q3", "v3"], ["q6", "v2"]]) {
    it(`of ${list} in ${model} has the charge of each partition, and their sum`, async (test) => {
      const page = await person(test);
      await page.goto("/lesson/2");
      const choice = page.locator("#trial-fan-out");
      await choice.locator(`input[value='${list}']`).check();
      await choice.locator(`input[value='${model}']`).check();
      const answered = page.waitForResponse((response) => response.url().endsWith("/lesson/run/fan-out"));
      const trial = await run(page, "fan-out", "Send the query", "[data-total]");
      const total = hundredths(await trial.locator("[data-total]").innerText());
      const parts = (await trial.locator("[data-part]").allInnerTexts()).map(hundredths);
      assert.equal(parts.reduce((sum, part) => sum + part, 0), total);
      const cells = await trial.locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.cells[5].textContent));
      const asked = cells.filter((cell) => cell !== "");
      assert.equal(asked.map(hundredths).reduce((sum, part) => sum + part, 0), parts[0]);
      assert.equal(asked.length, await trial.locator(".answered").count());
      assert.equal(asked.length, model === "v3" ? 1 : cells.length);
      assert.equal((await answered).status(), 200);
    });
  }

  it("becomes one request with a partition key, whose charge the server answers again", async (test) => {
    const page = await person(test);
    const { ready } = await sharedBlog();
    await page.goto("/lesson/2");
    const trial = await run(page, "fan-out", "Send it with a partition key", "[data-total]");
    assert.equal(await trial.locator(".answered").count(), 1);
    const sql = await trial.locator(".sql pre").innerText();
    const parameters = (await trial.locator(".parameters code").allInnerTexts()).join(", ");
    const key = JSON.parse(parameters.match(/@postId = ("[^"]*")/)[1]);
    const row = { operation: "Query", container: "posts", key, sql, parameters, items: 1 };
    const charge = await new Database(ready, "blog-v1").charge(row);
    assert.equal(await trial.locator("[data-total]").innerText(), charge);
  });
});

describe("the transaction of createComment", AT_ONCE, () => {
  it("raises the count and is walked step by step, by keyboard alone", async (test) => {
    const page = await person(test);
    await page.goto("/lesson/3");
    await page.locator("#comment-go").focus();
    await page.keyboard.press("Enter");
    await page.locator("#trial-comment [data-count]").waitFor();
    assert.equal(await page.locator("#trial-comment [data-count]").innerText(), "2");
    assert.ok(hundredths(await page.locator("#trial-comment [data-charge]").innerText()) > 0);
    assert.equal(await page.locator(".walk-steps > li:visible").count(), 1);
    await page.getByLabel("Step").focus();
    for (const title of ["Raise the count", "Replace the post", "Create the comment", "Commit"]) {
      await page.keyboard.press("ArrowRight");
      await page.locator(".walk-steps h3:visible", { hasText: title }).waitFor();
      assert.ok((await page.locator(".script .now").count()) > 0, title);
    }
    assert.match(await page.locator(".walk-steps li:visible .changed").first().innerText(), /"commentCount": 2.*was 1/);
  });

  it("that fails leaves nothing, also without scripts", async (test) => {
    const page = await person(test, { javaScript: false });
    await page.goto("/lesson/3");
    await page.getByRole("button", { name: "Run it and fail in the middle" }).click();
    await page.locator("#trial-comment [data-count]").waitFor();
    assert.equal(await page.locator("#trial-comment [data-count]").innerText(), "1");
    assert.equal(await page.locator(".walk-steps > li:visible").count(), 5);
    const last = page.locator(".walk-steps > li").last();
    assert.match(await last.innerText(), /"commentCount": 1/);
    assert.equal(await last.locator("figure", { hasText: "comment, stored" }).count(), 1);
    assert.equal(await page.locator("h1").innerText(), "Counts by procedure");
  });
});

describe("pages of the lesson with results", AT_ONCE, () => {
  const FILLED = [
    ["lesson", "/lesson?model=3&request=q3", async () => {}],
    ["lesson-1-result", "/lesson/1", async (page) => {
      await place(page, "text", "ليلى 🌿");
      await run(page, "embedding", "Measure both", "[data-embedded]");
    }],
    ["lesson-2-result", "/lesson/2", (page) => run(page, "fan-out", "Send the query", "[data-total]")],
    ["lesson-3-result", "/lesson/3", (page) => run(page, "comment", "Run createComment", "[data-count]")],
  ];
  for (const [name, path, fill] of FILLED) {
    it(`are accessible, fit and do not shift: ${name}`, async (test) => {
      const page = await person(test);
      await page.addInitScript(() => {
        window.shifts = [];
        const text = ({ node, previousRect, currentRect }) =>
          `${(node?.outerHTML ?? node?.textContent ?? "?").slice(0, 80)}: ${previousRect.y} to ${currentRect.y}`;
        new PerformanceObserver((list) => {
          // A paint while the page still arrives may lack the end of the header.
          const seen = list.getEntries().filter((entry) => entry.value > 0.01);
          for (const entry of seen) window.shifts.push(...entry.sources.map(text));
        }).observe({ type: "layout-shift", buffered: true });
      });
      await page.goto(path);
      assert.deepEqual(await page.evaluate(() => window.shifts), [], "the layout shifted after the first paint");
      await fill(page);
      const complaints = [];
      for (const { width, colorScheme } of WINDOWS) {
        await page.setViewportSize({ width, height: 800 });
        for (const scheme of [colorScheme, otherScheme(colorScheme)]) {
          await page.emulateMedia({ colorScheme: scheme });
          complaints.push(...(await violationsOf(page, AXE, { coloursOnly: scheme !== colorScheme })));
          if ((await pixelsBeyond(page)) > 0) complaints.push(`wider than ${width} pixels`);
          await screenshot(page, `${name}-${width}-${scheme}`);
        }
      }
      assert.deepEqual(complaints, []);
    });
  }
});

describe("a database that is stopped while the lesson runs", () => {
  it("leaves the pages, and the experiments say what happened", async (test) => {
    const server = await startServer();
    test.after(() => server.stop().catch(() => {}));
    const { endpoint_http: endpoint, key } = server.ready;
    const blog = await startBlog("--endpoint", endpoint, "--key", key, "--scale", SMALLEST);
    test.after(() => blog.stop());
    const page = await person(test, { blog });
    await page.goto("/lesson/3");
    await server.kill();
    await page.getByRole("button", { name: "Run createComment" }).click();
    await page.getByText("The database does not answer.").waitFor();
    for (const path of ["/lesson", "/lesson/1", "/lesson/2", "/lesson/3"]) {
      const answer = await page.goto(path);
      assert.equal(answer.status(), 200, path);
    }
  });
});
