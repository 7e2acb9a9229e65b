/** Tests of the change feed's follower, with a source that stands for the server. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { differences } from "./diff.ts";
import { FeedFollower, PAUSE_MS_MAX, PAUSE_MS_MIN, changeOf } from "./follower.ts";
import type { FeedObject, FeedPage, FeedRange, FeedRequest, FeedSource } from "./follower.ts";
import { SeenVersions } from "./seen.ts";

const GONE = new Error("410");

class Server implements FeedSource {
  requests: FeedRequest[] = [];
  pages = new Map<string, FeedPage[]>();

  constructor(public known: FeedRange[]) {}

  async ranges(): Promise<readonly FeedRange[]> {
    return this.known;
  }

  async page(request: FeedRequest): Promise<FeedPage> {
    this.requests.push({ ...request });
    if (!this.known.some((range) => range.id === request.rangeId)) throw GONE;
    return this.pages.get(request.rangeId)?.shift() ?? end(request.place ?? '"0"');
  }

  isGone(error: unknown): boolean {
    return error === GONE;
  }
}

function range(id: string, minInclusive: string, maxExclusive: string): FeedRange {
  return { id, minInclusive, maxExclusive };
}

function item(id: string, lsn: number, seconds: number): FeedObject {
  return { id, _rid: `rid-${id}`, _lsn: lsn, _ts: seconds };
}

function page(place: string, ...entries: FeedObject[]): FeedPage {
  return { entries, place, charge: 2, isAtEnd: false };
}

function end(place: string): FeedPage {
  return { entries: [], place, charge: 1, isAtEnd: true };
}

test("changes of several partitions come in the order of their time and are numbered", async () => {
  const server = new Server([range("1", "", "20"), range("2", "20", "FF")]);
  server.pages.set("1", [page('"5"', item("a", 4, 10), item("c", 5, 30))]);
  server.pages.set("2", [page('"9"', item("b", 9, 20))]);
  const follower = new FeedFollower(server, "beginning");
  const early = await follower.round(0);
  assert.deepEqual(early.map((change) => change.id), ["a", "b"], "partition 2 may have more before 30");
  assert.equal(follower.charge, 4);
  const late = await follower.round(0);
  assert.deepEqual([...early, ...late].map((change) => [change.number, change.id, change.lsn]), [
    [1, "a", 4],
    [2, "b", 9],
    [3, "c", 5],
  ]);
  assert.deepEqual(follower.positions.map((position) => position.place), ['"5"', '"9"']);
});

test("a page with changes is followed at once and the end by a pause that doubles", async () => {
  const server = new Server([range("0", "", "FF")]);
  server.pages.set("0", [page('"1"', item("a", 1, 1))]);
  const follower = new FeedFollower(server, "now");
  await follower.round(1000);
  assert.equal(follower.waitMs(1000), 0);
  await follower.round(1000);
  assert.equal(follower.waitMs(1000), PAUSE_MS_MIN);
  assert.ok(follower.isAtEnd);
  assert.equal((await follower.round(1001)).length, 0);
  assert.equal(server.requests.length, 2, "a position that is not due is not asked");
  let now = 1000;
  for (let round = 0; round < 6; round += 1) {
    now += follower.waitMs(now);
    await follower.round(now);
  }
  assert.equal(follower.waitMs(now), PAUSE_MS_MAX);
});

test("changes of a fast partition wait for a slow one", async () => {
  const server = new Server([range("1", "", "20"), range("2", "20", "FF")]);
  server.pages.set("1", [page('"9"', item("new", 9, 90))]);
  server.pages.set("2", [page('"1"', item("old", 1, 10)), page('"2"', item("middle", 2, 50))]);
  const follower = new FeedFollower(server, "beginning");
  const ids: string[] = [];
  for (let round = 0; round < 4; round += 1) {
    ids.push(...(await follower.round(0)).map((change) => change.id));
  }
  assert.deepEqual(ids, ["old", "middle", "new"]);
});

test("an empty page that is not the end is followed at once", async () => {
  const server = new Server([range("0", "", "FF")]);
  server.pages.set("0", [page('"20000"')]);
  const follower = new FeedFollower(server, "beginning");
  await follower.round(0);
  assert.equal(follower.waitMs(0), 0);
  assert.equal(follower.isAtEnd, false);
});

test("after a split both successors go on at the position of the old partition", async () => {
  const server = new Server([range("0", "", "FF")]);
  server.pages.set("0", [page('"7"', item("a", 7, 1))]);
  const follower = new FeedFollower(server, "beginning");
  await follower.round(0);
  server.known = [range("1", "", "20"), range("2", "20", "FF")];
  await follower.round(0);
  await follower.round(0);
  const asked = server.requests.slice(-2);
  assert.deepEqual(
    asked.map((request) => [request.rangeId, request.place, request.within]),
    [["1", '"7"', null], ["2", '"7"', null]],
  );
  assert.equal(follower.positions.reduce((sum, position) => sum + position.changes, 0), 1);
});

test("after a merge each position stays within its own EPK range", async () => {
  const server = new Server([range("1", "", "20"), range("2", "20", "FF")]);
  server.pages.set("1", [page('"3"', item("a", 3, 1))]);
  server.pages.set("2", [page('"8"', item("b", 8, 1))]);
  const follower = new FeedFollower(server, "beginning");
  await follower.round(0);
  server.known = [range("3", "", "FF")];
  await follower.round(0);
  await follower.round(0);
  const asked = server.requests.slice(-2);
  assert.deepEqual(asked.map((request) => [request.rangeId, request.place, request.within]), [
    ["3", '"3"', { min: "", max: "20" }],
    ["3", '"8"', { min: "20", max: "FF" }],
  ]);
});

test("an error of one partition does not stop the others", async () => {
  const server = new Server([range("1", "", "20"), range("2", "20", "FF")]);
  const broken = new Error("503");
  const asked = server.page.bind(server);
  server.page = async (request) => {
    if (request.rangeId === "1") throw broken;
    return asked(request);
  };
  server.pages.set("2", [page('"1"', item("b", 1, 1))]);
  const follower = new FeedFollower(server, "beginning");
  const changes = await follower.round(0);
  assert.deepEqual(changes.map((change) => change.id), ["b"]);
  assert.equal(follower.positions[0]?.error, broken);
  assert.equal(follower.positions[0]?.dueMs, PAUSE_MS_MIN);
});

test("versions and deletions are read in their own form", () => {
  const created = changeOf(
    {
      current: { id: "a", _rid: "r", n: 1 },
      metadata: { operationType: "create", lsn: 4, crts: 100, previousImageLSN: 0 },
    },
    "0",
  );
  assert.deepEqual(
    [created.operation, created.lsn, created.seconds, created.rid, created.item?.["n"]],
    ["create", 4, 100, "r", 1],
  );
  const deleted = changeOf(
    {
      current: {},
      previous: { id: "a", _rid: "r", n: 1 },
      metadata: { operationType: "delete", lsn: 5, crts: 101, id: "a", timeToLiveExpired: true },
    },
    "0",
  );
  assert.deepEqual(
    [deleted.operation, deleted.item, deleted.previous?.["n"], deleted.timeToLiveExpired, deleted.id],
    ["delete", null, 1, true, "a"],
  );
});

test("the difference names members by their path and leaves system members out", () => {
  const before = { id: "a", n: 1, tags: ["x", "y"], gone: true, _etag: "1" };
  const after = { id: "a", n: 2, tags: ["x", "z", "w"], "a/b": null, _etag: "2" };
  assert.deepEqual(differences(before, after), [
    { kind: "changed", path: "/n", before: 1, after: 2 },
    { kind: "changed", path: "/tags/1", before: "y", after: "z" },
    { kind: "added", path: "/tags/2", after: "w" },
    { kind: "added", path: "/a~1b", after: null },
    { kind: "removed", path: "/gone", before: true },
  ]);
});

test("a member named like a method of objects is a member", () => {
  const before = JSON.parse('{"__proto__": 1}') as FeedObject;
  const after = JSON.parse('{"__proto__": 2, "constructor": 3}') as FeedObject;
  assert.deepEqual(differences(before, after).map((found) => found.path), [
    "/__proto__",
    "/constructor",
  ]);
});

test("a version is compared with the one seen before, and the oldest are forgotten", () => {
  const seen = new SeenVersions(60);
  assert.equal(seen.replace("a", { n: 1 }), null);
  assert.deepEqual(seen.replace("a", { n: 2 }), { n: 1 });
  for (let n = 0; n < 10; n += 1) seen.replace(`b${n}`, { n });
  assert.ok(seen.size <= 5);
  assert.equal(seen.replace("a", null), null);
});
