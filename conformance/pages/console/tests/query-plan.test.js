/**
 * The plan of a query as a picture, and index advice that is measured, applied and undone.
 */

import assert from "node:assert/strict";
import { before, test } from "node:test";

import { chargeOf, ended, openWorkbench, run, view, wideContainer } from "../query.js";
import { assertAccessible, freshName, owner, person } from "../world.js";

const DATABASE = freshName("plan");

before(async () => {
  const admin = await owner();
  await admin.database(DATABASE);
  const items = [];
  for (let number = 0; number < 600; number += 1) {
    items.push({ id: String(number), pk: `k${number % 30}`, number, code: `code ${number}`, rest: "x".repeat(300) });
  }
  const indexingPolicy = { includedPaths: [{ path: "/*" }], excludedPaths: [{ path: "/code/?" }] };
  await wideContainer(admin, DATABASE, "wide", items, { indexingPolicy });
});

/** The partitions of the picture as the list of their texts. */
async function partitions(page) {
  return page.getByRole("list", { name: "Physical partitions" }).getByRole("listitem").allInnerTexts();
}

test("the plan has a row for each physical partition, and adds up to the charge", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, "wide", "SELECT * FROM c WHERE c.number < 20");
  await run(page);
  await page.getByText("4 of 4 physical partitions asked").waitFor();
  const rows = await partitions(page);
  assert.equal(rows.length, 4);
  for (const row of rows) assert.match(row, /Index: \/number[\s\S]*Candidates[\s\S]*Loaded[\s\S]*RU/);
  const sum = rows.reduce((all, row) => all + Number(/([\d.]+) RU/.exec(row)[1]), 0);
  assert.ok(Math.abs(sum - (await chargeOf(page))) < 0.05, `${sum} and ${await chargeOf(page)}`);
  await page.getByRole("button", { name: "As a table" }).click();
  const table = page.getByRole("region", { name: "Plan" }).getByRole("row");
  assert.equal(await table.count(), 5, "a heading and four partitions");
  await assertAccessible(page, "the plan as a table");
});

test("partitions that the condition excludes are drawn as not asked, and one partition as a dot", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, "wide", "SELECT * FROM c WHERE c.pk = 'k7'");
  await run(page);
  await page.getByText("1 of 4 physical partitions asked").waitFor();
  await page.getByRole("img", { name: /alone was asked/ }).waitFor();
  const rows = await partitions(page);
  assert.equal(rows.filter((row) => row.includes("Not asked")).length, 3);
  assert.equal(rows.filter((row) => row.includes("logical partition of the key")).length, 1);
  await page.getByText("The cost of this query").waitFor();
});

test("the reasons name the scan and its share of the charge", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, "wide", "SELECT * FROM c WHERE c.code = 'code 7'");
  await run(page);
  await page.getByText("Why is this query expensive?").waitFor();
  await page.getByText(/reads every item: 600 items for 1 row\. That is \d+ % of the charge/).waitFor();
});

test("advice is measured before it is applied, applied, seen in the charge, and undone", async (t) => {
  const page = await person(t);
  await openWorkbench(page, DATABASE, "wide", "SELECT * FROM c WHERE c.code = 'code 7'");
  await run(page);
  const before = await chargeOf(page);
  await view(page, /Index advice/);
  await page.getByRole("checkbox", { name: /\/code\/\?/ }).waitFor();
  const diff = page.getByLabel("Change of the indexing policy");
  assert.match(await diff.innerText(), /\+ .*"\/code\/\?"|− .*"\/code\/\?"/);
  await page.getByRole("button", { name: "Measure before applying" }).click();
  const sides = page.locator(".query-side");
  await sides.nth(1).waitFor();
  const [now, proposed] = await sides.evaluateAll((bars) => bars.map((bar) => Number(bar.dataset.ru)));
  assert.ok(Math.abs(now - before) < 0.5, `measured ${now}, charged ${before}`);
  assert.ok(proposed < now, `${proposed} is less than ${now}`);
  await assertAccessible(page, "the advice");

  await page.getByRole("button", { name: "Apply to the container" }).click();
  await page.getByText("The index is complete.").waitFor();
  await page.getByRole("button", { name: "Run again" }).click();
  await ended(page);
  await page.getByText("Index: /code").first().waitFor();
  const after = await chargeOf(page);
  assert.ok(Math.abs(after - proposed) < 0.5, `predicted ${proposed}, charged ${after}`);

  await view(page, /Index advice/);
  await page.getByRole("button", { name: "Undo the change" }).click();
  await page.getByText("The indexing policy is the one before.").waitFor();
  const admin = await owner();
  const { body } = await admin.data("GET", `/dbs/${DATABASE}/colls/wide`);
  assert.ok(JSON.stringify(body.indexingPolicy.excludedPaths).includes("/code/?"));
});
