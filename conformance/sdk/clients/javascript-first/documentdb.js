"use strict";

/**
 * documentdb, the first SDK for Node.js: databases, collections, documents, queries, scripts.
 *
 * The package asks for TLS 1.0 by name, which neither this Node.js nor any server offers today; the program takes that
 * one setting away and nothing else.
 */

const assert = require("node:assert/strict");
const https = require("node:https");
const { promisify } = require("node:util");

const { DocumentClient, DocumentBase } = require("documentdb");

const { Program, endpoint, key } = require("../../../lib/operations/operations.cjs");

const request = https.request;
https.request = (options, ...rest) => {
  delete options.secureProtocol;
  return request(options, ...rest);
};

const program = new Program("documentdb");
const policy = new DocumentBase.ConnectionPolicy();
policy.DisableSSLVerification = true;
const client = new DocumentClient(endpoint, { masterKey: key }, policy, "Session");

/** A method of the client as a function that returns a promise of its first answer. */
const call = (method, ...parameters) => promisify(client[method]).call(client, ...parameters);
const rows = (iterator) => promisify(iterator.toArray).call(iterator);
const database = `dbs/${program.database}`;
const link = `${database}/colls/families`;

async function refused(promise, code) {
  await promise.then(
    (answer) => assert.fail(`not refused: ${JSON.stringify(answer)}`),
    (error) => assert.equal(error.code, code, `refused with ${error.code}: ${error.body}`),
  );
}

async function main() {
  await program.operation("a database is created, and found by a query", async () => {
    assert.equal((await call("createDatabase", { id: program.database })).id, program.database);
    const query = { query: "SELECT * FROM r WHERE r.id = @id", parameters: [{ name: "@id", value: program.database }] };
    assert.deepEqual((await rows(client.queryDatabases(query))).map((found) => found.id), [program.database]);
  });

  await program.operation("a collection is created with a partition key, and listed", async () => {
    const definition = { id: "families", partitionKey: { paths: ["/city"], kind: "Hash" } };
    await call("createCollection", database, definition, { offerThroughput: 11000 });
    assert.deepEqual((await rows(client.readCollections(database))).map((found) => found.id), ["families"]);
  });

  await program.operation("documents are created, and a second one of the same id is refused", async () => {
    const andersen = { id: "andersen", city: "Seattle", children: [{ grade: 5 }], income: 90 };
    await call("createDocument", link, andersen);
    await call("createDocument", link, { id: "wakefield", city: "NY", children: [{ grade: 8 }], income: 120 });
    await refused(call("createDocument", link, andersen), 409);
  });

  await program.operation("a document is read in the session of its write", async () => {
    const read = await call("readDocument", `${link}/docs/andersen`, { partitionKey: "Seattle" });
    assert.deepEqual(read.children, [{ grade: 5 }]);
    await refused(call("readDocument", `${link}/docs/missing`, { partitionKey: "Seattle" }), 404);
  });

  await program.operation("a document is replaced under its etag, and a stale etag is refused", async () => {
    const stale = await call("readDocument", `${link}/docs/andersen`, { partitionKey: "Seattle" });
    const options = { accessCondition: { type: "IfMatch", condition: stale._etag } };
    const replaced = await call("replaceDocument", `${link}/docs/andersen`, { ...stale, income: 95 }, options);
    assert.equal(replaced.income, 95);
    await refused(call("replaceDocument", `${link}/docs/andersen`, { ...stale, income: 99 }, options), 412);
  });

  await program.operation("a document is upserted twice", async () => {
    assert.equal((await call("upsertDocument", link, { id: "smith", city: "NY", income: 10 })).income, 10);
    assert.equal((await call("upsertDocument", link, { id: "smith", city: "NY", income: 20 })).income, 20);
  });

  await program.operation("all documents are read in pages of one", async () => {
    const found = await rows(client.readDocuments(link, { maxItemCount: 1 }));
    assert.deepEqual(found.map((document) => document.id).sort(), ["andersen", "smith", "wakefield"]);
  });

  await program.operation("a query in one partition has a parameter and a join", async () => {
    const query = {
      query: "SELECT f.id, c.grade FROM f JOIN c IN f.children WHERE c.grade > @grade",
      parameters: [{ name: "@grade", value: 4 }],
    };
    const found = await rows(client.queryDocuments(link, query, { partitionKey: "NY" }));
    assert.deepEqual(found, [{ id: "wakefield", grade: 8 }]);
  });

  await program.operation("an ordered query crosses partitions and is merged by the client", async () => {
    const query = "SELECT * FROM f ORDER BY f.income DESC";
    const found = await rows(client.queryDocuments(link, query, { enableCrossPartitionQuery: true, maxItemCount: 1 }));
    assert.deepEqual(found.map((document) => document.id), ["wakefield", "andersen", "smith"]);
  });

  await program.operation("an aggregate crosses partitions", async () => {
    const query = "SELECT VALUE SUM(f.income) FROM f";
    assert.deepEqual(await rows(client.queryDocuments(link, query, { enableCrossPartitionQuery: true })), [235]);
  });

  await program.operation("a stored procedure creates a document", async () => {
    const add = {
      id: "add",
      body: function (name) {
        const collection = getContext().getCollection();
        const asked = { id: name, city: "NY" };
        const accepted = collection.createDocument(collection.getSelfLink(), asked, (error, created) => {
          if (error) throw error;
          getContext().getResponse().setBody(created.id);
        });
        if (!accepted) throw new Error("not accepted");
      },
    };
    await call("createStoredProcedure", link, add);
    const answer = await call("executeStoredProcedure", `${link}/sprocs/add`, ["jones"], { partitionKey: "NY" });
    assert.equal(answer, "jones");
  });

  await program.operation("a trigger changes a document that is created", async () => {
    const stamp = {
      id: "stamp",
      triggerType: "pre",
      triggerOperation: "create",
      body: function () {
        const request = getContext().getRequest();
        request.setBody({ ...request.getBody(), stamped: true });
      },
    };
    await call("createTrigger", link, stamp);
    const created = await call("createDocument", link, { id: "kim", city: "NY" }, { preTriggerInclude: "stamp" });
    assert.equal(created.stamped, true);
  });

  await program.operation("a collection without a partition key takes and returns documents", async () => {
    await call("createCollection", database, { id: "single" });
    await call("createDocument", `${database}/colls/single`, { id: "1", n: 1 });
    assert.equal((await call("readDocument", `${database}/colls/single/docs/1`)).n, 1);
    assert.deepEqual(await rows(client.queryDocuments(`${database}/colls/single`, "SELECT VALUE c.n FROM c")), [1]);
  });

  await program.operation("documents, collections and the database are deleted", async () => {
    await call("deleteDocument", `${link}/docs/smith`, { partitionKey: "NY" });
    await refused(call("readDocument", `${link}/docs/smith`, { partitionKey: "NY" }), 404);
    await call("deleteCollection", link);
    await call("deleteDatabase", database);
    const left = await rows(client.readDatabases());
    assert.deepEqual(left.filter((found) => found.id === program.database), []);
  });

  program.end();
}

main();
