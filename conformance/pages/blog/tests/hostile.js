/** Bad input and bad intent: scripts in texts, forged fields, other people's posts, forms sent twice. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { AT_ONCE, commentOn, freshName, idOf, person, signUp, writePost } from "../world.js";

/** The hidden fields of the form with this action on the page at `path`. */
async function hiddenFields(page, path, action) {
  await page.goto(path);
  return page.locator(`form[action="${action}"] input[type="hidden"]`).evaluateAll((inputs) =>
    Object.fromEntries(inputs.map((input) => [input.name, input.value])),
  );
}

/** Sends a form as a browser without scripts would, from the blog's own origin. */
function post(page, path, form, headers = {}) {
  const origin = new URL(page.url()).origin;
  return page.request.post(path, { form, headers: { origin, ...headers }, maxRedirects: 0 });
}

describe("texts", AT_ONCE, () => {
  it("run no script and load nothing from elsewhere", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Mallory"));
    const asked = [];
    page.on("request", (request) => asked.push(request.url()));
    const attack = [
      "<script>window.hacked = 1</script>",
      '<img src="x" onerror="window.hacked = 2">',
      "[a link](javascript:window.hacked=3)",
      "![a picture](https://pictures.invalid/x.png)",
      '<svg onload="window.hacked = 4"></svg>',
      "<iframe srcdoc='<script>parent.hacked=5</script>'></iframe>",
      "<style>body { display: none }</style>",
      "Words that stay.",
    ].join("\n\n");
    const title = `<b>bold</b> ${freshName("title")}`;
    await writePost(page, "v3", title, attack);
    await commentOn(page, "<script>window.hacked = 6</script> comment");

    assert.equal(await page.evaluate(() => window.hacked), undefined);
    const body = page.locator(".markdown");
    assert.equal(await body.locator("script, iframe, style, object, embed, form, input").count(), 0);
    const handlers = await body.evaluate((element) =>
      [...element.querySelectorAll("*")].flatMap((part) => part.getAttributeNames().filter((name) => /^on|^style$/.test(name))),
    );
    assert.deepEqual(handlers, []);
    const links = await body.locator("a[href]").evaluateAll((found) => found.map((link) => link.protocol));
    assert.ok(links.every((protocol) => /^(https?|mailto):$/.test(protocol)), `${links}`);
    await body.getByText("Words that stay.").waitFor();
    assert.equal(await page.locator("h1").textContent(), title);
    const origin = new URL(page.url()).origin;
    assert.deepEqual(asked.filter((url) => new URL(url).origin !== origin), []);
  });

  it("that are empty are refused beside their field, and the rest stays typed", async (test) => {
    for (const javaScript of [true, false]) {
      const page = await person(test, { javaScript });
      await signUp(page, freshName("Emma"));
      await page.goto("/v3/write");
      // Spaces satisfy the browser's own check of a required field.
      await page.getByLabel("Title").fill("   ");
      await page.getByLabel("Text", { exact: true }).fill("Words that stay.");
      await page.getByRole("button", { name: "Publish" }).click();
      await page.locator("#title[aria-invalid='true']").waitFor();
      assert.match(await page.locator("#title-error").innerText(), /title/i);
      assert.equal(await page.getByLabel("Text", { exact: true }).inputValue(), "Words that stay.");
    }
  });

  it("that are huge are refused with what to do", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Hugo"));
    const hidden = await hiddenFields(page, "/v3/write", "/v3/write");
    for (const form of [
      { title: "x".repeat(100_000), content: "Words." },
      { title: freshName("Huge"), content: "x".repeat(3_000_000) },
    ]) {
      const answer = await post(page, "/v3/write", { ...hidden, intent: "publish", ...form });
      assert.ok([413, 422].includes(answer.status()), `answered with ${answer.status()}`);
    }
  });
});

describe("forged requests", AT_ONCE, () => {
  it("without the form's token are refused, and change nothing", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Carla"));
    const path = await writePost(page, "v3", freshName("Guarded"), "Words.");
    const hidden = await hiddenFields(page, path, `${path}/comments`);
    for (const form of [{}, { ...hidden, csrf: "forged" }, { ...hidden, csrf: "" }]) {
      const answer = await post(page, `${path}/comments`, { ...form, content: "A forged comment" });
      assert.equal(answer.status(), 403);
    }
    await page.goto(path);
    assert.equal(await page.locator(".comment").count(), 0);
  });

  it("from another site are refused even with the token", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Cleo"));
    const path = await writePost(page, "v3", freshName("Guarded"), "Words.");
    const hidden = await hiddenFields(page, path, `${path}/comments`);
    const headers = { origin: "https://elsewhere.invalid", "sec-fetch-site": "cross-site" };
    const answer = await post(page, `${path}/comments`, { ...hidden, content: "A forged comment" }, headers);
    assert.equal(answer.status(), 403);
    await page.goto(path);
    assert.equal(await page.locator(".comment").count(), 0);
  });

  it("with another user's id are done as the person who is signed in", async (test) => {
    const page = await person(test);
    const name = freshName("Franz");
    await page.goto("/v3");
    const victim = idOf(await page.locator("#posts .author").first().getAttribute("href"));
    await signUp(page, name);
    const path = await writePost(page, "v3", freshName("Own"), "Words.");
    const hidden = await hiddenFields(page, path, `${path}/comments`);
    const forged = { userId: victim, user_id: victim, username: "another user", id: "chosen" };
    await post(page, `${path}/comments`, { ...hidden, ...forged, content: "A comment" });
    await page.goto(path);
    assert.match(await page.locator(".comment .meta").innerText(), new RegExp(name));
  });

  it("for a post of another user are refused", async (test) => {
    const author = await person(test);
    await signUp(author, freshName("Anna"));
    const path = await writePost(author, "v3", freshName("Mine"), "Words.");
    const page = await person(test);
    await signUp(page, freshName("Boris"));
    for (const [end, form] of [
      ["edit", { title: "Taken", content: "Over." }],
      ["delete", {}],
    ]) {
      const hidden = await hiddenFields(page, "/v3/write", "/v3/write");
      const shown = await page.request.get(`${path}/${end}`);
      assert.equal(shown.status(), 403, end);
      const answer = await post(page, `${path}/${end}`, { ...hidden, intent: "publish", ...form });
      assert.equal(answer.status(), 403, end);
    }
    const answer = await author.goto(path);
    assert.equal(answer.status(), 200);
    assert.equal(await author.locator(".markdown").innerText(), "Words.");
  });

  it("by a person who is not signed in lead to signing in", async (test) => {
    const page = await person(test);
    await page.goto("/v3/write");
    await page.waitForURL((url) => url.pathname === "/signin");
  });
});

describe("a form that is sent twice", AT_ONCE, () => {
  it("makes one comment, whether at once or one after the other", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Doris"));
    const path = await writePost(page, "v3", freshName("Twice"), "Words.");
    const hidden = await hiddenFields(page, path, `${path}/comments`);
    const send = () => post(page, `${path}/comments`, { ...hidden, content: "Said once" });
    const answers = await Promise.all([send(), send(), send()]);
    answers.push(await send());
    assert.deepEqual(answers.map((answer) => answer.status()), [303, 303, 303, 303]);
    for (const model of ["v1", "v2", "v3"]) {
      await page.goto(`/${model}/posts/${idOf(path)}`);
      assert.equal(await page.locator(".comment").count(), 1, model);
      await page.getByRole("heading", { name: "1 comment", exact: true }).waitFor();
    }
  });

  it("makes one like", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Lisa"));
    const path = await writePost(page, "v3", freshName("Liked"), "Words.");
    const hidden = await hiddenFields(page, path, `${path}/likes`);
    await Promise.all([1, 2, 3].map(() => post(page, `${path}/likes`, hidden)));
    await page.goto(`${path}/likes`);
    assert.equal(await page.locator(".people > li").count(), 1);
  });
});

describe("a post that was deleted meanwhile", AT_ONCE, () => {
  it("says so to a person who comments", async (test) => {
    const author = await person(test);
    await signUp(author, freshName("Ada"));
    const path = await writePost(author, "v3", freshName("Short life"), "Words.");
    const page = await person(test);
    await signUp(page, freshName("Bert"));
    await page.goto(path);
    await page.getByLabel("Your comment").fill("A comment that comes too late");

    await author.goto(`${path}/delete`);
    await author.getByRole("button", { name: "Delete post" }).click();
    await author.waitForURL((url) => !url.pathname.includes("/posts/"));

    await page.getByRole("button", { name: "Comment", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "The post was deleted" }).waitFor();
  });
});
