/**
 * Data and load for the tests of partitions, queries, requests and the change feed: containers with several physical
 * partitions, items, skewed reads, refusals.
 *
 * Leaves out: checks.
 */

import { freshName } from "./world.js";

/** Returns the path of a container of the protocol and of the management API. */
export function pathOf(database, container) {
  return `/dbs/${encodeURIComponent(database)}/colls/${encodeURIComponent(container)}`;
}

/** Returns the part of the address of a tab. */
export function tabOf(database, container, tab) {
  return `#/data/${encodeURIComponent(database)}/${encodeURIComponent(container)}/${tab}`;
}

/** Creates a database with a container `posts` of `items` items, one for each key, in `partitions` partitions. */
export async function posts(me, { partitions = 1, items = 40, rest = {}, ruPerSecond = 400 } = {}) {
  const database = freshName("load");
  await me.database(database);
  await me.container(database, "posts", "/postId", rest, { "x-ms-offer-throughput": String(ruPerSecond) });
  for (let n = 0; n < items; n += 1) await write(me, database, `p${n}`, `post-${n}`, { views: n });
  for (let n = 1; n < partitions; n += 1) await splitLargest(me, database);
  return database;
}

/** Writes an item of `posts`, in place of the one with its id. */
export async function write(me, database, id, postId, more = {}) {
  return me.data("POST", `${pathOf(database, "posts")}/docs`, {
    body: { id, postId, ...more },
    headers: { "x-ms-documentdb-partitionkey": JSON.stringify([postId]), "x-ms-documentdb-is-upsert": "True" },
  });
}

export async function remove(me, database, id, postId) {
  return me.data("DELETE", `${pathOf(database, "posts")}/docs/${id}`, {
    headers: { "x-ms-documentdb-partitionkey": JSON.stringify([postId]) },
  });
}

/** Reads one item `times` times. */
export async function read(me, database, id, postId, times = 1) {
  for (let n = 0; n < times; n += 1) {
    await me.data("GET", `${pathOf(database, "posts")}/docs/${id}`, {
      headers: { "x-ms-documentdb-partitionkey": JSON.stringify([postId]) },
    });
  }
}

/** Runs a query over all partitions and returns its answer. */
export async function query(me, database, text) {
  return me.data("POST", `${pathOf(database, "posts")}/docs`, {
    body: { query: text, parameters: [] },
    headers: {
      "content-type": "application/query+json",
      "x-ms-documentdb-isquery": "True",
      "x-ms-documentdb-query-enablecrosspartition": "True",
      "x-ms-cosmos-populateindexmetrics": "True",
    },
  });
}

export async function partitionsOf(me, database) {
  const { body } = await me.manage("GET", `${pathOf(database, "posts")}/partitions`);
  return body.partitions;
}

/** Splits a partition at the median of its items, and waits for the end. */
export async function splitPartition(me, database, id) {
  const { body } = await me.manage("POST", `${pathOf(database, "posts")}/partitions/${id}/split`, {
    body: { at: "median" },
  });
  await ended(me, body.id);
}

/** Waits until a split or merge has ended; each answer is an event, so nothing waits for the clock. */
export async function ended(me, id) {
  for (;;) {
    const { body } = await me.manage("GET", `/operations/${id}`);
    if (body.next === undefined) return body;
  }
}

async function splitLargest(me, database) {
  const partitions = await partitionsOf(me, database);
  partitions.sort((a, b) => b.items - a.items);
  await splitPartition(me, database, partitions[0].id);
}

/**
 * Reads an item until the server has refused `refusals` requests with 429; nothing is refused afterwards.
 *
 * Six reads run at once: Node keeps up to two connections for each, and the management port has 32 for all clients.
 */
export async function exhaust(me, database, id, postId, refusals = 5) {
  await me.manage("PUT", `${pathOf(database, "posts")}/throughput/enforcement`, { body: { enforcement: "on" } });
  let refused = 0;
  while (refused < refusals) {
    const reads = await Promise.allSettled([...Array(6)].map(() => read(me, database, id, postId)));
    for (const { reason } of reads.filter(({ status }) => status === "rejected")) {
      if (!/: 429 /.test(reason.message)) throw reason;
      refused += 1;
    }
  }
  await me.manage("PUT", `${pathOf(database, "posts")}/throughput/enforcement`, { body: { enforcement: "off" } });
}
