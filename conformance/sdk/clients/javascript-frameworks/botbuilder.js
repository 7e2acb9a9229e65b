/** botbuilder-azure: the state of a bot in a partitioned container. */

import { TestAdapter, UserState } from "botbuilder";
import { CosmosDbPartitionedStorage } from "botbuilder-azure";

import { Program, endpoint, key } from "../../../lib/operations/operations.cjs";
import { useStorage } from "./storage.js";

const program = new Program("botbuilder-azure");

const open = (containerId, options = {}) =>
  new CosmosDbPartitionedStorage({
    cosmosDbEndpoint: endpoint,
    authKey: key,
    databaseId: program.database,
    containerId,
    ...options,
  });

await program.operation("a database is created by the owner of the account, which the storage expects", async () => {
  const { CosmosClient } = await import("@azure/cosmos");
  const client = new CosmosClient({ endpoint, key });
  await client.databases.create({ id: program.database });
  client.dispose();
});

await useStorage(program, open);

await program.operation("the state of a user lives over turns", async () => {
  const state = new UserState(open("state"));
  const count = state.createProperty("count");
  const adapter = new TestAdapter(async (context) => {
    const number = (await count.get(context, 0)) + 1;
    await count.set(context, number);
    await state.saveChanges(context);
    await context.sendActivity(String(number));
  });
  await adapter.test("hello", "1").test("again", "2").test("again", "3").startTest();
});

program.end();
