/** Searches by geometry, vector and text: on one partition and two, merged by the server and by the client. */

import assert from "node:assert/strict";
import { before, describe, test } from "node:test";

import { fill, overBothSchemes, PLENTY_RU, refused, TWO_PARTITIONS_RU } from "./orrery.js";

const POLICIES = {
  vectorEmbeddingPolicy: {
    vectorEmbeddings: [{ path: "/v", dataType: "float32", dimensions: 2, distanceFunction: "euclidean" }],
  },
  fullTextPolicy: { defaultLanguage: "en-US", fullTextPaths: [{ path: "/text", language: "en-US" }] },
  indexingPolicy: {
    indexingMode: "consistent",
    automatic: true,
    includedPaths: [{ path: "/*" }],
    excludedPaths: [{ path: "/v/*" }, { path: '/"_etag"/?' }],
    spatialIndexes: [{ path: "/at/*", types: ["Point", "Polygon"] }],
    vectorIndexes: [{ path: "/v", type: "flat" }],
    fullTextIndexes: [{ path: "/text" }],
  },
};

// Twelve posts along a line: those with higher numbers are farther away and contain "river" less often.
const POSTS = Array.from({ length: 12 }, (_, n) => ({
  id: `${n}`.padStart(2, "0"),
  pk: `${n}`,
  v: [n, 0],
  at: { type: "Point", coordinates: [n / 10, 50] },
  text: n < 4 ? `${"river ".repeat(4 - n)}boats and houses, number ${n}` : `The quiet harbour of post number ${n}`,
}));

async function ask(container, query, parameters = {}, options = {}) {
  const values = Object.entries(parameters).map(([name, value]) => ({ name, value }));
  return (await container.items.query({ query, parameters: values }, options).fetchAll()).resources;
}

overBothSchemes("searching", (world) => {
  let together;
  let scattered;
  before(async () => {
    together = await world.container(PLENTY_RU, POLICIES);
    await fill(together, POSTS.map((post) => ({ ...post, pk: "all" })));
    scattered = await world.container(TWO_PARTITIONS_RU, POLICIES);
    await fill(scattered, POSTS);
  });

  test("the policies of a container read back", async () => {
    const { resource } = await together.read();
    assert.deepEqual(resource.vectorEmbeddingPolicy, POLICIES.vectorEmbeddingPolicy);
    assert.deepEqual(resource.fullTextPolicy, POLICIES.fullTextPolicy);
    for (const list of ["vectorIndexes", "fullTextIndexes"]) {
      assert.deepEqual(resource.indexingPolicy[list], POLICIES.indexingPolicy[list]);
    }
    // A spatial index has all types, whichever the policy names.
    const types = ["Point", "LineString", "Polygon", "MultiPolygon"];
    const spatial = POLICIES.indexingPolicy.spatialIndexes.map(({ path }) => ({ path, types }));
    assert.deepEqual(resource.indexingPolicy.spatialIndexes, spatial);
  });

  test("an order beside the nearest first is refused", async () => {
    await refused(ask(together, "SELECT TOP 2 c.id FROM c ORDER BY VectorDistance(c.v, [1, 1]) DESC"), 400);
  });

  for (const where of ["one physical partition", "two physical partitions"]) {
    describe(`on ${where}`, () => {
      const target = () => (where === "one physical partition" ? together : scattered);

      test("places are found by distance and area", async () => {
        const near = "SELECT VALUE c.id FROM c WHERE ST_DISTANCE(c.at, @here) < 16000";
        const here = { type: "Point", coordinates: [0.5, 50] };
        assert.deepEqual((await ask(target(), near, { "@here": here })).sort(), ["03", "04", "05", "06", "07"]);
        const field = { type: "Polygon", coordinates: [[[0.15, 49], [0.35, 49], [0.35, 51], [0.15, 51], [0.15, 49]]] };
        const within = "SELECT VALUE c.id FROM c WHERE ST_WITHIN(c.at, @field)";
        assert.deepEqual((await ask(target(), within, { "@field": field })).sort(), ["02", "03"]);
      });

      test("texts are found by stems and phrases", async () => {
        const text = "SELECT VALUE c.id FROM c WHERE FullTextContainsAll(c.text, 'rivers', 'house')";
        assert.deepEqual((await ask(target(), text)).sort(), ["00", "01", "02", "03"]);
        assert.equal((await ask(target(), "SELECT VALUE c.id FROM c WHERE FullTextContains(c.text, 'harbour quiet')")).length, 0);
      });

      const ranked = {
        "the nearest vectors": ["ORDER BY VectorDistance(c.v, @v)", ["05", "04", "06"]],
        "the texts that fit best": ["ORDER BY RANK FullTextScore(c.text, 'river')", ["00", "01", "02"]],
        "vectors and texts together": [
          "ORDER BY RANK RRF(FullTextScore(c.text, 'river'), VectorDistance(c.v, [1.9, 0]))",
          ["02", "01", "00"],
        ],
        "weighted ranks": [
          "ORDER BY RANK RRF(FullTextScore(c.text, 'river'), VectorDistance(c.v, @v), [0.01, 1])",
          ["05", "04", "06"],
        ],
        "the worst by a negative weight": [
          "ORDER BY RANK RRF(VectorDistance(c.v, @v), FullTextScore(c.text, 'river'), [-1, 0.001])",
          ["11", "10", "00"],
        ],
      };
      for (const [name, [order, expected]] of Object.entries(ranked)) {
        const text = `SELECT TOP 3 c.id, c.text FROM c ${order}`;
        const values = { "@v": [4.9, 0] };

        test(`${name} come first`, async () => {
          assert.deepEqual((await ask(target(), text, values)).map((row) => row.id), expected);
        });

        test(`${name} come first by the client's own query plan`, async () => {
          const rows = await ask(target(), text, values, { forceQueryPlan: true });
          assert.deepEqual(rows.map((row) => row.id), expected);
        });

        test(`${name} come in pages`, async () => {
          const rows = await ask(target(), text, values, { maxItemCount: 1 });
          assert.deepEqual(rows.map((row) => row.id), expected);
        });
      }
    });
  }

  test("a search in one logical partition scores by the whole container", async () => {
    const text = "SELECT TOP 5 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.text, 'river')";
    assert.deepEqual(await ask(scattered, text, {}, { partitionKey: "3" }), ["03"]);
  });
});
