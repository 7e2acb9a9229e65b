/** Users, permissions, clients with resource tokens only, and client encryption keys. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { PermissionMode } from "@azure/cosmos";

import { overBothSchemes, refused } from "./orrery.js";

/** A user of the container's database with a permission on `resource`, and the permission as created. */
async function permitted(container, resource, permissionMode, more = {}) {
  const { user } = await container.database.users.upsert({ id: "ann" });
  const id = `${permissionMode}-${process.hrtime.bigint()}`;
  const { resource: permission } = await user.permissions.create({ id, permissionMode, resource, ...more });
  return { user, permission };
}

/** The same container, for a client with these options instead of the key. */
function as(world, container, options) {
  const client = world.clientWith(undefined, options);
  return client.database(container.database.id).container(container.id);
}

overBothSchemes("permissions", (world) => {
  test("users are created, listed, queried, renamed and deleted", async () => {
    const database = await world.database();
    const { user } = await database.users.create({ id: "ann" });
    await refused(database.users.create({ id: "ann" }), 409);
    await database.users.upsert({ id: "bob" });
    const { resources: listed } = await database.users.readAll().fetchAll();
    assert.deepEqual(listed.map((u) => u.id), ["ann", "bob"]);
    const { resources: found } = await database.users.query("SELECT * FROM c WHERE c.id = 'bob'").fetchAll();
    assert.deepEqual(found.map((u) => u.id), ["bob"]);
    const { resource: renamed } = await user.replace({ id: "eve" });
    assert.equal(renamed.id, "eve");
    await database.user("eve").delete();
    await refused(database.user("eve").read(), 404);
  });

  test("permissions are created, listed, queried, replaced and deleted", async () => {
    const container = await world.container();
    const { user, permission } = await permitted(container, container.url, PermissionMode.Read);
    assert.match(permission._token, /^type=resource&ver=1&sig=/);
    const again = { id: "again", permissionMode: PermissionMode.Read, resource: container.url };
    await refused(user.permissions.create(again), 409);
    const { resources: listed } = await user.permissions.readAll().fetchAll();
    assert.deepEqual(listed.map((p) => p.id), [permission.id]);
    const { resources: found } = await user.permissions.query("SELECT VALUE c.permissionMode FROM c").fetchAll();
    assert.deepEqual(found, [PermissionMode.Read]);
    const changed = { ...permission, permissionMode: PermissionMode.All };
    const { resource: replaced } = await user.permission(permission.id).replace(changed);
    assert.equal(replaced.permissionMode, PermissionMode.All);
    const { resource: upserted, statusCode } = await user.permissions.upsert({ ...again, id: permission.id });
    assert.deepEqual([statusCode, upserted.permissionMode], [200, PermissionMode.Read]);
    await user.permission(permission.id).delete();
    await refused(user.permission(permission.id).read(), 404);
  });

  test("a token to read a container reads its items and writes none", async () => {
    const container = await world.container();
    await container.items.create({ id: "1", pk: "a" });
    const { permission } = await permitted(container, container.url, PermissionMode.Read);
    const seen = as(world, container, { resourceTokens: { [container.url]: permission._token } });
    assert.equal((await seen.read()).resource.id, "items");
    assert.equal((await seen.item("1", "a").read()).resource.id, "1");
    const { resources } = await seen.items.query("SELECT * FROM c", { partitionKey: "a" }).fetchAll();
    assert.deepEqual(resources.map((i) => i.id), ["1"]);
    await refused(seen.items.create({ id: "2", pk: "a" }), 403);
    await refused(seen.item("1", "a").delete(), 403);
    await refused(seen.delete(), 403);
  });

  test("a token for everything in a container writes its items and deletes the container", async () => {
    const container = await world.container();
    const { permission } = await permitted(container, container.url, PermissionMode.All);
    const own = as(world, container, { resourceTokens: { [container.url]: permission._token } });
    await own.items.create({ id: "1", pk: "a" });
    await own.items.upsert({ id: "1", pk: "a", n: 1 });
    assert.equal((await container.item("1", "a").read()).resource.n, 1);
    await own.item("1", "a").delete();
    assert.equal((await own.delete()).statusCode, 204);
    await refused(container.read(), 404);
  });

  test("a permission feed finds the token of a container by its resource id and name", async () => {
    const container = await world.container();
    await container.items.create({ id: "1", pk: "a" });
    const { user } = await permitted(container, container.url, PermissionMode.Read);
    const { resources: permissionFeed } = await user.permissions.readAll().fetchAll();
    const seen = as(world, container, { permissionFeed });
    assert.equal((await seen.item("1", "a").read()).resource.pk, "a");
    await refused(seen.items.create({ id: "2", pk: "a" }), 403);
  });

  test("a token for a partition key reaches only its items", async () => {
    const container = await world.container();
    await container.items.create({ id: "1", pk: "a" });
    await container.items.create({ id: "2", pk: "b" });
    const only = { resourcePartitionKey: ["a"] };
    const { permission } = await permitted(container, container.url, PermissionMode.All, only);
    const own = as(world, container, { resourceTokens: { [container.url]: permission._token } });
    assert.equal((await own.item("1", "a").read()).resource.id, "1");
    await own.items.create({ id: "3", pk: "a" });
    await refused(own.item("2", "b").read(), 403);
    await refused(own.items.create({ id: "4", pk: "b" }), 403);
  });

  test("a self link makes a permission like a name", async () => {
    const container = await world.container();
    const { resource: item } = await container.items.create({ id: "1", pk: "a" });
    await container.items.create({ id: "2", pk: "a" });
    const { permission } = await permitted(container, item._self, PermissionMode.All);
    const own = as(world, container, { resourceTokens: { 1: permission._token, 2: permission._token } });
    assert.equal((await own.item("1", "a").read()).resource.id, "1");
    await refused(own.item("2", "a").read(), 403);
  });
});

/** A key resolver that wraps a key by reversing its bytes; the server never unwraps keys. */
const turningAround = {
  encryptionKeyResolverName: "turning-around",
  wrapKey: async (_id, _algorithm, key) => Buffer.from(key).reverse(),
  unwrapKey: async (_id, _algorithm, key) => Buffer.from(key).reverse(),
};

const METADATA = { type: "turning-around", name: "k", value: "https://vault/k", algorithm: "RSA-OAEP" };

overBothSchemes("client encryption", (world) => {
  test("items are encrypted by the client under a key of the database, which can be wrapped anew", async () => {
    const { id } = await world.database();
    const clientEncryptionOptions = { keyEncryptionKeyResolver: turningAround };
    const client = world.clientWith(world.key, { clientEncryptionOptions });
    const database = client.database(id);
    await database.createClientEncryptionKey("cek", "AEAD_AES_256_CBC_HMAC_SHA256", METADATA);
    const path = {
      path: "/secret",
      clientEncryptionKeyId: "cek",
      encryptionType: "Deterministic",
      encryptionAlgorithm: "AEAD_AES_256_CBC_HMAC_SHA256",
    };
    const { container } = await database.containers.create({
      id: "sealed",
      partitionKey: "/pk",
      clientEncryptionPolicy: { policyFormatVersion: 1, includedPaths: [path] },
    });
    await container.items.create({ id: "1", pk: "a", secret: "hidden" });
    assert.equal((await container.item("1", "a").read()).resource.secret, "hidden");
    const plain = world.client.database(id).container("sealed");
    assert.notEqual((await plain.item("1", "a").read()).resource.secret, "hidden");
    await database.rewrapClientEncryptionKey("cek", { ...METADATA, value: "https://vault/other" });
    const { resource: key } = await database.readClientEncryptionKey("cek");
    assert.equal(key.keyWrapMetadata.value, "https://vault/other");
    client.dispose();
  });
});
