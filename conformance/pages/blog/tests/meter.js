/** The figures of the meter equal the charges of the database. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { commentOn, freshName, meterOf, person, sharedBlog, signUp, writePost } from "../world.js";
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

  it("lights the partitions that a page asks", async (test) => {
    const page = await person(test);
    const lit = async (path) => {
      await page.goto(path);
      const bar = page.locator("#meter .partitions .partition-bar");
      return [await bar.locator(".lit").count(), await bar.locator(".cell").count()];
    };
    const [path, post] = await pathsOf(page, "v1");
    const [litByAll, all] = await lit(path);
    assert.ok(all > 0);
    assert.equal(litByAll, all, "the front page of V1 asks every partition");
    assert.equal((await lit(post.replace("/v1/", "/v3/")))[0], 1, "a post of V3 is in one partition");
    assert.equal((await lit("/v3"))[0], 0, "the front page of V3 does not ask `posts`");
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
