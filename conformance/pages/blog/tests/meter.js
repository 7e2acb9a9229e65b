/** The figures of the meter equal the charges of the database. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { pixelsBeyond } from "../../browser/looks.js";
import { startBlog } from "../programs.js";
import { shiftsOf, watchShiftsOfPages } from "../shifts.js";
import { commentOn, freshName, meterOf, person, SCALE, sharedBlog, signUp, writePost } from "../world.js";
import { Database } from "../database.js";

const PAGES = ["", "/posts", "/likes", "/users"];

/** The paths of one page of each kind, in this model. */
async function pathsOf(page, model) {
  await page.goto(`/${model}`);
  const post = await page.locator("#posts h2 a").first().getAttribute("href");
  const user = await page.locator("#posts .author").first().getAttribute("href");
  return [`/${model}`, post, `${post}/likes`, user];
}

describe("the meter", () => {
  for (const model of ["v1", "v2", "v3"]) {
    it(`of ${model} sums its rows on each kind of page`, async (test) => {
      const page = await person(test);
      for (const [place, path] of (await pathsOf(page, model)).entries()) {
        await page.goto(path);
        const meter = await meterOf(page);
        assert.ok(meter.requests > 0, `${PAGES[place]}: ${meter.requests} requests`);
        assert.equal(meter.rowHundredths, meter.hundredths, PAGES[place]);
        assert.equal(meter.rowRequests, meter.requests, PAGES[place]);
      }
    });

    it(`of ${model} shows the charges that the database asks for the same requests`, async (test) => {
      const page = await person(test);
      const database = new Database((await sharedBlog()).ready, `blog-${model}`);
      let compared = 0;
      for (const path of await pathsOf(page, model)) {
        await page.goto(path);
        for (const row of await singleRequests(page)) {
          assert.equal(await database.charge(row), row.ru, `${path}: ${JSON.stringify(row)}`);
          compared += 1;
        }
      }
      assert.ok(compared >= 4, `${compared} requests`);
    });
  }

  it("shows a write with the page that follows", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Mina"));
    await writePost(page, "v3", freshName("Measured"), "Words.");
    await commentOn(page, "A measured comment");
    const meter = await meterOf(page);
    assert.match(meter.codes, /C3/);
    assert.equal(meter.rowHundredths, meter.hundredths);
  });

  it("fills the squares of the partitions that a page asks", async (test) => {
    const page = await person(test);
    const lit = async (path) => {
      await page.goto(path);
      const squares = page.locator("#meter-squares .sq[data-sq^='posts-']");
      return [await squares.and(page.locator(".lit")).count(), await squares.count()];
    };
    const [path, post] = await pathsOf(page, "v1");
    const [litByAll, all] = await lit(path);
    assert.ok(all > 0);
    assert.equal(litByAll, all, "the front page of V1 asks every partition");
    assert.equal((await lit(post.replace("/v1/", "/v3/")))[0], 1, "a post of V3 is in one partition");
    assert.equal((await lit("/v3"))[0], 0, "the front page of V3 does not ask `posts`");
  });
});

/** Waits until the bars of the current page no longer change. */
async function barsAreSettled(page) {
  await page.locator("#meter #prices:not([data-poll])").waitFor({ state: "attached" });
}

/** The bars in the drawer: model, charge and origin. */
async function barsOf(page) {
  return page.locator("#prices .prices > li").evaluateAll((items) =>
    items.map((item) => ({
      model: item.dataset.model,
      ru: item.querySelector(".figure").textContent.replace(/[^0-9.]/g, ""),
      width: Number(item.querySelector(".fill").getAttribute("width")),
      origin: item.querySelector(".origin").textContent.trim(),
    })),
  );
}

describe("what this page costs", () => {
  it("is three bars at the first visit, each equal to the charge that the server answers", async (test) => {
    const page = await person(test);
    const [front, , , user] = await pathsOf(page, "v2");
    for (const path of [front, user]) {
      const answer = await page.goto(path);
      await barsAreSettled(page);
      const bars = await barsOf(page);
      assert.deepEqual(bars.map((bar) => bar.model), ["v1", "v2", "v3"]);
      assert.equal(bars[1].ru, answer.headers()["x-orrery-request-charge"]);
      for (const bar of bars) {
        assert.doesNotMatch(bar.origin, /article/, `${path} in ${bar.model}`);
        const other = await page.request.get(path.replace("/v2", `/${bar.model}`));
        assert.equal(bar.ru, other.headers()["x-orrery-request-charge"], `${path} in ${bar.model}`);
      }
      assert.ok(bars[0].width > bars[1].width && bars[1].width > bars[2].width, JSON.stringify(bars));
    }
  });

  it("is there before the models are measured, without a dash, and nothing moves when ours come", async (test) => {
    const blog = startBlog("--scale", SCALE);
    test.after(async () => (await blog).stop());
    const page = await person(test, { blog });
    await watchShiftsOfPages(page);
    await page.goto("/v3");
    for (const bar of await barsOf(page)) assert.ok(Number(bar.ru) > 0 && bar.origin !== "");
    assert.doesNotMatch(await page.locator("#meter > summary").innerText(), /not measured|–/);
    await barsAreSettled(page);
    assert.deepEqual(await shiftsOf(page), []);
  });

  it("is there without scripts", async (test) => {
    const page = await person(test, { javaScript: false });
    await page.goto("/v1");
    assert.equal(await page.locator("#meter-bars .fill").count(), 3);
    await page.locator("#meter > summary").click();
    assert.equal((await barsOf(page)).length, 3);
    await page.locator("#meter .requests details summary", { hasText: "Items read" }).first().click();
    const item = page.locator("#meter .read a").first();
    const id = (await item.innerText()).trim();
    await item.click();
    const shown = JSON.parse(await page.locator("pre.item").innerText());
    assert.equal(shown.id, id);
  });

  it("shows the squares of the request that has the focus, and arrow keys go on", async (test) => {
    const page = await person(test);
    await page.goto("/v1");
    await page.locator("#meter > summary").focus();
    await page.keyboard.press("Enter");
    const rows = page.locator("#meter tbody[data-asks]");
    await rows.first().focus();
    const marked = async () => page.locator("#meter-squares .sq.marked").evaluateAll((all) => all.map((one) => one.dataset.sq));
    const asked = async (place) => (await rows.nth(place).getAttribute("data-asks")).split(" ");
    assert.deepEqual((await marked()).sort(), (await asked(0)).sort());
    await page.keyboard.press("ArrowDown");
    assert.ok(await rows.nth(1).evaluate((row) => row === document.activeElement));
    assert.deepEqual((await marked()).sort(), (await asked(1)).sort());
    await page.keyboard.press("ArrowUp");
    assert.ok(await rows.first().evaluate((row) => row === document.activeElement));
  });

  it("draws requests as lights, and as numbers for a person who wants no motion", async (test) => {
    const still = await person(test);
    await still.goto("/v1");
    const number = still.locator("#meter-squares [data-order='1']").first();
    assert.equal(await number.evaluate((square) => getComputedStyle(square, "::after").content), '"1"');
    assert.equal(await still.locator("#meter-squares .light:not([hidden]), .sq.waiting").count(), 0);

    const moving = await person(test, { reducedMotion: "no-preference" });
    await moving.addInitScript(() => {
      window.lights = 0;
      const animate = Element.prototype.animate;
      Element.prototype.animate = function (...parameters) {
        if (this.matches(".light")) window.lights += 1;
        return animate.apply(this, parameters);
      };
    });
    await moving.goto("/v1");
    const lit = await moving.locator("#meter-squares .sq.lit").count();
    await moving.waitForFunction(() => document.querySelectorAll(".sq.waiting, .light:not([hidden])").length === 0 && window.lights > 0);
    assert.ok((await moving.evaluate(() => window.lights)) >= lit, "a light for each square that was asked");
  });

  it("fits a narrow window, open and closed", async (test) => {
    const page = await person(test, { width: 390 });
    await page.goto("/v1");
    assert.equal(await pixelsBeyond(page), 0);
    await page.locator("#meter > summary").click();
    assert.equal(await pixelsBeyond(page), 0);
  });
});

/** The rows of the meter that are one request to one logical partition and can be asked again. */
async function singleRequests(page) {
  const rows = await page.locator("#meter section .requests tbody[data-count='1']").evaluateAll((bodies) =>
    bodies.map((body) => {
      const cell = (name) => body.querySelector(`td[data-label="${name}"]`)?.textContent.trim() ?? "";
      const code = body.querySelector("td[data-label='Text'] code:not(.parameters)");
      const parameters = body.querySelector("td[data-label='Text'] code.parameters");
      return {
        operation: cell("Operation"),
        container: cell("Container"),
        key: body.querySelector("td[data-label='Key'] code")?.textContent.trim(),
        items: Number(cell("Items")),
        sql: code?.textContent.trim(),
        parameters: parameters?.textContent.trim(),
        ru: body.dataset.ru,
      };
    }),
  );
  return rows.filter((row) => row.key !== undefined && ["Read item", "Query"].includes(row.operation));
}
