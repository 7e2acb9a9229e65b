/** Access, and properties of every answer. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { overBothSchemes, refused } from "./orrery.js";

overBothSchemes("the wire", (world) => {
  test("a wrong key is unauthorized", async () => {
    const client = world.clientWith(Buffer.alloc(64, "x").toString("base64"));
    await refused(client.databases.readAll().fetchAll(), 401);
    client.dispose();
  });

  test("the account names the address that the client came by", async () => {
    const { resource } = await world.client.getDatabaseAccount();
    assert.equal(resource.consistencyPolicy, "Session");
    for (const location of [...resource.writableLocations, ...resource.readableLocations]) {
      assert.equal(location.databaseAccountEndpoint.replace(/\/$/, ""), world.endpoint.replace(/\/$/, ""));
    }
  });

  test("every answer keeps its promises", async () => {
    const container = await world.container();
    await container.items.create({ id: "1", pk: "p" });
    await container.item("1", "p").read();
    await container.item("nobody", "p").read();
    await container.items.upsert({ id: "1", pk: "p" });
    await container.items.query("SELECT * FROM c", { partitionKey: "p" }).fetchAll();
    await refused(container.items.query("SELECT * FORM c", { partitionKey: "p" }).fetchAll(), 400);
    await container.readOffer();
    await container.item("1", "p").delete();

    const offenders = (wrong) => world.answers.filter(wrong).map(({ method, path, status }) => `${method} ${path} -> ${status}`);
    const charge = (answer) => answer.headers["x-ms-request-charge"] ?? "";
    assert.ok(world.answers.length > 8);
    assert.deepEqual(offenders((a) => !/^\d+(\.\d+)?$/.test(charge(a))), [], "a charge that is a plain decimal");
    // A plan reads no item, so its answer has no session token.
    const isPlan = (a) => a.method === "POST" && a.path.endsWith("/docs") && [200, 400].includes(a.status) && !("x-ms-session-token" in a.headers);
    // The account document and plans are free, and so is a request that was refused before its operation was known.
    const mayBeFree = (a) => a.path === "/" || a.status === 401 || isPlan(a);
    assert.deepEqual(offenders((a) => !mayBeFree(a) && !(Number(charge(a)) > 0)), [], "a charge");
    assert.deepEqual(offenders((a) => !a.headers["x-ms-activity-id"]), [], "an activity id");
    assert.deepEqual(offenders((a) => Object.values(a.headers).includes("")), [], "no empty header");
    assert.deepEqual(offenders((a) => [204, 304].includes(a.status) && a.body_bytes > 0), [], "no body without content");
    assert.deepEqual(offenders((a) => a.status >= 500), [], "no fault of the server");
    for (const answer of world.answers.filter((a) => a.status >= 400)) {
      const error = JSON.parse(answer.error_text);
      assert.ok(error.code && error.message, `${answer.path}: ${answer.error_text}`);
    }
  });
});
