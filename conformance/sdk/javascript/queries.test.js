/** Queries that the client merges by a plan of the server, and its own continuations. */

import assert from "node:assert/strict";
import { before, describe, test } from "node:test";

import { fill, overBothSchemes, PLENTY_RU, TWO_PARTITIONS_RU } from "./orrery.js";

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

async function ask(container, query, options = {}) {
  return (await container.items.query(query, options).fetchAll()).resources;
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
          assert.deepEqual(await ask(target(), text, { forceQueryPlan: true }), expected);
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
});
