/**
 * The walk through `docs/tutorial.md`: a new user finds the most expensive query of a prepared database and makes the query ten
 * times cheaper. Each step is the step of the document; with `ORRERY_PICTURES` naming a directory, the test writes the
 * document's pictures into it.
 */

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { test } from "node:test";

import { chargeOf, ended } from "../query.js";
import { assertAccessible, person } from "../world.js";

/** Bound on loading 6,000 items on a busy machine. */
const LOAD_MS_MAX = 240_000;

async function picture(page, name) {
  const directory = process.env.ORRERY_PICTURES;
  if (!directory) return;
  await mkdir(directory, { recursive: true });
  await page.screenshot({ path: `${directory}/console-${name}.png` });
}

test("a new user makes the most expensive query of the tutorial's database ten times cheaper", async (t) => {
  const page = await person(t, { height: 900 });

  // 1. Load the database, found by the palette.
  await page.getByRole("navigation", { name: "Console" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("tutorial");
  await page.getByRole("option", { name: /Open the tutorial/ }).click();
  await page.getByRole("button", { name: "Load the database" }).click();
  await page.getByText("The database is loaded.").waitFor({ timeout: LOAD_MS_MAX });
  await assertAccessible(page, "the tutorial");
  await picture(page, "tutorial");

  // 2. Find the most expensive query: the first form of the list.
  await page.getByRole("link", { name: "Open the queries" }).click();
  const forms = page.getByRole("grid", { name: "Query forms" });
  await forms.getByRole("row").nth(1).click();
  await page.getByRole("heading", { name: "Query form" }).waitFor();
  await picture(page, "queries");
  await page.getByRole("link", { name: "Open in the workbench" }).click();

  // 3. Read why.
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await ended(page);
  await page.getByText("No index serves the condition, so the query reads every item").waitFor();
  const before = await chargeOf(page);
  await picture(page, "why");

  // 4. Measure, apply, run again.
  await page.getByRole("tab", { name: /Index advice/ }).click();
  await page.getByRole("button", { name: "Measure before applying" }).click();
  const sides = page.locator(".query-side");
  await sides.nth(1).waitFor();
  const [now, proposed] = await sides.evaluateAll((bars) => bars.map((bar) => Number(bar.dataset.ru)));
  await page.getByText(/times cheaper with the index/).scrollIntoViewIfNeeded();
  await picture(page, "measured");
  await page.getByRole("button", { name: "Apply to the container" }).click();
  await page.getByText("The index is complete.").waitFor();
  await page.getByRole("button", { name: "Run again" }).click();
  await ended(page);
  await page.getByText("Index: /tracking/code").first().waitFor();
  const after = await chargeOf(page);
  await page.getByRole("heading", { name: "Plan" }).scrollIntoViewIfNeeded();
  await picture(page, "cheaper");

  assert.ok(before >= 10 * after, `${before} RU became ${after} RU`);
  assert.ok(Math.abs(now - before) < 0.5 && Math.abs(proposed - after) < 0.5, "the measured charges are those of the runs");
});
