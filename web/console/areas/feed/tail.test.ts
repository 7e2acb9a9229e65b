/** Tests of the list of changes that the tail shows. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { changeOf } from "./follower.ts";
import type { FeedChange } from "./follower.ts";
import { CHANGES_MAX, FeedTail } from "./tail.ts";

function change(id: string, n: number): FeedChange {
  return changeOf({ id, _rid: `rid-${id}`, _lsn: n, _ts: n, n }, "0");
}

test("the newest change is first and is compared with the version seen before", () => {
  const tail = new FeedTail();
  tail.add([change("a", 1), change("b", 2)], 0);
  tail.add([change("a", 3)], 0);
  assert.deepEqual(tail.changes.map((shown) => [shown.id, shown.isKnown]), [
    ["a", true],
    ["b", false],
    ["a", false],
  ]);
  assert.deepEqual(tail.changes[0]?.changed, [{ kind: "changed", path: "/n", before: 1, after: 3 }]);
});

test("the list is bounded and the total is not", () => {
  const tail = new FeedTail();
  for (let n = 0; n < CHANGES_MAX + 5; n += 1) tail.add([change(`i${n}`, n)], n);
  assert.deepEqual([tail.changes.length, tail.total], [CHANGES_MAX, CHANGES_MAX + 5]);
});

test("the rate counts the last ten seconds", () => {
  const tail = new FeedTail();
  tail.add([change("a", 1), change("a", 2)], 1_000);
  assert.equal(tail.rate(2_000), 0.2);
  assert.equal(tail.rate(20_000), 0);
});
