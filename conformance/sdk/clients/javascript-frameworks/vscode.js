/**
 * The extension of Visual Studio Code (vscode-cosmosdb 0.37.1) replayed: the calls that it makes through @azure/cosmos
 * when an account is attached by its connection string, the tree is opened, and an item is edited.
 *
 * Read from src/cosmosdb/getCosmosClient.ts, src/tree/cosmosdb and src/cosmosdb/session of its repository, commit
 * f988294. The extension itself runs only inside of the editor.
 */

import assert from "node:assert/strict";
import https from "node:https";
import { CosmosClient } from "@azure/cosmos";
import operations from "../../../lib/operations/operations.cjs";

const { Program, endpoint, key } = operations;

const program = new Program("@azure/cosmos");
// An attached account with the key of the emulator is an emulator, whose certificate is not checked.
const agent = new https.Agent({ rejectUnauthorized: false });
const client = new CosmosClient({
  endpoint,
  key,
  agent,
  userAgentSuffix: "vscode-cosmosdb/0.37.1",
  connectionPolicy: { enableEndpointDiscovery: true },
});

await program.operation("the connection is tried with the account", async () => {
  const { resource } = await client.getDatabaseAccount();
  assert.ok(resource.writableLocations.length > 0);
});

await program.operation("a database and a container are created with throughput", async () => {
  const { database } = await client.databases.create({ id: program.database });
  await database.containers.create({
    id: "items",
    partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 },
    throughput: 400,
  });
});

await program.operation("the tree lists databases, containers and scripts", async () => {
  const { resources: databases } = await client.databases.readAll().fetchAll();
  assert.ok(databases.some(({ id }) => id === program.database));
  const database = client.database(program.database);
  const { resources: containers } = await database.containers.readAll().fetchAll();
  assert.deepEqual(containers.map(({ id }) => id), ["items"]);
  const { scripts } = database.container("items");
  assert.deepEqual((await scripts.storedProcedures.readAll().fetchAll()).resources, []);
  assert.deepEqual((await scripts.triggers.readAll().fetchAll()).resources, []);
});

await program.operation("the throughput is shown, and a database without any has none", async () => {
  const database = client.database(program.database);
  const { resource } = await database.container("items").readOffer();
  assert.equal(resource.content.offerThroughput, 400);
  assert.equal((await database.readOffer()).resource, undefined);
});

await program.operation("an item is created, edited with its etag, and listed by pages", async () => {
  const container = client.database(program.database).container("items");
  const { resource: created } = await container.items.create({ id: "1", pk: "a" });
  const condition = { type: "IfMatch", condition: created._etag };
  const edited = { ...created, name: "edited" };
  await container.item("1", "a").replace(edited, { accessCondition: condition });
  await assert.rejects(container.item("1", "a").replace(edited, { accessCondition: condition }), { code: 412 });
  const page = await container.items.readAll({ maxItemCount: 50 }).fetchNext();
  assert.equal(page.resources[0].name, "edited");
});

await program.operation("the query editor runs a query with metrics and index metrics", async () => {
  const container = client.database(program.database).container("items");
  const options = { populateQueryMetrics: true, populateIndexMetrics: true, maxItemCount: 100, maxDegreeOfParallelism: 1000 };
  const page = await container.items.query("SELECT * FROM c WHERE c.name = 'edited'", options).fetchNext();
  assert.equal(page.resources.length, 1);
  assert.ok(page.requestCharge > 0 && page.indexMetrics);
});

await program.operation("a wrong query is refused with the place of the error", async () => {
  const container = client.database(program.database).container("items");
  const wrong = container.items.query("SELECT * FORM c").fetchNext();
  await assert.rejects(wrong, (error) => error.code === 400 && /Syntax error/.test(error.message));
});

await program.operation("the database is deleted", () => client.database(program.database).delete());

program.end();
