/** The same blog in three models: equal contents, different sums; and the order and length of the front page. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { freshName, later, meterOf, person, postsOf, signUp, writePost } from "../world.js";

const MODELS = ["v1", "v2", "v3"];

/** Opens a page in V1, goes to the other models by the switch, and returns what `read` finds in each. */
async function inEachModel(page, path, read) {
  const found = [];
  await page.goto(`/v1${path}`);
  for (const model of MODELS) {
    await page.getByRole("navigation", { name: "Data model" }).getByRole("link", { name: model.toUpperCase() }).click();
    await page.waitForURL((url) => url.pathname === `/${model}${path}`);
    found.push(await read(page));
  }
  return found;
}

describe("the switch of models", () => {
  it("shows equal posts on the front page, for less and less", async (test) => {
    const page = await person(test);
    const posts = await inEachModel(page, "", postsOf);
    assert.equal(posts[0].length, 100);
    assert.deepEqual(posts[1], posts[0]);
    assert.deepEqual(posts[2], posts[0]);

    const meters = await inEachModel(page, "", meterOf);
    const charges = meters.map((meter) => meter.hundredths);
    assert.ok(charges[0] > charges[1] && charges[1] > charges[2], `${charges}`);
  });

  it("shows an equal post, with equal comments and likes", async (test) => {
    const page = await person(test);
    await page.goto("/v3");
    const post = (await postsOf(page)).find((item) => item.counts.every((count) => !count.startsWith("0")));
    const read = async (page) => ({
      body: await page.locator(".markdown").innerHTML(),
      comments: await page.locator(".comment").allInnerTexts(),
      head: await page.locator(".post-head").innerText(),
    });
    const found = await inEachModel(page, post.path, read);
    assert.ok(found[0].comments.length > 0);
    assert.deepEqual(found[1], found[0]);
    assert.deepEqual(found[2], found[0]);

    const likes = await inEachModel(page, `${post.path}/likes`, (page) => page.locator(".people li a").allInnerTexts());
    assert.ok(likes[0].length > 0);
    assert.deepEqual(likes[1], likes[0]);
    assert.deepEqual(likes[2], likes[0]);
    const charges = (await inEachModel(page, post.path, meterOf)).map((meter) => meter.hundredths);
    assert.ok(charges[0] > charges[2], `${charges}`);
  });

  it("shows equal posts of a user", async (test) => {
    const page = await person(test);
    await page.goto("/v3");
    const user = await page.locator("#posts .author").first().getAttribute("href");
    const path = new URL(user, page.url()).pathname.replace(/^\/v3/, "");
    const posts = await inEachModel(page, path, postsOf);
    assert.ok(posts[0].length > 0);
    assert.deepEqual(posts[1], posts[0]);
    assert.deepEqual(posts[2], posts[0]);
  });

  it("shows the sums of a page in all models side by side once each was visited", async (test) => {
    const page = await person(test);
    const meters = await inEachModel(page, "", meterOf);
    await page.locator("#meter > summary").click();
    for (const [place, model] of MODELS.entries()) {
      const price = page.locator(`#meter .prices a[data-model="${model}"]`);
      const shown = (await price.locator(".figure").innerText()).replace(/[^0-9.]/g, "");
      assert.equal(Math.round(Number(shown) * 100), meters[place].hundredths, model);
    }
  });
});

describe("the front page", () => {
  it("has the 100 newest posts, the newest first", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Frida"));
    const titles = [freshName("Earlier"), freshName("Later")];
    for (const title of titles) await writePost(page, "v3", title, "Words.");
    for (const model of MODELS) {
      await later(page, `/${model}`, "the newest posts", async (page) => {
        const shown = (await postsOf(page)).map((post) => post.title);
        return shown.indexOf(titles[1]) >= 0 && shown.indexOf(titles[1]) < shown.indexOf(titles[0]);
      });
      const posts = await postsOf(page);
      assert.equal(posts.length, 100);
      const dates = posts.map((post) => post.created);
      assert.deepEqual(dates, [...dates].sort().reverse());
    }
  });

  it("leads to older posts of a user page by page, without a gap", async (test) => {
    const page = await person(test);
    await page.goto("/v3");
    const users = await page.locator("#posts .author").evaluateAll((links) => links.map((link) => link.pathname));
    const counts = new Map();
    for (const user of users) counts.set(user, (counts.get(user) ?? 0) + 1);
    const [user] = [...counts].sort((one, other) => other[1] - one[1])[0];
    const paths = [];
    await page.goto(user);
    for (;;) {
      paths.push(...(await postsOf(page)).map((post) => post.path));
      const next = page.locator(".pager a[rel='next']");
      if ((await next.count()) === 0) break;
      await next.click();
      await page.waitForLoadState();
    }
    assert.equal(new Set(paths).size, paths.length);
    assert.ok(paths.length >= counts.get(user), `${paths.length} posts, ${counts.get(user)} of them on the front page`);
  });
});
