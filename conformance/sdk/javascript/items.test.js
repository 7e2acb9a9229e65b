/** Items: create, read, replace, upsert, delete, with and without conditions. */

import assert from "node:assert/strict";
import { before, test } from "node:test";

import { PartitionKeyDefinitionVersion, PartitionKeyKind } from "@azure/cosmos";

import { fill, overBothSchemes, refused, TWO_PARTITIONS_RU } from "./orrery.js";

overBothSchemes("items", (world) => {
  let container;
  // Tests share a container and use different partition keys.
  before(async () => {
    container = await world.container();
  });

  test("a created item reads back with its system properties", async () => {
    const body = { id: "1", pk: "read", title: "Hello", tags: ["a", null, true, 1.5], deep: { er: { n: -0.25 } } };
    const created = await container.items.create(body);
    assert.equal(created.statusCode, 201);
    const { resource, etag, requestCharge, statusCode } = await container.item("1", "read").read();
    assert.equal(statusCode, 200);
    for (const [name, value] of Object.entries(body)) assert.deepEqual(resource[name], value, name);
    for (const name of ["_rid", "_self", "_etag", "_ts", "_attachments"]) assert.equal(resource[name], created.resource[name]);
    assert.match(resource._etag, /^".+"$/);
    assert.equal(etag, resource._etag);
    assert.equal(resource._attachments, "attachments/");
    assert.ok(requestCharge > 0);
  });

  test("creating the same id twice in one logical partition is a conflict", async () => {
    await container.items.create({ id: "1", pk: "twice" });
    await refused(container.items.create({ id: "1", pk: "twice" }), 409);
    await container.items.create({ id: "1", pk: "twice too" });
  });

  test("reading what is not there gives a 404 and no resource", async () => {
    await container.items.create({ id: "1", pk: "here" });
    const missing = await container.item("1", "there").read();
    assert.equal(missing.statusCode, 404);
    assert.equal(missing.resource, undefined);
    await refused(container.item("1", "there").delete(), 404);
    await refused(container.item("2", "here").replace({ id: "2", pk: "here" }), 404);
  });

  test("an item replaced under another partition key is refused with 1001", async () => {
    await container.items.create({ id: "1", pk: "stays" });
    await refused(container.item("1", "stays").replace({ id: "1", pk: "moves" }), 400, 1001);
  });

  test("items without the key and with a null key live apart", async () => {
    await container.items.create({ id: "1", which: "missing" });
    await container.items.create({ id: "1", pk: null, which: "null" });
    const { resource } = await container.item("1", null).read();
    assert.equal(resource.which, "null");
    const query = "SELECT VALUE c.which FROM c WHERE NOT IS_DEFINED(c.pk)";
    assert.deepEqual((await container.items.query(query).fetchAll()).resources, ["missing"]);
  });

  test("partition keys of each type lead back to their item", async () => {
    for (const key of ["text", "", 0, 1, -1.5, true, false, "ключ", "a/b#c?d"]) {
      await container.items.create({ id: "typed", pk: key });
      const { resource } = await container.item("typed", key).read();
      assert.equal(resource?.pk, key);
    }
  });

  test("replace and upsert change the etag and say what they did", async () => {
    const created = await container.items.upsert({ id: "1", pk: "upsert", n: 1 });
    assert.equal(created.statusCode, 201);
    const upserted = await container.items.upsert({ id: "1", pk: "upsert", n: 2 });
    assert.equal(upserted.statusCode, 200);
    const replaced = await container.item("1", "upsert").replace({ id: "1", pk: "upsert", n: 3 });
    assert.equal(replaced.statusCode, 200);
    assert.equal(new Set([created.etag, upserted.etag, replaced.etag]).size, 3);
    assert.equal(replaced.resource._rid, created.resource._rid);
    assert.equal((await container.item("1", "upsert").read()).resource.n, 3);
  });

  test("a stale etag fails the replace, the upsert and the delete", async () => {
    const first = await container.items.create({ id: "1", pk: "stale", n: 1 });
    const item = container.item("1", "stale");
    const accessCondition = { type: "IfMatch", condition: first.etag };
    await item.replace({ id: "1", pk: "stale", n: 2 }, { accessCondition });
    await refused(item.replace({ id: "1", pk: "stale", n: 3 }, { accessCondition }), 412);
    await refused(container.items.upsert({ id: "1", pk: "stale", n: 3 }, { accessCondition }), 412);
    await refused(item.delete({ accessCondition }), 412);
    assert.equal((await item.read()).resource.n, 2);
  });

  test("reading what the caller already has says not modified", async () => {
    const { etag } = await container.items.create({ id: "1", pk: "unchanged" });
    const item = container.item("1", "unchanged");
    const accessCondition = { type: "IfNoneMatch", condition: etag };
    const { statusCode } = await item.read({ accessCondition });
    assert.equal(statusCode, 304);
    await item.replace({ id: "1", pk: "unchanged", n: 2 });
    assert.equal((await item.read({ accessCondition })).statusCode, 200);
  });

  test("deleting removes the item and frees its id", async () => {
    const first = await container.items.create({ id: "1", pk: "deleted" });
    const { statusCode } = await container.item("1", "deleted").delete();
    assert.equal(statusCode, 204);
    await refused(container.item("1", "deleted").delete(), 404);
    const second = await container.items.create({ id: "1", pk: "deleted" });
    assert.notEqual(second.resource._rid, first.resource._rid);
  });

  const strangeIds = ["a b", " leading", "a+b", "100%", "%20", "Disallowed?Chars", "a?b=c&d e%", "a&b=c", "a:b;c,d@e", "it's", 'say "hi"', "Привет", "日本語", "🙂 smile"];
  for (const id of strangeIds) {
    test(`the id ${JSON.stringify(id)} leads back to its item`, async () => {
      await container.items.create({ id, pk: id, n: 1 });
      assert.equal((await container.item(id, id).read()).resource.id, id);
      assert.equal((await container.item(id, id).replace({ id, pk: id, n: 2 })).resource.n, 2);
      assert.equal((await container.item(id, id).delete()).statusCode, 204);
    });
  }

  test("an item over two megabytes is too large", async () => {
    await refused(container.items.create({ id: "1", pk: "large", text: "x".repeat(2 * 1024 * 1024 + 1024) }), 413);
    await container.items.create({ id: "1", pk: "large", text: "x".repeat(1024 * 1024) });
  });

  test("a patch is a list of operations, or an object with a condition", async () => {
    await container.items.create({ id: "1", pk: "patched", n: 1, tags: ["a"] });
    const item = container.item("1", "patched");
    const operations = [{ op: "incr", path: "/n", value: 1 }, { op: "add", path: "/tags/-", value: "b" }];
    const { resource, statusCode, etag } = await item.patch(operations);
    assert.equal(statusCode, 200);
    assert.deepEqual([resource.n, resource.tags, resource._etag], [2, ["a", "b"], etag]);
    await refused(item.patch({ condition: "from c where c.n = 1", operations }), 412, 1110);
    assert.equal((await item.patch({ condition: "from c where c.n = 2", operations })).resource.n, 3);
    await refused(item.patch([{ op: "remove", path: "/none" }]), 400);
    const accessCondition = { type: "IfMatch", condition: etag };
    await refused(item.patch(operations, { accessCondition }), 412);
    assert.deepEqual((await item.read()).resource.tags, ["a", "b", "b"]);
  });

  test("a batch takes place whole, in order", async () => {
    const { code, result } = await container.items.batch(
      [
        { operationType: "Create", resourceBody: { id: "1", pk: "batch", n: 1 } },
        { operationType: "Patch", id: "1", resourceBody: [{ op: "incr", path: "/n", value: 1 }] },
        { operationType: "Patch", id: "1", resourceBody: { condition: "from c where c.n = 2", operations: [{ op: "incr", path: "/n", value: 1 }] } },
        { operationType: "Read", id: "1", partitionKey: "batch" },
        { operationType: "Upsert", resourceBody: { pk: "batch", which: "has an id of the client's" } },
        { operationType: "Delete", id: "1" },
      ],
      "batch",
    );
    assert.equal(code, 200);
    assert.deepEqual(result.map((r) => r.statusCode), [201, 200, 200, 200, 201, 204]);
    assert.equal(result[3].resourceBody.n, 3);
    assert.equal(result[3].eTag, result[2].eTag);
    assert.ok(result.every((r) => r.requestCharge > 0));
    assert.equal((await container.item("1", "batch").read()).statusCode, 404);
  });

  test("a batch that fails leaves nothing behind", async () => {
    const operations = [
      { operationType: "Create", resourceBody: { id: "1", pk: "failed" } },
      { operationType: "Replace", id: "2", resourceBody: { id: "2", pk: "failed" } },
      { operationType: "Read", id: "1" },
    ];
    const { code, result } = await container.items.batch(operations, "failed");
    assert.equal(code, 207);
    assert.deepEqual(result.map((r) => r.statusCode), [424, 404, 424]);
    assert.equal((await container.item("1", "failed").read()).statusCode, 404);
  });

  test("bulk spreads over partitions, and each operation stands for itself", async () => {
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

  test("bulk through the newer door repeats nothing that succeeded", async () => {
    const wide = await world.container(TWO_PARTITIONS_RU);
    const operations = Array.from({ length: 150 }, (_, n) => ({
      operationType: "Upsert",
      partitionKey: `${n % 30}`,
      resourceBody: { id: `${n}`, pk: `${n % 30}` },
    }));
    const results = await wide.items.executeBulkOperations(operations);
    assert.equal(results.length, 150);
    assert.ok(results.every((r) => r.response.statusCode === 201), JSON.stringify(results.find((r) => r.error)));
    const { resources } = await wide.items.query("SELECT VALUE COUNT(1) FROM c").fetchAll();
    assert.deepEqual(resources, [150]);
  });

  test("reading all items pages through every partition", async () => {
    const wide = await world.container(TWO_PARTITIONS_RU);
    const ids = Array.from({ length: 25 }, (_, n) => `${n}`.padStart(2, "0"));
    await fill(wide, ids.map((id) => ({ id, pk: id })));
    const found = [];
    for await (const page of wide.items.readAll({ maxItemCount: 10 }).getAsyncIterator()) {
      assert.ok(page.resources.length <= 10);
      found.push(...page.resources.map((i) => i.id));
    }
    assert.deepEqual(found.sort(), ids);
  });

  test("hierarchical keys route items and prefixes", async () => {
    const database = await world.database();
    const { container: deep } = await database.containers.create({
      id: "h",
      partitionKey: { paths: ["/tenant", "/user"], kind: PartitionKeyKind.MultiHash, version: PartitionKeyDefinitionVersion.V2 },
      throughput: TWO_PARTITIONS_RU,
    });
    for (const tenant of ["t1", "t2"]) for (const user of ["u1", "u2"]) await deep.items.create({ id: "1", tenant, user });
    assert.equal((await deep.item("1", ["t1", "u2"]).read()).resource.user, "u2");
    const { resources } = await deep.items.query("SELECT VALUE c.user FROM c", { partitionKey: ["t1"] }).fetchAll();
    assert.deepEqual(resources.sort(), ["u1", "u2"]);
  });

  test("session tokens come with every answer and grow with every write", async () => {
    const position = (response) => {
      const match = /^\d+:(?:-?\d+#)?(\d+)(?:#\d+=\d+)*$/.exec(response.headers["x-ms-session-token"]);
      assert.ok(match, `not one session token: ${response.headers["x-ms-session-token"]}`);
      return Number(match[1]);
    };
    const first = position(await container.items.upsert({ id: "1", pk: "session" }));
    const second = position(await container.items.upsert({ id: "1", pk: "session" }));
    assert.ok(second > first);
    assert.ok(position(await container.item("1", "session").read()) >= second);
  });
});
