"use strict";

/** The module of Testcontainers for Node.js as its documentation uses it. */

const assert = require("node:assert/strict");
const https = require("node:https");
const { CosmosClient } = require("@azure/cosmos");
const { AzureCosmosDbEmulatorContainer } = require("@testcontainers/azure-cosmosdb-emulator");
const { Program } = require("../../../lib/operations/operations.cjs");

const IMAGE = process.env.ORRERY_IMAGE;

async function main() {
  const program = new Program("@testcontainers/azure-cosmosdb-emulator");
  await program.operation("over http, the port is the same inside and outside", async () => {
    const emulator = await new AzureCosmosDbEmulatorContainer(IMAGE).withProtocol("http").start();
    try {
      assert.equal(emulator.getPort(), emulator.getMappedPort(emulator.getPort()));
      await storesAndFinds(new CosmosClient({ endpoint: emulator.getEndpoint(), key: emulator.getKey() }));
    } finally {
      await emulator.stop();
    }
  });
  await program.operation("over https, without a check of the certificate", async () => {
    const emulator = await new AzureCosmosDbEmulatorContainer(IMAGE).withProtocol("https").start();
    try {
      const agent = new https.Agent({ rejectUnauthorized: false });
      await storesAndFinds(new CosmosClient({ endpoint: emulator.getEndpoint(), key: emulator.getKey(), agent }));
      assert.match(emulator.getConnectionUri(), /^AccountEndpoint=https:/);
    } finally {
      await emulator.stop();
    }
  });
  await program.operation("with telemetry asked for, by the connection string", async () => {
    const emulator = await new AzureCosmosDbEmulatorContainer(IMAGE).withTelemetryEnabled(true).start();
    try {
      await storesAndFinds(new CosmosClient(emulator.getConnectionUri()));
    } finally {
      await emulator.stop();
    }
  });
  await program.operation("the snippet of the documentation runs", snippet);
  program.end();
}

async function storesAndFinds(client) {
  const { statusCode, database } = await client.databases.createIfNotExists({ id: "shop" });
  assert.equal(statusCode, 201);
  const { container } = await database.containers.createIfNotExists({ id: "items", partitionKey: { paths: ["/pk"] } });
  await container.items.create({ id: "1", pk: "a", name: "first" });
  assert.equal((await container.item("1", "a").read()).resource.name, "first");
  const { resources } = await container.items.query("SELECT VALUE c.name FROM c").fetchAll();
  assert.deepEqual(resources, ["first"]);
}

async function snippet() {
  const image = IMAGE;
  // snippet: javascript
  const emulator = await new AzureCosmosDbEmulatorContainer(image).start();
  const client = new CosmosClient({ endpoint: emulator.getEndpoint(), key: emulator.getKey() });
  const { database } = await client.databases.create({ id: "shop" });
  const { container } = await database.containers.create({ id: "items", partitionKey: { paths: ["/pk"] } });
  await container.items.create({ id: "1", pk: "a", name: "first" });
  const { resource } = await container.item("1", "a").read();
  assert.equal(resource.name, "first");
  await emulator.stop();
  // end
}

main();
