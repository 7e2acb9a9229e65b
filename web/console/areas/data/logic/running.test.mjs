/** Tests of paced.ts and tree-model.ts. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Pace, timeLeftMs } from "./paced.ts";
import { moveOf, nodeKey, keyPath, treeRows } from "./tree-model.ts";

function pace(send, abort = new AbortController()) {
  const outcomes = [];
  const waits = [];
  const run = new Pace({
    send,
    signal: abort.signal,
    onOutcome: (outcome) => outcomes.push(outcome),
    wait: async (milliseconds) => {
      waits.push(milliseconds);
    },
  });
  return { run, outcomes, waits };
}

const answer = (status, message = "") => ({ status, charge: 1, retryAfterMs: 40, message });

test("every task ends with one outcome and refusals keep their words", async () => {
  const { run, outcomes } = pace(async (task) => (task % 10 === 3 ? answer(409, "exists") : answer(201)));
  for (let task = 0; task < 100; task += 1) await run.add(task);
  await run.finish();
  assert.equal(outcomes.length, 100);
  assert.equal(run.figures.done, 90);
  assert.equal(run.figures.refused, 10);
  assert.equal(run.figures.charge, 100);
  assert.ok(outcomes.every(({ task, message }) => (task % 10 === 3) === (message === "exists")));
  assert.equal(run.figures.concurrency, 6);
});

test("a throttled task is sent again after the time that the server names", async () => {
  let calls = 0;
  const { run, outcomes, waits } = pace(async () => (calls++ < 3 ? answer(429) : answer(201)));
  await run.add("a");
  await run.finish();
  assert.deepEqual(outcomes.map(({ isDone }) => isDone), [true]);
  assert.deepEqual(waits, [40, 40, 40]);
  assert.equal(run.figures.throttled, 3);
  assert.equal(run.figures.concurrency, 1);
});

test("no more tasks run at a time than the pace allows", async () => {
  let running = 0;
  let most = 0;
  const { run } = pace(async () => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    return answer(201);
  });
  for (let task = 0; task < 200; task += 1) await run.add(task);
  await run.finish();
  assert.equal(most, 6);
});

test("a lost connection is tried again and given up after a few attempts", async () => {
  const { run, outcomes, waits } = pace(async () => {
    throw new Error("no connection");
  });
  await run.add("a");
  await run.finish();
  assert.deepEqual(outcomes.map(({ isDone, message }) => [isDone, message]), [[false, "no connection"]]);
  assert.equal(waits.length, 5);
});

test("nothing starts after the run was cancelled", async () => {
  const abort = new AbortController();
  let calls = 0;
  const { run, outcomes } = pace(async () => {
    calls += 1;
    abort.abort();
    return answer(429);
  }, abort);
  assert.equal(await run.add("a"), true);
  await run.finish();
  assert.equal(await run.add("b"), false);
  assert.equal(calls, 1);
  assert.equal(outcomes.length, 1);
});

test("the time left follows from the rate", () => {
  assert.equal(timeLeftMs(0, 10, 100), null);
  assert.equal(timeLeftMs(5, 10, 100), 100);
});

const list = (names, more = {}) => ({ names, hasMore: false, isLoading: false, ...more });

function state(over = {}) {
  return {
    databases: list(["blog", "odd / name"]),
    lists: new Map([["blog", list(["posts", "Users"])]]),
    open: new Set(),
    filter: "",
    favourites: [],
    ...over,
  };
}

test("keys of nodes keep names of any characters", () => {
  const path = ['a/b "c" 😀 <script>', "%2F"];
  assert.deepEqual(keyPath(nodeKey(path)), path);
});

test("an open database shows its containers, closed ones nothing", () => {
  const labels = (over) => treeRows(state(over)).map(({ label, level }) => `${level} ${label}`);
  assert.deepEqual(labels({}), ["1 blog", "1 odd / name"]);
  assert.deepEqual(labels({ open: new Set(["blog"]) }), ["1 blog", "2 posts", "2 Users", "2 Users", "1 odd / name"]);
  const open = new Set(["blog", "blog/posts", "@sprocs/blog/posts"]);
  const lists = new Map([["blog", list(["posts"])], ["@sprocs/blog/posts", list(["p1"], { hasMore: true })]]);
  assert.deepEqual(labels({ open, lists }).slice(2, 8), [
    "3 Items",
    "3 Scale & settings",
    "3 Stored procedures",
    "4 p1",
    "4 Load more (1 loaded)",
    "3 Triggers",
  ]);
});

test("a filter keeps matches and their databases", () => {
  const open = new Set(["blog"]);
  const labels = treeRows(state({ open, filter: "POST" })).map(({ label }) => label);
  assert.deepEqual(labels, ["blog", "posts"]);
  const byDatabase = treeRows(state({ open, filter: "blog" })).map(({ label }) => label);
  assert.deepEqual(byDatabase, ["blog", "posts", "Users"]);
});

test("rows say their position among their siblings", () => {
  const rows = treeRows(state({ open: new Set(["blog"]) }));
  assert.deepEqual(rows.map(({ position, size }) => [position, size]), [[1, 2], [1, 3], [2, 3], [3, 3], [2, 2]]);
});

test("keys move by the rules of trees", () => {
  const rows = treeRows(state({ open: new Set(["blog"]) }));
  assert.deepEqual(moveOf("ArrowDown", rows, 0), { focus: 1 });
  assert.deepEqual(moveOf("ArrowRight", rows, 1), { open: "blog/posts" });
  assert.deepEqual(moveOf("ArrowLeft", rows, 1), { focus: 0 });
  assert.deepEqual(moveOf("ArrowLeft", rows, 0), { close: "blog" });
  assert.deepEqual(moveOf("End", rows, 0), { focus: 4 });
  assert.deepEqual(moveOf("o", rows, 0), { focus: 4 });
  assert.deepEqual(moveOf("Enter", rows, 2), { choose: 2 });
});

test("10,000 containers give their rows fast enough to type a filter", () => {
  const names = Array.from({ length: 10_000 }, (_, number) => `container-${number}`);
  const lists = new Map([["blog", list(names)]]);
  const rows = treeRows(state({ open: new Set(["blog"]), lists, filter: "9999" }));
  assert.deepEqual(rows.map(({ label }) => label), ["blog", "container-9999"]);
});
