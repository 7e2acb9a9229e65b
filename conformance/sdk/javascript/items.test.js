/** Items by methods that only this SDK has: bulk requests of the older form, and ids that the client generates. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { overBothSchemes, TWO_PARTITIONS_RU } from "./orrery.js";

overBothSchemes("items", (world) => {
  test("the client generates an id for an upsert in a batch that has none", async () => {
    const container = await world.container();
    const upsert = { operationType: "Upsert", resourceBody: { pk: "batch", which: "has an id of the client's" } };
    const { code, result } = await container.items.batch([upsert], "batch");
    assert.deepEqual([code, result[0].statusCode], [200, 201]);
    const { resources } = await container.items.query("SELECT VALUE c.which FROM c WHERE IS_STRING(c.id)").fetchAll();
    assert.deepEqual(resources, ["has an id of the client's"]);
  });

  test("bulk of the older form spreads over partitions, and each operation stands for itself", async () => {
    const wide = await world.container(TWO_PARTITIONS_RU);
    const keys = Array.from({ length: 60 }, (_, n) => `${n}`);
    const creates = keys.map((pk) => ({ operationType: "Create", resourceBody: { id: "1", pk, n: 0 } }));
    const created = await wide.items.bulk(creates);
    assert.ok(created.every((r) => r.statusCode === 201));
    assert.deepEqual(created.map((r) => r.resourceBody.pk), keys);
    const mixed = await wide.items.bulk(
      [
        { operationType: "Create", resourceBody: { id: "1", pk: "7" } },
        { operationType: "Read", id: "1", partitionKey: "8" },
        { operationType: "Delete", id: "1", partitionKey: "9" },
        { operationType: "Replace", id: "1", partitionKey: "10", resourceBody: { id: "1", pk: "10", n: 5 } },
        { operationType: "Upsert", partitionKey: "new", resourceBody: { id: "1", pk: "new" } },
        { operationType: "Patch", id: "1", partitionKey: "11", resourceBody: { operations: [{ op: "incr", path: "/n", value: 3 }] } },
        { operationType: "Read", id: "none", partitionKey: "8" },
      ],
      { continueOnError: true },
    );
    assert.deepEqual(mixed.map((r) => r.statusCode), [409, 200, 204, 200, 201, 200, 404]);
    assert.equal(mixed[5].resourceBody.n, 3);
  });
});
