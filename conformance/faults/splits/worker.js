/**
 * A client of the workload on the JavaScript SDK, with the tasks, commands and history of `worker.py`.
 *
 *     worker.js PLAN
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { openSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { crc32 } from "node:zlib";

const require = createRequire(new URL("../../sdk/javascript/package.json", import.meta.url));
const { createDefaultHttpClient } = require("@azure/core-rest-pipeline");
const { ChangeFeedStartFrom, CosmosClient, StatusCodes } = require("@azure/cosmos");

const PROGRESS_EVERY = 10;
const RANKS = 1000;
const COUNTER = "n";
const FIELDS = "c.pk, c.id, c.v, c.rank, c.n";
const BATCH_IDS = ["b0", "b1", "b2"];
const SERVER_ERROR = 500;
const REQUEST_TIMEOUT = 408;

const plan = JSON.parse(process.argv[2]);

/** Returns nanoseconds of the machine's monotonic clock, exact to the microsecond, as whole numbers. */
const now = () => Number(process.hrtime.bigint());
const say = (word) => process.stdout.write(`${word}\n`);
const rankOf = (pk, id) => crc32(`${pk}/${id}`) % RANKS;
const rowOf = (found) => [found.pk, found.id, found.v, found.rank ?? null, found.n ?? null];

/** Random numbers of a seed (mulberry32), so that a run can be repeated. */
class Chance {
  constructor(seed) {
    this.state = crc32(seed);
  }

  /** Returns a whole number from `least` to below `end`. */
  between(least, end) {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return least + (((mixed ^ (mixed >>> 14)) >>> 0) % (end - least));
  }

  of(list) {
    return list[this.between(0, list.length)];
  }
}

/** Writes the history and reports the progress. */
const notes = {
  file: openSync(plan.history, "w"),
  count: 0,
  values: 0,

  add(kind, record) {
    writeSync(this.file, `${JSON.stringify({ kind, client: plan.client, ...record })}\n`);
    this.count += 1;
    if (this.count % PROGRESS_EVERY === 0) {
      this.wake();
      say(`${PROGRESS_EVERY}`);
    }
  },

  /** Waits until this client has done further operations, which sets the pace of polling. */
  someMore() {
    return new Promise((resolve) => (this.wake = resolve));
  },

  /** Ends the wait. */
  wake() {},

  /** Returns a unique value. */
  newValue() {
    this.values += 1;
    return `${plan.client}:${this.values}`;
  },
};

/** Attempts of the current operation whose connection broke. */
const lost = new AsyncLocalStorage();

function newClient() {
  const client = createDefaultHttpClient();
  const counting = {
    async sendRequest(request) {
      try {
        return await client.sendRequest(request);
      } catch (error) {
        const attempts = lost.getStore();
        if (attempts && request.method !== "GET" && error.code !== "ECONNREFUSED") attempts.count += 1;
        throw error;
      }
    },
  };
  const connectionPolicy = { enableBackgroundEndpointRefreshing: false };
  return new CosmosClient({ endpoint: plan.endpoint, key: plan.key, httpClient: counting, connectionPolicy });
}

const containerOf = (client) => client.database(plan.database).container(plan.container);

/** Returns the record of an operation that threw. */
function failureOf(error) {
  const text = `${error.message ?? error}`.replaceAll("\n", " ");
  if (typeof error.code === "number") {
    const unknown = error.code >= SERVER_ERROR || error.code === REQUEST_TIMEOUT;
    return { outcome: unknown ? "unknown" : "failed", status: error.code, substatus: error.substatus ?? 0, error: text };
  }
  return { outcome: "unknown", status: 0, error: `${error.name} ${error.code}: ${text}` };
}

/** Returns the LSN of a session token `RANGE:VERSION#LSN#...`. */
function lsnOf(headers) {
  const lsn = `${headers?.["x-ms-session-token"] ?? ""}`.split("#")[1];
  return lsn === undefined ? null : Number(lsn);
}

/** Makes a write with the SDK and records its result. */
async function write(about, status, call) {
  const record = { ...about, invoked: now(), returned: 0, status, outcome: "ok", lsn: null };
  const attempts = { count: 0 };
  try {
    const response = await lost.run(attempts, call);
    record.lsn = lsnOf(response.headers);
    if (about.do === "batch" && response.code !== status) {
      Object.assign(record, { outcome: "failed", status: response.code, error: JSON.stringify(response.result) });
    }
  } catch (error) {
    Object.assign(record, failureOf(error));
  }
  record.returned = now();
  record.lost = Math.max(0, attempts.count - (record.outcome === "unknown" ? 1 : 0));
  notes.add("write", record);
}

/** Reads pages with `pages(add)` and records them with their errors. */
async function look(about, pages) {
  const record = { wanted: null, covers: {}, ...about, invoked: now(), returned: 0, pages: [] };
  try {
    await pages((rows) => record.pages.push([now(), rows]));
  } catch (error) {
    Object.assign(record, failureOf(error));
  }
  record.returned = now();
  notes.add("look", record);
}

async function everyPage(iterator, add) {
  while (iterator.hasMoreResults()) {
    const { resources } = await iterator.fetchNext();
    add((resources ?? []).map(rowOf));
  }
}

/** Single operations and batches on some logical partitions, one after the other. */
class Writer {
  constructor(container, chance, keys) {
    Object.assign(this, { container, chance, keys });
  }

  /** Does one random operation; the numbers are cumulative numbers of each kind among a hundred. */
  async step() {
    const [pk, id, dice] = [this.chance.of(this.keys), this.chance.of(plan.ids), this.chance.between(0, 100)];
    const acts = { 8: "create", 22: "upsert", 31: "replace", 39: "patch", 46: "delete", 54: "increment", 60: "batch" };
    Object.assign(acts, { 84: "read", 90: "readCounter", 100: "window" });
    for (const [least, act] of Object.entries(acts)) {
      if (dice < Number(least)) return this[act](pk, id);
    }
  }

  body(pk, id, v) {
    return { id, pk, v, rank: rankOf(pk, id), pad: "x".repeat(this.chance.between(0, 400)) };
  }

  create(pk, id) {
    const v = notes.newValue();
    return write({ do: "create", pk, ids: [id], v }, 201, () => this.container.items.create(this.body(pk, id, v)));
  }

  upsert(pk, id) {
    const v = notes.newValue();
    return write({ do: "upsert", pk, ids: [id], v }, 200, () => this.container.items.upsert(this.body(pk, id, v)));
  }

  replace(pk, id) {
    const v = notes.newValue();
    const call = () => this.container.item(id, pk).replace(this.body(pk, id, v));
    return write({ do: "replace", pk, ids: [id], v }, 200, call);
  }

  patch(pk, id) {
    const v = notes.newValue();
    const call = () => this.container.item(id, pk).patch([{ op: "set", path: "/v", value: v }]);
    return write({ do: "patch", pk, ids: [id], v }, 200, call);
  }

  increment(pk) {
    const v = notes.newValue();
    const changes = [{ op: "set", path: "/v", value: v }, { op: "incr", path: "/n", value: 1 }];
    return write({ do: "increment", pk, ids: [COUNTER], v }, 200, () => this.container.item(COUNTER, pk).patch(changes));
  }

  delete(pk, id) {
    return write({ do: "delete", pk, ids: [id], v: null }, 204, () => this.container.item(id, pk).delete());
  }

  batch(pk) {
    const v = notes.newValue();
    const operations = BATCH_IDS.map((id) => ({ operationType: "Upsert", resourceBody: this.body(pk, id, v) }));
    return write({ do: "batch", pk, ids: BATCH_IDS, v }, 200, () => this.container.items.batch(operations, pk));
  }

  read(pk, id) {
    return look({ do: "read", wanted: [[pk, id]] }, async (add) => {
      const { resource, statusCode, substatus } = await this.container.item(id, pk).read();
      // The SDK returns a missing item as an answer without a resource.
      if (statusCode === StatusCodes.NotFound && substatus) {
        throw Object.assign(new Error("not found"), { code: statusCode, substatus });
      }
      add(resource ? [rowOf(resource)] : []);
    });
  }

  readCounter(pk) {
    return this.read(pk, COUNTER);
  }

  /** Reads a whole logical partition in one page, which shows one moment. */
  window(pk) {
    const query = this.container.items.query(`SELECT ${FIELDS} FROM c`, { partitionKey: pk, maxItemCount: 1000 });
    return look({ do: "window", covers: { pk } }, (add) => everyPage(query, add));
  }
}

/** Queries over pages: the whole container, sorted, filtered, one logical partition, and with interruptions. */
class Asker {
  constructor(container, chance, keys) {
    Object.assign(this, { container, chance, keys });
  }

  step() {
    return this[this.chance.of(["natural", "ordered", "filtered", "partition", "resumed"])]();
  }

  options() {
    return { maxItemCount: this.chance.of([5, 20, 50, 200]), maxDegreeOfParallelism: this.chance.of([1, 4]) };
  }

  ask(about, query, options = {}) {
    const iterator = this.container.items.query(query, { ...this.options(), ...options });
    return look(about, (add) => everyPage(iterator, add));
  }

  natural() {
    return this.ask({ do: "natural" }, `SELECT ${FIELDS} FROM c`);
  }

  ordered() {
    return this.ask({ do: "ordered", ordered: true }, `SELECT ${FIELDS} FROM c ORDER BY c.rank`);
  }

  filtered() {
    const below = this.chance.between(1, RANKS);
    const parameters = [{ name: "@below", value: below }];
    const query = { query: `SELECT ${FIELDS} FROM c WHERE c.rank < @below`, parameters };
    return this.ask({ do: "filtered", covers: { below } }, query);
  }

  partition() {
    const pk = this.chance.of(this.keys);
    const about = { do: "partition", covers: { pk }, ordered: true };
    return this.ask(about, `SELECT ${FIELDS} FROM c ORDER BY c.rank`, { partitionKey: pk });
  }

  /** Runs a query that is interrupted after one or two pages and resumed from its continuation, repeatedly. */
  resumed() {
    const pk = this.chance.of(this.keys);
    return look({ do: "resumed", covers: { pk }, ordered: true }, async (add) => {
      const options = { partitionKey: pk, maxItemCount: this.chance.of([1, 3, 5]) };
      let continuationToken;
      do {
        const query = `SELECT ${FIELDS} FROM c ORDER BY c.rank`;
        const iterator = this.container.items.query(query, { ...options, continuationToken });
        for (let page = this.chance.between(1, 3); page > 0 && iterator.hasMoreResults(); page -= 1) {
          const found = await iterator.fetchNext();
          add((found.resources ?? []).map(rowOf));
          continuationToken = found.continuationToken;
        }
      } while (continuationToken);
    });
  }
}

/** Reads the change feed by the feed ranges at the start, each from its continuation. */
class Reader {
  constructor(container, chance) {
    Object.assign(this, { container, chance, ranges: [] });
  }

  /** Reads some pages of one range. */
  async step() {
    if (this.ranges.length === 0) {
      // No history yet, so there is nothing to record after an interruption: the next step begins again.
      const found = await this.container.getFeedRanges().catch(() => []);
      this.ranges = found.map((range) => ({ range, token: undefined }));
      return;
    }
    const atItsEnd = await this.some(this.chance.between(0, this.ranges.length), this.chance.between(1, 4));
    if (atItsEnd && !drain.now) await notes.someMore();
  }

  /** Reads every range to its end. */
  async drain() {
    for (let place = 0; place < this.ranges.length; place += 1) {
      while (!(await this.some(place, Infinity)));
    }
  }

  /** Reads a limited number of pages of a range. Returns true at the end of the range. */
  async some(place, most) {
    const { range, token } = this.ranges[place];
    const changeFeedStartFrom = token ? ChangeFeedStartFrom.Continuation(token) : ChangeFeedStartFrom.Beginning(range);
    const options = { changeFeedStartFrom, maxItemCount: this.chance.of([3, 10, 50]) };
    const iterator = this.container.items.getChangeFeedIterator(options);
    for (let count = 0; count < most; count += 1) {
      const page = { reader: plan.client, range: place, invoked: now(), returned: 0, rows: [], drained: false };
      try {
        const found = await iterator.readNext();
        page.rows = (found.result ?? []).map((i) => [i.pk, i.id, i.v, i._lsn, null]);
        page.drained = found.statusCode === StatusCodes.NotModified;
        this.ranges[place].token = found.continuationToken;
      } catch (error) {
        Object.assign(page, failureOf(error));
      }
      page.returned = now();
      notes.add("feed", page);
      if (page.drained) return true;
      // An error of the server would occur again; a broken connection would not.
      if (page.outcome) return page.status !== 0;
    }
    return false;
  }
}

/** Runs one step after the other until the client is told to stop. */
async function steps(actor, stop) {
  while (!stop.now) await actor.step();
}

const quiet = { now: false };
const drain = { now: false };
const input = createInterface({ input: process.stdin });
input.on("line", (word) => {
  if (word === "quiet") quiet.now = true;
  if (word === "drain") drain.now = true;
  if (drain.now) notes.wake();
});
input.on("close", () => {
  quiet.now = true;
  drain.now = true;
  notes.wake();
});

const client = newClient();
const container = containerOf(client);
const chance = [0, 1, 2, 3, 4].map((task) => new Chance(`${plan.seed}/${plan.client}/${task}`));
const halves = [0, 1].map((half) => plan.keys.filter((_, place) => place % 2 === half));
const actors = [...halves, plan.shared].map((keys, n) => new Writer(container, chance[2 + n], keys));
actors.push(new Asker(container, chance[1], [...plan.keys, ...plan.shared]));
const reader = new Reader(container, chance[0]);
const reading = steps(reader, drain);
await Promise.all(actors.map((actor) => steps(actor, quiet)));
say("quiet");
await reading;
await reader.drain();
say("drained");
input.close();
process.stdin.unref?.();
client.dispose();
