/** A person signs up, writes, comments, likes, renames, edits and deletes; with scripts, without, by keyboard alone. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { AT_ONCE, commentOn, freshName, idOf, later, person, postsOf, signUp, writePost } from "../world.js";

const MODELS = ["v1", "v2", "v3"];

for (const javaScript of [true, false]) {
  describe(`a person's blog ${javaScript ? "with" : "without"} scripts`, AT_ONCE, () => {
    it("goes from signing up to deleting a post", async (test) => {
      const page = await person(test, { javaScript });
      const name = freshName("Maria");
      await signUp(page, name);
      const path = await writePost(page, "v3", `First post of ${name}`, "Some **strong** words.");
      assert.equal(await page.locator(".markdown strong").textContent(), "strong");

      await commentOn(page, "A first comment");
      await page.getByRole("heading", { name: "1 comment", exact: true }).waitFor();
      await page.getByRole("button", { name: "Like", exact: true }).click();
      await page.locator("#like[aria-pressed='true']").waitFor();
      await page.goto(`${path}/likes`);
      await page.getByRole("main").getByRole("link", { name }).waitFor();

      await page.goto(`${path}/edit`);
      await page.getByLabel("Title").fill(`Better title of ${name}`);
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("heading", { level: 1, name: `Better title of ${name}` }).waitFor();

      await page.getByRole("link", { name: "Delete" }).click();
      await page.getByRole("button", { name: "Delete post" }).click();
      await page.waitForURL((url) => !url.pathname.includes("/posts/"));
      const answer = await page.goto(path);
      assert.ok([404, 410].includes(answer.status()), `a deleted post is answered with ${answer.status()}`);
    });

    it("shows a new name everywhere, in each model", async (test) => {
      const page = await person(test, { javaScript });
      const old = freshName("Olga");
      await signUp(page, old);
      const path = await writePost(page, "v2", `A post under the name ${old}`, "Words.");
      await commentOn(page, "A comment under the old name");
      await page.getByRole("button", { name: "Like", exact: true }).click();
      await page.locator("#like[aria-pressed='true']").waitFor();
      const user = new URL(await page.locator(".post-head a.author").getAttribute("href"), page.url()).pathname;

      const name = freshName("Nina");
      await page.goto("/profile");
      await page.getByLabel("Name", { exact: true }).fill(name);
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("banner").getByText(name).waitFor();

      const shows = (selector) => async (page) => {
        const found = await page.locator(selector).allTextContents();
        return found.some((text) => text.includes(name)) && !found.some((text) => text.includes(old));
      };
      for (const model of MODELS) {
        const post = `/${model}/posts/${idOf(path)}`;
        await later(page, post, "the author's new name", shows(".post-head .author"));
        await later(page, post, "the commenter's new name", shows(".comment .meta"));
        await later(page, `${post}/likes`, "the liker's new name", shows(".people li"));
        await later(page, `/${model}/users/${idOf(user)}`, "the user's new name", shows("h1"));
        await later(page, `/${model}`, "the new name on the front page", async (page) => {
          const own = (await postsOf(page)).find((item) => item.path.endsWith(idOf(path)));
          return own !== undefined && own.author.includes(name);
        });
      }
    });
  });
}

/** Presses Tab until the focus is on the element with this role and name. */
async function tabTo(page, role, name) {
  const target = page.getByRole(role, { name, exact: true }).first();
  for (let presses = 0; presses < 400; presses += 1) {
    await page.keyboard.press("Tab");
    if (await target.evaluate((element) => element === document.activeElement)) return;
  }
  assert.fail(`Tab does not reach ${role} "${name}"`);
}

describe("the keyboard alone", AT_ONCE, () => {
  it("reaches and does everything", async (test) => {
    const page = await person(test);
    const name = freshName("Karin");
    await page.goto("/signup");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
    await page.keyboard.press("Enter");
    await tabTo(page, "textbox", "Name");
    await page.keyboard.type(name);
    await page.keyboard.press("Tab");
    await page.keyboard.type("a password of some length");
    await page.keyboard.press("Enter");
    await page.getByRole("banner").getByText(name).waitFor();

    await tabTo(page, "link", "Write");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Write a post" }).waitFor();
    await tabTo(page, "textbox", "Title");
    await page.keyboard.type(`By keyboard, ${name}`);
    await tabTo(page, "textbox", "Text");
    await page.keyboard.type("No mouse.");
    await tabTo(page, "button", "Publish");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: `By keyboard, ${name}` }).waitFor();

    await tabTo(page, "button", "Like");
    await page.keyboard.press("Space");
    await page.locator("#like[aria-pressed='true']").waitFor();
    await tabTo(page, "textbox", "Your comment");
    await page.keyboard.type("Nor here.");
    await tabTo(page, "button", "Comment");
    await page.keyboard.press("Enter");
    await page.locator(".comment", { hasText: "Nor here." }).waitFor();

    await page.goto("/v3");
    await page.locator("#meter > summary").focus();
    await page.keyboard.press("Enter");
    await page.locator("#meter[open]").waitFor();
  });

  it("shows where the focus is", async (test) => {
    const page = await person(test);
    await page.goto("/signin");
    for (let presses = 0; presses < 8; presses += 1) {
      await page.keyboard.press("Tab");
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.notEqual(outline, "none");
    }
  });
});

describe("scripts", AT_ONCE, () => {
  it("keep the theme that a person chose", async (test) => {
    const page = await person(test);
    await page.goto("/signin");
    await page.getByRole("button", { name: /^Theme/ }).click();
    await page.getByRole("button", { name: /^Theme: light/ }).click();
    assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
    await page.reload();
    assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
  });

  it("keep the meter open on the next page", async (test) => {
    const page = await person(test);
    await page.goto("/v3");
    await page.locator("#meter > summary").click();
    await page.goto("/v2");
    await page.locator("#meter[open]").waitFor();
  });

  it("show the preview that the server renders", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Paula"));
    await page.goto("/v3/write");
    await page.getByLabel("Text", { exact: true }).fill("Some *slanted* words");
    await page.locator("#preview em", { hasText: "slanted" }).waitFor();
  });

  it("bring typed text back after a reload, and forget it when it is saved", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Dora"));
    await page.goto("/v3/write");
    await page.getByLabel("Title").fill("A title that was not saved");
    await page.reload();
    assert.equal(await page.getByLabel("Title").inputValue(), "A title that was not saved");
    await page.getByLabel("Text", { exact: true }).fill("Words.");
    await page.getByRole("button", { name: "Publish" }).click();
    await page.getByRole("heading", { level: 1, name: "A title that was not saved" }).waitFor();
    await page.goto("/v3/write");
    assert.equal(await page.getByLabel("Title").inputValue(), "");
  });
});
