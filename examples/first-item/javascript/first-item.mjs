import { CosmosClient } from "@azure/cosmos";

const key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

const client = new CosmosClient({ endpoint: "http://127.0.0.1:8081", key });
const { database } = await client.databases.createIfNotExists({ id: "blog" });
const { container } = await database.containers.createIfNotExists({ id: "posts", partitionKey: { paths: ["/postId"] } });
await container.items.upsert({ id: "1", postId: "p1", title: "Hello from JavaScript" });
const { resource, requestCharge } = await container.item("1", "p1").read();
console.log(resource.title, requestCharge, "RU");
