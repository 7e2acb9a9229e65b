/** A database that is throttled or gone, and a blog that is gone: pages say so, and typed text stays. */

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { startBlog, startServer } from "../programs.js";
import { freshName, person, signUp, writePost } from "../world.js";

const SMALLEST = "0.00002";

/** Words that belong into a log and not onto a page. */
const INTERNAL = /panicked|Error \{|hyper|tcp connect|os error|stack backtrace/i;

describe("a database that is throttled or gone", () => {
  let server;
  let blog;

  before(async () => {
    server = await startServer();
    const { endpoint_http: endpoint, key } = server.ready;
    blog = await startBlog("--endpoint", endpoint, "--key", key, "--scale", SMALLEST);
  });

  after(async () => {
    if (blog) await blog.stop();
    if (server) await server.stop().catch(() => {});
  });

  /** Calls the management API of the database. */
  async function manage(method, path, body) {
    const { admin_endpoint: admin, admin_key: key } = server.ready;
    const headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
    const answer = await fetch(`${admin.replace(/\/$/, "")}${path}`, { method, headers, body: body && JSON.stringify(body) });
    assert.ok(answer.ok, `${method} ${path} is answered with ${answer.status}`);
  }

  /** Every write to `posts` of V3 is throttled, until `manage("DELETE", "/faults")`. */
  async function throttle(retryAfterMilliseconds) {
    for (const operation of ["execute_stored_procedure", "create_item"]) {
      await manage("POST", "/faults", {
        database: "blog-v3",
        container: "posts",
        operations: [operation],
        status: 429,
        retryAfterMilliseconds,
      });
    }
  }

  it("is said to be busy, and the comment is sent again without being typed again", async (test) => {
    const page = await person(test, { blog, javaScript: false });
    await signUp(page, freshName("Theo"));
    await writePost(page, "v3", freshName("Busy"), "Words.");
    await throttle(1);
    try {
      await page.getByLabel("Your comment").fill("Said in a busy second");
      await page.getByRole("button", { name: "Comment", exact: true }).click();
      await page.getByRole("button", { name: "Try again" }).waitFor();
      assert.match(await page.locator("main").innerText(), /busy/i);
      assert.equal(await page.locator("textarea").inputValue(), "Said in a busy second");
    } finally {
      await manage("DELETE", "/faults");
    }
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".comment", { hasText: "Said in a busy second" }).waitFor();
    assert.equal(await page.locator(".comment").count(), 1);
  });

  it("is asked again by the page itself", async (test) => {
    const page = await person(test, { blog });
    await signUp(page, freshName("Rita"));
    await writePost(page, "v3", freshName("Busy"), "Words.");
    await throttle(1);
    try {
      await page.getByLabel("Your comment").fill("Said once, sent again");
      await page.getByRole("button", { name: "Comment", exact: true }).click();
      await page.getByRole("button", { name: "Try again" }).waitFor();
    } finally {
      await manage("DELETE", "/faults");
    }
    await page.locator(".comment", { hasText: "Said once, sent again" }).waitFor();
    assert.equal(await page.locator(".comment").count(), 1);
  });

  it("that is gone is said to be gone, without internal words, and typed text stays", async (test) => {
    const without = await person(test, { blog, javaScript: false });
    const page = await person(test, { blog });
    for (const each of [without, page]) {
      await signUp(each, freshName("Gerda"));
      await each.goto("/v3/write");
      await each.getByLabel("Title").fill("A title that stays");
      await each.getByLabel("Text", { exact: true }).fill("Words that stay.");
    }
    await server.kill();
    for (const each of [without, page]) {
      await each.getByRole("button", { name: "Publish" }).click();
      await each.getByRole("button", { name: "Try again" }).waitFor();
      assert.match(await each.locator("main").innerText(), /does not answer/i);
      assert.equal(await each.getByLabel("Title").inputValue(), "A title that stays");
      assert.equal(await each.getByLabel("Text", { exact: true }).inputValue(), "Words that stay.");
      assert.doesNotMatch(await each.content(), INTERNAL);
    }
    const answer = await page.goto("/v3");
    assert.equal(answer.status(), 503);
    assert.doesNotMatch(await page.content(), INTERNAL);
    // The prices stay: the last ones, or the article's, named as such.
    assert.equal(await page.locator("#meter-bars .fill").count(), 3);
    await page.goto("/compare");
    assert.equal(await page.locator("table.ten tbody tr").count(), 30);
    assert.doesNotMatch(await page.locator("main").innerText(), /not measured|–/);
    assert.doesNotMatch(await page.content(), INTERNAL);
  });
});

describe("a blog that is gone", () => {
  it("leaves the typed text in the page", async (test) => {
    const blog = await startBlog("--scale", SMALLEST);
    const page = await person(test, { blog });
    await signUp(page, freshName("Wanda"));
    await page.goto("/v3/write");
    await page.getByLabel("Title").fill("A title that stays");
    await page.getByLabel("Text", { exact: true }).fill("Words that stay.");
    await blog.kill();
    await page.getByRole("button", { name: "Publish" }).click();
    await page.getByText("The blog does not answer.").waitFor();
    assert.equal(await page.getByLabel("Title").inputValue(), "A title that stays");
    assert.equal(await page.getByLabel("Text", { exact: true }).inputValue(), "Words that stay.");
  });
});
