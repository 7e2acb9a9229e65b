/** @microsoft/agents-hosting-storage-cosmos: the state of an agent in a partitioned container. */

import assert from "node:assert/strict";

import { CosmosDbPartitionedStorage } from "@microsoft/agents-hosting-storage-cosmos";

import { Program, endpoint, key } from "../../../lib/operations/operations.cjs";
import { useStorage } from "./storage.js";

const program = new Program("@microsoft/agents-hosting-storage-cosmos");

const open = (containerId, options = {}) =>
  new CosmosDbPartitionedStorage({
    databaseId: program.database,
    containerId,
    cosmosClientOptions: { endpoint, key },
    ...options,
  });

await useStorage(program, open);

await program.operation("a key longer than an id is kept under its hash", async () => {
  const store = open("state");
  const long = "k".repeat(2000);
  await store.write({ [long]: { text: "long" } });
  assert.equal((await store.read([long]))[long].text, "long");
});

program.end();
