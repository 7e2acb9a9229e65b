/** What a reader sees: excerpts, dates, faces, and pages of every list; with and without scripts, in all models. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { AT_ONCE, freshName, later, person, postsOf, signUp, writePost } from "../world.js";

const MODELS = ["v1", "v2", "v3"];
const DAY_MS = 86_400_000;

/** Follows the links to older posts from `path` on, and returns the posts of each page. */
async function pagesFrom(page, path) {
  const pages = [];
  await page.goto(path);
  for (;;) {
    pages.push(await postsOf(page));
    const next = page.locator(".pager a[rel='next']");
    if ((await next.count()) === 0) return pages;
    assert.ok(pages.length < 20, "the pages have an end");
    await page.goto(await next.getAttribute("href"));
  }
}

describe("a list of posts", AT_ONCE, () => {
  for (const javaScript of [true, false]) {
    it(`leads to the oldest post, ${javaScript ? "with" : "without"} scripts`, async (test) => {
      const page = await person(test, { javaScript });
      const seen = [];
      for (const model of MODELS) {
        const pages = await pagesFrom(page, `/${model}`);
        assert.ok(pages.length >= 3, `${pages.length} pages of ${model}`);
        assert.ok(pages.slice(0, -1).every((posts) => posts.length === 100));
        const posts = pages.flat();
        const paths = posts.map((post) => post.path);
        assert.equal(new Set(paths).size, paths.length, "no post comes twice");
        const dates = posts.map((post) => post.created);
        assert.deepEqual(dates, [...dates].sort().reverse());
        // Other tests write posts meanwhile, which stand at the beginning.
        seen.push(paths.slice(-50));
        await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Newest posts" }).click();
        await page.waitForURL((url) => url.pathname === `/${model}` && url.search === "");
      }
      assert.deepEqual(seen[1], seen[0], "each model ends with the same posts");
      assert.deepEqual(seen[2], seen[0]);
    });
  }

  it("says in V3 where the feed ends and what older posts cost", async (test) => {
    const page = await person(test);
    await page.goto("/v3");
    const words = await page.locator("#end-of-feed").innerText();
    assert.match(words, /100 newest posts/);
    const [, partitions, least] = /asks all (\d+) partitions, for at least ([\d,]+) RU/.exec(words);
    await page.getByRole("link", { name: "Older posts" }).click();
    await page.getByRole("heading", { level: 1, name: "Older posts" }).waitFor();
    const row = page.locator("#meter .requests tbody[data-ru]").first();
    assert.equal(await row.getAttribute("data-count"), partitions);
    assert.ok(Number((await page.locator("#meter").getAttribute("data-ru")) ?? 0) >= Number(least.replace(",", "")));
  });

  it("has excerpts of at most two lines without signs of Markdown", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Rita"));
    const title = freshName("Signs");
    await writePost(page, "v3", title, `## Heading\n\n- **strong** [link](/v3)\n\n${"Words without an end. ".repeat(30)}`);
    for (const model of MODELS) {
      await later(page, `/${model}`, "the new post", async (page) =>
        (await postsOf(page)).some((post) => post.title === title),
      );
      const own = (await postsOf(page)).find((post) => post.title === title);
      assert.match(own.short, /^Heading strong link Words without .*…$/);
      for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 800 });
        const lines = await page.locator(".posts .short").evaluateAll((found) =>
          found.map((text) => text.clientHeight / parseFloat(getComputedStyle(text).lineHeight)),
        );
        assert.ok(lines.every((count) => count < 2.2), `${Math.max(...lines)} lines at ${width} px`);
      }
      for (const { short } of await postsOf(page)) assert.doesNotMatch(short, /\*\*|^#|\]\(|^- /);
    }
  });

  it("has dates of the last months, the newest of today", async (test) => {
    const page = await person(test);
    const dates = (await pagesFrom(page, "/v2")).flat().map((post) => Date.now() - Date.parse(post.created));
    assert.ok(Math.max(...dates) < 125 * DAY_MS, `the oldest is ${Math.max(...dates) / DAY_MS} days old`);
    assert.ok(Math.min(...dates) < DAY_MS);
    assert.ok(Math.min(...dates) >= 0, "no post is of the future");
  });
});

describe("pages that do not exist", AT_ONCE, () => {
  it("are refused with what to do: forged positions, and those of other lists", async (test) => {
    const page = await person(test);
    await page.goto("/v3");
    const position = new URL(await page.locator(".pager a[rel='next']").getAttribute("href"), page.url()).searchParams.get("after");
    const user = await page.locator("#posts .author").first().getAttribute("href");
    const post = await page.locator("#posts h2 a").first().getAttribute("href");
    for (const path of ["/v1?after=forged", "/v2?after=", `${user}?after=${position}`, `${post}?after=${position}`, `${post}/likes?after=${position}`]) {
      const answer = await page.goto(path);
      assert.equal(answer.status(), 400, path);
      await page.getByRole("heading", { level: 1, name: "There is no such page of the list" }).waitFor();
    }
  });
});

describe("a face", AT_ONCE, () => {
  it("is the same for one author on every page and in every model, and another for others", async (test) => {
    const page = await person(test);
    await page.goto("/v3");
    const faces = await page.locator("#posts .author").evaluateAll((links) =>
      links.map((link) => [link.pathname, link.querySelector("svg.face").outerHTML]),
    );
    const byUser = new Map(faces);
    for (const [user, face] of faces) assert.equal(face, byUser.get(user));
    assert.ok(new Set(byUser.values()).size > 1);
    const [[user, face]] = byUser;
    for (const model of MODELS) {
      await page.goto(user.replace("/v3", `/${model}`));
      assert.equal(await page.locator(".user-head svg.face").evaluate((svg) => svg.outerHTML), face);
    }
    assert.equal(await page.locator(".user-head .avatar").evaluate((avatar) => avatar.clientWidth), 96);
  });

  it("has lines that stand out from the head in light and dark", async (test) => {
    for (const colorScheme of ["light", "dark"]) {
      const page = await person(test, { colorScheme });
      await page.goto("/v3");
      const contrasts = await page.locator("#posts svg.face").evaluateAll((faces) => {
        const luminance = (colour) => {
          const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => Number(part) / 255);
          const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        return faces.map((face) => {
          const head = luminance(getComputedStyle(face.querySelector("circle")).fill);
          const lines = luminance(getComputedStyle(face.querySelector(".lines")).stroke);
          return (Math.max(head, lines) + 0.05) / (Math.min(head, lines) + 0.05);
        });
      });
      assert.ok(Math.min(...contrasts) >= 4.5, `${Math.min(...contrasts)} in ${colorScheme}`);
    }
  });
});

describe("names and titles", AT_ONCE, () => {
  it("are shown in their own direction", async (test) => {
    const page = await person(test);
    await signUp(page, freshName("Layla"));
    const title = `${freshName("خبز")} 🍞`;
    await writePost(page, "v3", title, "الخبز في الصباح.");
    const direction = (selector) => page.locator(selector).first().evaluate((part) => getComputedStyle(part).direction);
    assert.equal(await direction("h1"), "rtl");
    assert.equal(await direction(".markdown"), "rtl");

    // Names of the filled blog are in scripts that a form does not accept.
    const posts = (await pagesFrom(page, "/v2")).flat();
    const hebrew = posts.find((post) => /\p{Script=Hebrew}|\p{Script=Arabic}/u.test(post.author));
    const emoji = posts.find((post) => /\p{Extended_Pictographic}/u.test(post.author));
    assert.ok(hebrew && emoji, "an author with letters from right to left, and one with an emoji");
    for (const post of [hebrew, emoji]) {
      await page.goto(`/v3${post.path}`);
      assert.equal(await page.locator(".post-head .author bdi").textContent(), post.author);
      await page.locator(".post-head .author").click();
      await page.waitForURL((url) => url.pathname.includes("/users/"));
      assert.equal(await page.locator("h1").textContent(), post.author);
      assert.equal(await direction("h1"), post === hebrew ? "rtl" : "ltr");
    }
  });

  it("of the filled blog are in several scripts", async (test) => {
    const page = await person(test);
    const names = new Set((await pagesFrom(page, "/v2")).flat().map((post) => post.author));
    const scripts = [/\p{Script=Latin}/u, /\P{Script=Latin}/u].filter((script) =>
      [...names].some((name) => script.test(name.replace(/[\s\d]/g, ""))),
    );
    assert.equal(scripts.length, 2, [...names].join(", "));
  });
});
