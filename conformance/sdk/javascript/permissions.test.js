/** Clients with a feed of permissions in place of a key, and client encryption keys. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { PermissionMode } from "@azure/cosmos";

import { overBothSchemes, refused } from "./orrery.js";

overBothSchemes("permissions", (world) => {
  test("a permission feed finds the token of a container by its resource id and name", async () => {
    const container = await world.container();
    await container.items.create({ id: "1", pk: "a" });
    const { user } = await container.database.users.create({ id: "ann" });
    await user.permissions.create({ id: "read", permissionMode: PermissionMode.Read, resource: container.url });
    const { resources: permissionFeed } = await user.permissions.readAll().fetchAll();
    const client = world.clientWith(undefined, { permissionFeed });
    const seen = client.database(container.database.id).container(container.id);
    assert.equal((await seen.item("1", "a").read()).resource.pk, "a");
    await refused(seen.items.create({ id: "2", pk: "a" }), 403);
    client.dispose();
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
