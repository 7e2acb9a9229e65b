/** The change feed: from the beginning, from now, from a time; per container, per key, per range. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ChangeFeedMode, ChangeFeedStartFrom, StatusCodes } from "@azure/cosmos";

import { fill, overBothSchemes, TWO_PARTITIONS_RU } from "./orrery.js";

/** Reads until there are no new changes. Returns the ids and the continuation. */
async function changes(container, changeFeedStartFrom, options = {}) {
  const iterator = container.items.getChangeFeedIterator({ changeFeedStartFrom, ...options });
  const items = [];
  for (let round = 0; round < 100; round += 1) {
    const page = await iterator.readNext();
    if (page.statusCode === StatusCodes.NotModified) {
      assert.equal(page.count, 0);
      return { ids: items.map((i) => i.id), items, token: page.continuationToken };
    }
    if (options.maxItemCount) assert.ok(page.count <= options.maxItemCount);
    items.push(...page.result);
  }
  assert.fail("the feed never says that there is nothing new");
}

const resume = (container, token) => changes(container, ChangeFeedStartFrom.Continuation(token));
const named = (ids, pk = "p") => ids.map((id) => ({ id, pk }));
const numbered = (count) => Array.from({ length: count }, (_, n) => `${n}`.padStart(2, "0"));

overBothSchemes("the change feed", (world) => {
  test("from the beginning every item comes in the order of its last change", async () => {
    const container = await world.container();
    await fill(container, named(["1", "2", "3"]));
    await container.items.upsert({ id: "1", pk: "p", again: true });
    const { ids, items } = await changes(container, ChangeFeedStartFrom.Beginning());
    assert.deepEqual(ids, ["2", "3", "1"]);
    assert.equal(items.at(-1).again, true);
  });

  test("pages lose nothing, and deleted items leave the feed", async () => {
    const container = await world.container();
    const ids = numbered(11);
    await fill(container, named(ids));
    await container.item("05", "p").delete();
    const read = await changes(container, ChangeFeedStartFrom.Beginning(), { maxItemCount: 4 });
    assert.deepEqual(read.ids, ids.filter((id) => id !== "05"));
  });

  test("a continuation brings only what came after", async () => {
    const container = await world.container();
    await fill(container, named(["1"]));
    const first = await changes(container, ChangeFeedStartFrom.Beginning());
    assert.deepEqual(first.ids, ["1"]);
    await fill(container, named(["2"]));
    const second = await resume(container, first.token);
    assert.deepEqual(second.ids, ["2"]);
    assert.deepEqual((await resume(container, second.token)).ids, []);
  });

  test("from now nothing old is seen", async () => {
    const container = await world.container();
    await fill(container, named(["old"]));
    const now = await changes(container, ChangeFeedStartFrom.Now());
    assert.deepEqual(now.ids, []);
    await fill(container, named(["new"]));
    assert.deepEqual((await resume(container, now.token)).ids, ["new"]);
  });

  test("a poll without news says 304 and where to go on", async () => {
    const container = await world.container();
    await changes(container, ChangeFeedStartFrom.Beginning());
    const answer = world.lastAnswer;
    assert.equal(answer.status, 304);
    assert.ok(answer.headers.etag);
    assert.equal(answer.headers["x-ms-item-count"], "0");
    assert.equal(answer.body, "");
  });

  test("from a time only later changes are seen", async () => {
    const container = await world.container();
    const { resource: first } = await container.items.create({ id: "1", pk: "p" });
    // A start time counts whole seconds: read until the server's clock shows a later one.
    const giveUp = Date.now() + 20_000;
    do {
      await container.item("1", "p").read();
      assert.ok(Date.now() < giveUp, "the server's clock stands still");
    } while (Date.parse(world.lastAnswer.headers.date) / 1000 <= first._ts);
    await container.items.create({ id: "2", pk: "p" });
    const since = ChangeFeedStartFrom.Time(new Date(first._ts * 1000));
    assert.deepEqual((await changes(container, since)).ids, ["2"]);
    const longAgo = ChangeFeedStartFrom.Time(new Date(Date.now() - 86_400_000));
    assert.deepEqual((await changes(container, longAgo)).ids, ["1", "2"]);
  });

  test("a partition key sees only its own changes", async () => {
    const container = await world.container(TWO_PARTITIONS_RU);
    await fill(container, numbered(12).map((id, n) => ({ id, pk: `k${n % 4}` })));
    const { ids, token } = await changes(container, ChangeFeedStartFrom.Beginning("k1"));
    assert.deepEqual(ids, ["01", "05", "09"]);
    await fill(container, [{ id: "12", pk: "k0" }, { id: "13", pk: "k1" }]);
    assert.deepEqual((await resume(container, token)).ids, ["13"]);
  });

  test("feed ranges divide the changes among them", async () => {
    const container = await world.container(TWO_PARTITIONS_RU);
    const ids = numbered(30);
    await fill(container, ids.map((id) => ({ id, pk: id })));
    const ranges = await container.getFeedRanges();
    assert.equal(ranges.length, 2);
    const parts = [];
    for (const range of ranges) parts.push((await changes(container, ChangeFeedStartFrom.Beginning(range))).ids);
    assert.ok(parts.every((part) => part.length > 0));
    assert.deepEqual(parts.flat().sort(), ids);
  });

  test("the whole container is read over all its partitions", async () => {
    const container = await world.container(TWO_PARTITIONS_RU);
    const ids = numbered(30);
    await fill(container, ids.map((id) => ({ id, pk: id })));
    const { ids: found, token } = await changes(container, ChangeFeedStartFrom.Beginning());
    assert.deepEqual(found.sort(), ids);
    await container.items.upsert({ id: "07", pk: "07", n: 1 });
    assert.deepEqual((await resume(container, token)).ids, ["07"]);
  });

  test("all versions and deletions come in their order", async () => {
    const container = await world.container(undefined, { changeFeedPolicy: { retentionDuration: 10 } });
    const mode = { changeFeedMode: ChangeFeedMode.AllVersionsAndDeletes };
    const { token } = await changes(container, ChangeFeedStartFrom.Now(), mode);
    await container.items.create({ id: "1", pk: "p", n: 1 });
    await container.items.upsert({ id: "1", pk: "p", n: 2 });
    await container.item("1", "p").delete();
    const { items } = await changes(container, ChangeFeedStartFrom.Continuation(token), mode);
    assert.deepEqual(items.map((change) => change.metadata.operationType), ["create", "replace", "delete"]);
    assert.deepEqual(items.map((change) => change.current.n), [1, 2, undefined]);
    assert.equal(items[2].previous.n, 2);
    assert.equal(items[2].metadata.timeToLiveExpired, false);
  });

  test("a deleted partition key leaves the feed and frees its ids", async () => {
    const container = await world.container();
    await fill(container, [...named(["1", "2"], "gone"), ...named(["1"], "kept")]);
    await container.deleteAllItemsForPartitionKey("gone");
    const { items } = await changes(container, ChangeFeedStartFrom.Beginning());
    assert.deepEqual(items.map((item) => item.pk), ["kept"]);
    await fill(container, named(["1"], "gone"));
    assert.equal((await container.item("1", "gone").read()).resource.pk, "gone");
  });
});
