/**
 * node-cosmos, a client of a third party over the SDK 3 for JavaScript: items, conditions as objects, counts.
 *
 * That SDK refuses plain HTTP, and the client offers no way to hand a certificate over.
 */

import assert from "node:assert/strict";

import nodeCosmos from "node-cosmos";

import { Program, endpoint, key } from "../../../lib/operations/operations.cjs";

// The server signs its own certificate.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";

const program = new Program("node-cosmos");
const connection = `AccountEndpoint=${endpoint};AccountKey=${key};`;
const cosmos = new nodeCosmos.CosmosBuilder().withDatabaseType("cosmosdb").withConnectionString(connection).build();
const PEOPLE = [
  { id: "tom", last: "Banks", age: 20, skills: ["Java", "Go"], tags: [{ name: "a" }, { name: "b" }] },
  { id: "ann", last: "Banner", age: 30, skills: ["Rust"], tags: [{ name: "b" }] },
  { id: "kim", last: "Lee", age: 40, skills: ["Go", "Rust"], tags: [] },
];
let database;

const ids = (found) => found.map((person) => person.id).sort();
const found = async (filter) => ids(await database.find("people", { filter }, "users"));

await program.operation("a database and a collection are created, twice", async () => {
  database = await cosmos.getDatabase(program.database);
  await cosmos.getDatabase(program.database);
  await database.createCollection("people");
  await database.createCollection("people");
});

await program.operation("items are created in a partition, and a second one of the same id is refused", async () => {
  for (const person of PEOPLE) assert.equal((await database.create("people", person, "users")).id, person.id);
  await assert.rejects(database.create("people", PEOPLE[0], "users"), { code: 409 });
});

await program.operation("an item is read, and one that is not there is refused or replaced by a default", async () => {
  assert.equal((await database.read("people", "tom", "users")).last, "Banks");
  await assert.rejects(database.read("people", "absent", "users"), { code: 404 });
  assert.equal(await database.readOrDefault("people", "absent", "users", null), null);
});

await program.operation("an item is upserted, and updated in part", async () => {
  await database.upsert("people", { id: "guest", age: 1 }, "users");
  await database.upsert("people", { id: "guest", age: 2, last: "Guest" }, "users");
  const updated = await database.update("people", { id: "guest", age: 3 }, "users");
  assert.deepEqual([updated.age, updated.last], [3, "Guest"]);
});

await program.operation("conditions compare, match and look into arrays", async () => {
  assert.deepEqual(await found({ id: ["tom", "kim"] }), ["kim", "tom"]);
  assert.deepEqual(await found({ "age >=": 30 }), ["ann", "kim"]);
  assert.deepEqual(await found({ "last LIKE": "Ban%", "age !=": 20 }), ["ann"]);
  assert.deepEqual(await found({ "last CONTAINS": "anne" }), ["ann"]);
  assert.deepEqual(await found({ "skills ARRAY_CONTAINS": "Go" }), ["kim", "tom"]);
  assert.deepEqual(await found({ "skills ARRAY_CONTAINS_ANY": ["Java", "Rust"] }), ["ann", "kim", "tom"]);
  assert.deepEqual(await found({ "tags ARRAY_CONTAINS_ALL name": ["a", "b"] }), ["tom"]);
});

await program.operation("items are sorted, with an offset and a limit", async () => {
  const condition = { filter: { "age >": 10 }, sort: ["age", "DESC"], offset: 1, limit: 1 };
  assert.deepEqual(ids(await database.find("people", condition, "users")), ["ann"]);
});

await program.operation("items are counted whatever the limit", async () => {
  const condition = { filter: { "age >": 10 }, offset: 0, limit: 1 };
  assert.equal(await database.count("people", condition, "users"), 3);
});

await program.operation("a condition without a partition crosses all partitions", async () => {
  await database.create("people", { id: "max", age: 50 }, "admins");
  assert.deepEqual(ids(await database.find("people", { filter: { "age >=": 40 } })), ["kim", "max"]);
  assert.equal(await database.count("people", { filter: {} }), 5);
});

await program.operation("a query in SQL groups", async () => {
  const query = "SELECT c._partition, COUNT(1) AS count FROM c GROUP BY c._partition";
  const groups = await database.findBySQL("people", query);
  assert.deepEqual(groups.map((group) => group.count).sort(), [1, 4]);
});

await program.operation("items, the collection and the database are deleted", async () => {
  assert.deepEqual(await database.delete("people", "guest", "users"), { id: "guest" });
  assert.equal(await database.delete("people", "guest", "users"), undefined);
  await database.deleteCollection("people");
  await cosmos.deleteDatabase(program.database);
});

program.end();
