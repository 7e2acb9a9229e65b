/** Stored procedures, triggers and user-defined functions: stored as text, executed in a transaction. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { TriggerOperation, TriggerType } from "@azure/cosmos";

import { fill, overBothSchemes, refused } from "./orrery.js";

// The functions below run in the server: the SDK sends their text.
/* global getContext */

function greet(name, times) {
  getContext().getResponse().setBody({ text: `Good morning, ${name}`, times });
}

/** Creates `count` items, then throws if the argument says so. */
function createMany(pk, count, fail) {
  const collection = getContext().getCollection();
  let created = 0;
  create();
  function create() {
    if (created === count) {
      if (fail) throw new Error(4444, "told to fail");
      getContext().getResponse().setBody(created);
      return;
    }
    const accepted = collection.createDocument(collection.getSelfLink(), { id: String(created), pk }, (error) => {
      if (error) throw error;
      created += 1;
      create();
    });
    if (!accepted) throw new Error("not accepted");
  }
}

function sum(minimum) {
  const collection = getContext().getCollection();
  const query = { query: "SELECT VALUE c.n FROM c WHERE c.n >= @m", parameters: [{ name: "@m", value: minimum }] };
  collection.queryDocuments(collection.getSelfLink(), query, {}, (error, values) => {
    if (error) throw error;
    getContext().getResponse().setBody(values.reduce((a, b) => a + b, 0));
  });
}

function stamp() {
  const request = getContext().getRequest();
  const item = request.getBody();
  item.stamped = request.getOperationType();
  request.setBody(item);
}

function audit() {
  const collection = getContext().getCollection();
  const item = getContext().getResponse().getBody();
  collection.createDocument(collection.getSelfLink(), { id: `audit-${item.id}`, pk: item.pk }, (error) => {
    if (error) throw error;
  });
}

function refuse() {
  throw new Error(4001, "never");
}

overBothSchemes("scripts", (world) => {
  const ids = async (container, partitionKey = "p") =>
    (await container.items.query("SELECT VALUE c.id FROM c", { partitionKey }).fetchAll()).resources.sort();

  /** Stores a procedure and returns a function that calls it. */
  async function procedure(container, id, body) {
    await container.scripts.storedProcedures.create({ id, body });
    return (params, { pk = "p", ...options } = {}) => container.scripts.storedProcedure(id).execute(pk, params, options);
  }

  test("a stored procedure is kept as it was written", async () => {
    const { scripts } = await world.container();
    const { resource: created, storedProcedure } = await scripts.storedProcedures.create({ id: "greet", body: greet });
    assert.equal(created.body, greet.toString());
    assert.equal((await storedProcedure.read()).resource.body, created.body);
    assert.deepEqual((await scripts.storedProcedures.readAll().fetchAll()).resources.map((s) => s.id), ["greet"]);
    await refused(scripts.storedProcedures.create({ id: "greet", body: greet }), 409);
    const { resource: replaced } = await storedProcedure.replace({ id: "greet", body: "function () { }" });
    assert.equal(replaced.body, "function () { }");
    assert.equal((await storedProcedure.delete()).statusCode, 204);
    await refused(storedProcedure.read(), 404);
  });

  test("a stored procedure answers with its arguments", async () => {
    const call = await procedure(await world.container(), "greet", greet);
    const { resource, requestCharge } = await call(["Ines", 3]);
    assert.deepEqual(resource, { text: "Good morning, Ines", times: 3 });
    assert.ok(requestCharge > 0);
  });

  test("a stored procedure writes in one transaction, and a throw rolls it back", async () => {
    const container = await world.container();
    const call = await procedure(container, "many", createMany);
    const error = await refused(call(["p", 5, true]), 400, 4444);
    assert.match(error.body?.message ?? error.message, /told to fail/);
    assert.deepEqual(await ids(container), []);
    assert.equal((await call(["p", 5, false])).resource, 5);
    assert.deepEqual(await ids(container), ["0", "1", "2", "3", "4"]);
    await refused(call(["another", 1, false]), 400);
  });

  test("a stored procedure sees only its own partition", async () => {
    const container = await world.container();
    await fill(container, [0, 1, 2, 3, 4, 5].map((n) => ({ id: `${n}`, pk: n % 2 ? "odd" : "even", n })));
    const call = await procedure(container, "sum", sum);
    assert.equal((await call([0], { pk: "even" })).resource, 6);
    assert.equal((await call([2], { pk: "odd" })).resource, 8);
  });

  test("the console is sent only when asked for", async () => {
    const call = await procedure(
      await world.container(),
      "log",
      "function (a, b) { console.log('The value of %s is %s.', a, b); }",
    );
    const logged = await call(["x", 1], { enableScriptLogging: true });
    assert.match(decodeURIComponent(logged.headers["x-ms-documentdb-script-log-results"]), /The value of x is 1\./);
    const silent = await call(["x", 1]);
    assert.equal(silent.headers["x-ms-documentdb-script-log-results"], undefined);
  });

  test("a stored procedure that does not compile fails when it is called", async () => {
    const call = await procedure(await world.container(), "broken", "function () { return ( }");
    await refused(call([]), 400, 65535);
  });

  test("a pre-trigger rewrites what is stored", async () => {
    const container = await world.container();
    await container.scripts.triggers.create({
      id: "stamp",
      body: stamp,
      triggerType: TriggerType.Pre,
      triggerOperation: TriggerOperation.All,
    });
    const { resource } = await container.items.create({ id: "1", pk: "p" }, { preTriggerInclude: "stamp" });
    assert.equal(resource.stamped, "Create");
    assert.equal((await container.item("1", "p").read()).resource.stamped, "Create");
    assert.equal((await container.items.create({ id: "2", pk: "p" })).resource.stamped, undefined);
  });

  test("a post-trigger writes in the same transaction", async () => {
    const container = await world.container();
    await container.scripts.triggers.create({
      id: "audit",
      body: audit,
      triggerType: TriggerType.Post,
      triggerOperation: TriggerOperation.Create,
    });
    await container.items.create({ id: "1", pk: "p" }, { postTriggerInclude: "audit" });
    assert.deepEqual(await ids(container), ["1", "audit-1"]);
  });

  for (const kind of [TriggerType.Pre, TriggerType.Post]) {
    test(`a ${kind}-trigger that throws undoes the write`, async () => {
      const container = await world.container();
      await container.scripts.triggers.create({
        id: "refuse",
        body: refuse,
        triggerType: kind,
        triggerOperation: TriggerOperation.All,
      });
      const options = { [`${kind.toLowerCase()}TriggerInclude`]: "refuse" };
      await refused(container.items.create({ id: "1", pk: "p" }, options), 400, 4001);
      assert.deepEqual(await ids(container), []);
    });
  }

  test("a user-defined function computes in a query", async () => {
    const container = await world.container();
    const { scripts } = container;
    await scripts.userDefinedFunctions.create({ id: "tax", body: "function (price) { return price * 0.5; }" });
    await fill(container, [0, 1, 2, 3].map((price) => ({ id: `${price}`, pk: "p", price })));
    const query = "SELECT c.id, udf.tax(c.price) AS tax FROM c WHERE udf.tax(c.price) > 0.6 ORDER BY c.id";
    const { resources } = await container.items.query(query, { partitionKey: "p" }).fetchAll();
    assert.deepEqual(resources, [{ id: "2", tax: 1 }, { id: "3", tax: 1.5 }]);
    assert.equal((await scripts.userDefinedFunction("tax").delete()).statusCode, 204);
    await refused(container.items.query(query, { partitionKey: "p" }).fetchAll(), 400);
  });
});
