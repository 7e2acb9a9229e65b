/** Databases and containers: create, read, list, query, replace, delete, and the refusals. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { overBothSchemes, refused } from "./orrery.js";

overBothSchemes("databases and containers", (world) => {
  test("a created database can be read, listed and queried", async () => {
    const database = await world.database();
    const { resource, etag, statusCode } = await database.read();
    assert.equal(statusCode, 200);
    assert.equal(resource.id, database.id);
    assert.match(resource._etag, /^".+"$/);
    assert.equal(etag, resource._etag);
    assert.ok(resource._rid && resource._self.endsWith("/") && resource._ts > 1_500_000_000);
    const { resources: listed } = await world.client.databases.readAll({ maxItemCount: 1 }).fetchAll();
    assert.ok(listed.some((d) => d.id === database.id));
    const query = { query: "SELECT * FROM root r WHERE r.id = @id", parameters: [{ name: "@id", value: database.id }] };
    const { resources: found } = await world.client.databases.query(query).fetchAll();
    assert.deepEqual(found.map((d) => d.id), [database.id]);
  });

  test("a database that exists is a conflict, and one that does not is not found", async () => {
    const database = await world.database();
    await refused(world.client.databases.create({ id: database.id }), 409);
    const { statusCode } = await world.client.databases.createIfNotExists({ id: database.id });
    assert.equal(statusCode, 200);
    await refused(world.client.database("nobody").read(), 404);
    await refused(world.client.database("nobody").delete(), 404);
  });

  test("a deleted database is gone with all in it", async () => {
    const { database } = await world.client.databases.create({ id: `gone-${process.hrtime.bigint()}` });
    const { container } = await database.containers.create({ id: "c", partitionKey: "/pk" });
    const { statusCode } = await database.delete();
    assert.equal(statusCode, 204);
    await refused(database.read(), 404);
    await refused(container.read(), 404);
  });

  test("a created container reads back with its defaults", async () => {
    const database = await world.database();
    const { container, statusCode } = await database.containers.create({ id: "posts", partitionKey: { paths: ["/postId"] } });
    assert.equal(statusCode, 201);
    const { resource } = await container.read();
    assert.deepEqual(resource.partitionKey.paths, ["/postId"]);
    assert.equal(resource.partitionKey.kind, "Hash");
    assert.equal(resource.indexingPolicy.indexingMode, "consistent");
    assert.deepEqual(resource.indexingPolicy.includedPaths.map((p) => p.path), ["/*"]);
    assert.ok(resource.indexingPolicy.excludedPaths.some((p) => p.path === '/"_etag"/?'));
  });

  test("containers are listed and queried", async () => {
    const database = await world.database();
    for (const id of ["a", "b", "c"]) await database.containers.create({ id, partitionKey: "/pk" });
    const { resources: listed } = await database.containers.readAll({ maxItemCount: 1 }).fetchAll();
    assert.deepEqual(listed.map((c) => c.id).sort(), ["a", "b", "c"]);
    const query = { query: "SELECT * FROM r WHERE r.id = @id", parameters: [{ name: "@id", value: "b" }] };
    const { resources: found } = await database.containers.query(query).fetchAll();
    assert.deepEqual(found.map((c) => c.id), ["b"]);
  });

  test("replacing a container changes its policies but not its partition key", async () => {
    const container = await world.container();
    const { resource } = await container.read();
    const policy = { indexingMode: "consistent", includedPaths: [{ path: "/title/?" }], excludedPaths: [{ path: "/*" }] };
    await container.replace({ ...resource, indexingPolicy: policy, defaultTtl: 3600 });
    const { resource: replaced } = await container.read();
    assert.equal(replaced.defaultTtl, 3600);
    assert.deepEqual(replaced.indexingPolicy.includedPaths.map((p) => p.path), ["/title/?"]);
    await refused(container.replace({ ...resource, partitionKey: { paths: ["/other"], kind: "Hash", version: 2 } }), 400);
  });

  test("a container that exists is a conflict, and its successor has a new rid", async () => {
    const database = await world.database();
    const { container, resource: first } = await database.containers.create({ id: "c", partitionKey: "/pk" });
    await refused(database.containers.create({ id: "c", partitionKey: "/pk" }), 409);
    const { statusCode } = await container.delete();
    assert.equal(statusCode, 204);
    await refused(container.read(), 404);
    const { resource: second } = await database.containers.create({ id: "c", partitionKey: "/pk" });
    assert.notEqual(second._rid, first._rid);
  });

  test("throughput is read and replaced", async () => {
    const container = await world.container(600);
    const { resource: offer, offer: handle } = await container.readOffer();
    assert.equal(offer.content.offerThroughput, 600);
    const { resource: replaced } = await handle.replace({ ...offer, content: { ...offer.content, offerThroughput: 1200 } });
    assert.equal(replaced.content.offerThroughput, 1200);
    const { resource: read } = await container.readOffer();
    assert.equal(read.content.offerThroughput, 1200);
  });

  test("autoscale throughput reads back its maximum", async () => {
    const database = await world.database();
    const { container } = await database.containers.create({ id: "auto", partitionKey: "/pk", maxThroughput: 4000 });
    const { resource: offer } = await container.readOffer();
    assert.equal(offer.content.offerAutopilotSettings.maxThroughput, 4000);
  });

  test("an impossible throughput is refused", async () => {
    const database = await world.database();
    for (const throughput of [100, 450]) {
      await refused(database.containers.create({ id: "c", partitionKey: "/pk", throughput }), 400);
    }
  });
});
