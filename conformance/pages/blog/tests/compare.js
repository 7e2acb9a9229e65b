/** The comparison of the models: there at the first visit, equal to the charges of the database, copied and downloaded. */

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { pixelsBeyond } from "../../browser/looks.js";
import { startBlog } from "../programs.js";
import { later, meterOf, person } from "../world.js";
import { shiftsOf, watchShifts } from "../shifts.js";

const MODELS = ["v1", "v2", "v3"];

/** Waits until the shared blog has measured its models. */
async function measured(page) {
  await later(page, "/compare", "the first comparison", async (page) => {
    return (await page.locator("#comparison[data-poll]").count()) === 0;
  });
}

/** The rows of the table of ten requests: code, model and figures. */
async function rowsOf(page) {
  return page.locator("table.ten tbody").evaluateAll((bodies) =>
    bodies.flatMap((body) => {
      const code = body.querySelector("th .code").textContent.trim();
      return [...body.querySelectorAll("tr")].map((row) => {
        const cells = [...row.querySelectorAll("td")].map((cell) => cell.textContent.trim());
        return { code, model: cells[0], figures: cells.slice(1) };
      });
    }),
  );
}

describe("the comparison", () => {
  it("is there without a click: ten requests in three models, beside the article's figures", async (test) => {
    const page = await person(test);
    await page.goto("/compare");
    // Before the first comparison the table has its whole shape.
    assert.equal((await rowsOf(page)).length, 30);
    assert.doesNotMatch(await page.locator("main").innerText(), /not measured|–/);
    await measured(page);
    const rows = await rowsOf(page);
    for (const { code, model, figures } of rows) {
      const numbers = figures.slice(0, 5).map((text) => Number(text.replaceAll(",", "")));
      assert.ok(numbers.every((number) => number > 0), `${code} of ${model}: ${figures}`);
    }
    const newest = rows.find((row) => row.code === "Q6" && row.model === "V1");
    assert.equal(newest.figures[3], "2,063.54");
  });

  it("has the charge that the same requests of a page have", async (test) => {
    const page = await person(test);
    await measured(page);
    const rows = await rowsOf(page);
    const post = await page.getByLabel("Post to read").inputValue();
    // The requests of a page: Q1 and Q3 of the author, Q5 of the likes.
    for (const model of MODELS) {
      await page.goto(`/${model}/posts/${post}/likes`);
      const shown = rows.find((row) => row.code === "Q5" && row.model === model.toUpperCase());
      const answer = await page.request.get(`/${model}/posts/${post}/likes`);
      const charge = answer.headers()["x-orrery-request-charge"];
      assert.equal(shown.figures[0], charge, `Q5 of ${model}`);
      assert.equal((await meterOf(page)).hundredths, Math.round(Number(charge) * 100));
    }
  });

  it("is copied as CSV and Markdown, and downloaded without scripts", async (test) => {
    const page = await person(test);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await measured(page);
    for (const [name, path] of [
      ["Copy as CSV", "/compare.csv"],
      ["Copy as Markdown", "/compare.md"],
    ]) {
      await page.getByRole("button", { name }).click();
      await page.getByText("Copied.", { exact: true }).waitFor();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      const file = await (await page.request.get(path)).text();
      assert.equal(copied.replaceAll("\r\n", "\n"), file.replaceAll("\r\n", "\n"));
      await page.locator("[data-copied]").evaluate((place) => place.replaceChildren());
    }
    const without = await person(test, { javaScript: false });
    await measured(without);
    assert.equal(await without.getByRole("button", { name: "Copy as CSV" }).count(), 0);
    for (const name of ["CSV", "Markdown", "JSON"]) {
      assert.ok(await without.getByRole("link", { name, exact: true }).isVisible(), name);
    }
  });

  it("is measured again by keyboard, with its progress, and nothing moves", async (test) => {
    const page = await person(test);
    await measured(page);
    await page.goto("/compare");
    const before = await page.locator(".comparison-state").innerText();
    await page.getByLabel("Runs of each").fill("2");
    await page.getByRole("button", { name: "Measure again" }).focus();
    await page.keyboard.press("Enter");
    await page.locator("#comparison progress").waitFor();
    await watchShifts(page);
    assert.equal((await rowsOf(page)).length, 30, "the last figures stay meanwhile");
    await page.locator("#comparison:not([data-poll])").waitFor();
    assert.notEqual(await page.locator(".comparison-state").innerText(), before);
    assert.match(await page.locator(".comparison-state").innerText(), /up to 2 runs/);
    assert.deepEqual(await shiftsOf(page), []);
  });

  it("has controls of the width of what is typed, and fits a narrow window", async (test) => {
    const page = await person(test);
    await page.goto("/compare");
    const { width } = await page.getByLabel("Runs of each").boundingBox();
    assert.ok(width < 160, `${width} pixels for a number of two digits`);
    await page.setViewportSize({ width: 390, height: 800 });
    assert.equal(await pixelsBeyond(page), 0);
  });
});

describe("a blog with one model", () => {
  let blog;

  before(async () => {
    blog = await startBlog("--scale", "0.00002", "--model", "v3", "--only");
  });

  after(async () => {
    if (blog) await blog.stop();
  });

  it("says which models cannot be measured, and why", async (test) => {
    const page = await person(test, { blog });
    await measured(page);
    await page.goto("/compare");
    const rows = await rowsOf(page);
    for (const { code, model, figures } of rows) {
      assert.equal(figures[0] === "not on this site", model !== "V3", `${code} of ${model}`);
    }
    await page.goto("/v3");
    await page.locator("#meter > summary").click();
    const others = page.locator("#meter .prices li:not(.current)");
    assert.equal(await others.count(), 2);
    for (const text of await others.allInnerTexts()) {
      assert.match(text, /the article's figure; not on this site/);
    }
    assert.match(await page.locator("#prices .prices-status").innerText(), /Only V3 is on this site/);
  });
});
