/** Queries: one partition and many, parameters, aggregates, order, paging, joins, and refusals. */

import assert from "node:assert/strict";
import { before, describe, test } from "node:test";

import { fill, overBothSchemes, PLENTY_RU, refused, TWO_PARTITIONS_RU } from "./orrery.js";

// Twelve people in three cities; ages 20, 21, … 31.
const CITIES = ["Oslo", "Riga", "Rome"];
const PEOPLE = Array.from({ length: 12 }, (_, n) => ({
  id: `${n}`.padStart(2, "0"),
  pk: CITIES[n % 3],
  age: 20 + n,
  team: n % 2 ? "red" : "blue",
  tags: [`t${n % 4}`, "all"],
  name: { first: `Name${n}` },
}));

async function ask(container, query, parameters = {}, options = {}) {
  const values = Object.entries(parameters).map(([name, value]) => ({ name, value }));
  return (await container.items.query({ query, parameters: values }, options).fetchAll()).resources;
}

overBothSchemes("queries", (world) => {
  let people;
  // The same twelve items, each with a partition key of its own, in two physical partitions.
  let scattered;
  before(async () => {
    people = await world.container(PLENTY_RU);
    await fill(people, PEOPLE);
    scattered = await world.container(TWO_PARTITIONS_RU);
    await fill(scattered, PEOPLE.map((person) => ({ ...person, pk: person.id })));
  });

  for (const where of ["one physical partition", "two physical partitions"]) {
    describe(`on ${where}`, () => {
      const target = () => (where === "one physical partition" ? people : scattered);

      test("a query sees every item", async () => {
        assert.equal((await ask(target(), "SELECT * FROM c")).length, 12);
      });

      test("filters compare and combine", async () => {
        const text = "SELECT VALUE c.id FROM c WHERE c.age >= 25 AND (c.team = 'red' OR c.age IN (28)) AND NOT (c.age > 30)";
        assert.deepEqual((await ask(target(), text)).sort(), ["05", "07", "08", "09"]);
      });

      test("parameters of each type are bound", async () => {
        const text = "SELECT VALUE c.id FROM c WHERE c.age > @age AND c.team = @team AND ARRAY_CONTAINS(@ids, c.id)";
        const found = await ask(target(), text, { "@age": 22, "@team": "blue", "@ids": ["02", "04", "06", "07"] });
        assert.deepEqual(found.sort(), ["04", "06"]);
      });

      test("ORDER BY sorts up and down, in pages too", async () => {
        const ages = PEOPLE.map((p) => p.age);
        assert.deepEqual(await ask(target(), "SELECT VALUE c.age FROM c ORDER BY c.age"), ages);
        const down = "SELECT VALUE c.age FROM c ORDER BY c.age DESC";
        assert.deepEqual(await ask(target(), down), ages.toReversed());
        assert.deepEqual(await ask(target(), down, {}, { maxItemCount: 5 }), ages.toReversed());
      });

      test("TOP and OFFSET LIMIT cut a window", async () => {
        assert.deepEqual(await ask(target(), "SELECT TOP 3 VALUE c.age FROM c ORDER BY c.age DESC"), [31, 30, 29]);
        assert.deepEqual(await ask(target(), "SELECT VALUE c.age FROM c ORDER BY c.age OFFSET 4 LIMIT 3"), [24, 25, 26]);
      });

      const aggregates = { "COUNT(1)": 12, "SUM(c.age)": 306, "MIN(c.age)": 20, "MAX(c.age)": 31, "AVG(c.age)": 25.5 };
      for (const [aggregate, expected] of Object.entries(aggregates)) {
        test(`${aggregate} counts every item once`, async () => {
          assert.deepEqual(await ask(target(), `SELECT VALUE ${aggregate} FROM c`), [expected]);
        });
      }

      test("DISTINCT leaves one of each", async () => {
        assert.deepEqual((await ask(target(), "SELECT DISTINCT VALUE c.team FROM c")).sort(), ["blue", "red"]);
      });

      test("GROUP BY gathers across partitions", async () => {
        const rows = await ask(target(), "SELECT c.team, COUNT(1) AS n, SUM(c.age) AS ages FROM c GROUP BY c.team");
        assert.deepEqual(rows.sort((a, b) => (a.team < b.team ? -1 : 1)), [
          { team: "blue", n: 6, ages: 150 },
          { team: "red", n: 6, ages: 156 },
        ]);
      });

      test("JOIN unfolds the arrays of an item", async () => {
        const rows = await ask(target(), "SELECT c.id, t AS tag FROM c JOIN t IN c.tags WHERE c.age < 22");
        assert.deepEqual(rows.map((r) => `${r.id} ${r.tag}`).sort(), ["00 all", "00 t0", "01 all", "01 t1"]);
      });

      // The same queries merged by the SDK, which asks for a plan and for one answer from each range.
      const planned = {
        "ORDER BY": ["SELECT c.id, c.age FROM c ORDER BY c.age DESC", PEOPLE.map((p) => ({ id: p.id, age: p.age })).toReversed()],
        "TOP": ["SELECT TOP 3 VALUE c.age FROM c ORDER BY c.age", [20, 21, 22]],
        "OFFSET LIMIT": ["SELECT VALUE c.age FROM c ORDER BY c.age OFFSET 4 LIMIT 3", [24, 25, 26]],
        "COUNT": ["SELECT VALUE COUNT(1) FROM c", [12]],
        "AVG": ["SELECT VALUE AVG(c.age) FROM c", [25.5]],
        "MAX": ["SELECT VALUE MAX(c.age) FROM c", [31]],
      };
      for (const [name, [text, expected]] of Object.entries(planned)) {
        test(`${name} by the client's own query plan gives the same`, async () => {
          assert.deepEqual(await ask(target(), text, {}, { forceQueryPlan: true }), expected);
        });
      }

      const ordered = {
        "everything": ["SELECT VALUE c.age FROM c ORDER BY c.age", () => true],
        "what is looked up": ["SELECT VALUE c.age FROM c WHERE c.team = 'red' ORDER BY c.age", (p) => p.team === "red"],
      };
      for (const [what, [text, wanted]] of Object.entries(ordered)) {
        test(`the client's own continuation of ORDER BY over ${what} goes on in another iterator`, async () => {
          const found = [];
          let continuationToken;
          let rounds = 0;
          do {
            const options = { enableQueryControl: true, forceQueryPlan: true, maxItemCount: 2, continuationToken };
            const page = await target().items.query(text, options).fetchNext();
            found.push(...(page.resources ?? []));
            continuationToken = page.continuationToken;
            rounds += 1;
            assert.ok(rounds <= 40, "the continuation never ends");
          } while (continuationToken);
          assert.deepEqual(found, PEOPLE.filter(wanted).map((p) => p.age));
        });
      }
    });
  }

  test("a query in one partition sees only that partition", async () => {
    const found = await ask(people, "SELECT VALUE c.id FROM c", {}, { partitionKey: "Riga" });
    assert.deepEqual(found.sort(), ["01", "04", "07", "10"]);
    const text = "SELECT COUNT(1) AS n, AVG(c.age) AS mean FROM c";
    assert.deepEqual(await ask(people, text, {}, { partitionKey: "Oslo" }), [{ n: 4, mean: 24.5 }]);
    const groups = await ask(people, "SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team", {}, { partitionKey: "Rome" });
    assert.deepEqual(groups.sort((a, b) => (a.team < b.team ? -1 : 1)), [{ team: "blue", n: 2 }, { team: "red", n: 2 }]);
  });

  test("a continuation resumes in another iterator", async () => {
    const options = { partitionKey: "Oslo", maxItemCount: 3 };
    const whole = await ask(people, "SELECT VALUE c.id FROM c", {}, { partitionKey: "Oslo" });
    const found = [];
    let continuationToken;
    let rounds = 0;
    do {
      const page = await people.items.query("SELECT VALUE c.id FROM c", { ...options, continuationToken }).fetchNext();
      assert.ok(page.resources.length <= 3);
      found.push(...page.resources);
      continuationToken = page.continuationToken;
      rounds += 1;
      assert.ok(rounds <= 20, "the continuation never ends");
    } while (continuationToken);
    assert.deepEqual(found, whole);
    assert.ok(rounds >= 2);
  });

  test("pages are bounded and lose nothing over all partitions", async () => {
    const found = [];
    for await (const page of scattered.items.query("SELECT VALUE c.id FROM c", { maxItemCount: 5 }).getAsyncIterator()) {
      assert.ok(page.resources.length <= 5);
      found.push(...page.resources);
    }
    assert.deepEqual(found.sort(), PEOPLE.map((p) => p.id));
  });

  test("null and missing are not the same", async () => {
    const container = await world.container();
    await fill(container, [{ id: "1", pk: "p", x: null }, { id: "2", pk: "p" }]);
    assert.deepEqual(await ask(container, "SELECT VALUE c.x FROM c", {}, { partitionKey: "p" }), [null]);
    assert.deepEqual(await ask(container, "SELECT VALUE c.id FROM c WHERE IS_NULL(c.x)", {}, { partitionKey: "p" }), ["1"]);
  });

  test("a query that does not parse is a syntax error with its code", async () => {
    const error = await refused(ask(people, "SELECT * FORM c", {}, { partitionKey: "Oslo" }), 400);
    assert.match(JSON.stringify(error.body ?? error.message), /SC1001/);
    const unknown = await refused(ask(people, "SELECT VALUE NO_SUCH(c.a) FROM c", {}, { partitionKey: "Oslo" }), 400);
    assert.match(JSON.stringify(unknown.body ?? unknown.message), /SC2005/);
  });

  test("every page says what it cost", async () => {
    const page = await people.items.query("SELECT * FROM c", { partitionKey: "Oslo" }).fetchNext();
    assert.ok(page.requestCharge > 0);
  });
});
