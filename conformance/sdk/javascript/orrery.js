/**
 * The fixtures of every test: a server of its own, a client per scheme, a container in a database of its own.
 *
 * Each test file is a process and starts one server on a free port; the server prints
 * `{"ready":true,"endpoint":…,"endpoint_http":…,"key":…}` on its standard output when it is ready, so nothing here
 * waits for the clock. With ORRERY_ENDPOINT set, the server there is used and none is started.
 *
 * Leaves out: checks. It records every answer (`answers`), below the SDK, for the tests.
 */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import https from "node:https";
import { createInterface } from "node:readline";
import { after, before, describe } from "node:test";
import { fileURLToPath } from "node:url";

import { CosmosClient } from "@azure/cosmos";

import { witness } from "./witness.js";

const READY_MS_MAX = 60_000;
const STOP_MS_MAX = 20_000;
const LOG_CHARACTERS_KEPT = 4_000;

/** The public key of the emulator. */
const EMULATOR_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/** RU/s with which no test is throttled, in one physical partition. */
export const PLENTY_RU = 10_000;
/** Autoscale RU/s for two physical partitions. */
export const TWO_PARTITIONS_RU = 12_000;

/**
 * Runs `tests(world)` as a suite over http and again over https.
 *
 * `world.client` is an open client, `world.endpoint` and `world.key` its address and key, `world.answers` every answer
 * so far; `world.database()` and `world.container(throughput)` create new ones, which are deleted when the suite ends.
 */
export function overBothSchemes(title, tests) {
  for (const scheme of ["http", "https"]) {
    describe(`${title} over ${scheme}`, () => {
      const world = new World(scheme);
      before(() => world.open());
      after(() => world.close());
      tests(world);
    });
  }
}

/** The fixtures of a suite. */
class World {
  constructor(scheme) {
    this.scheme = scheme;
    this.answers = [];
    this.databases = [];
  }

  async open() {
    const endpoints = await server.endpoints();
    this.endpoint = endpoints[this.scheme];
    this.key = endpoints.key;
    this.client = this.clientWith(this.key);
  }

  async close() {
    if (!this.client) return;
    for (const database of this.databases) await database.delete();
    this.client.dispose();
  }

  /** A client of this suite's scheme with any key. */
  clientWith(key, options = {}) {
    // The server's certificate is self-signed; the suite accepts it. Over HTTP the SDK must choose the agent.
    const tls = this.endpoint.startsWith("https:") ? { agent: new https.Agent({ rejectUnauthorized: false, keepAlive: true }) } : {};
    return new CosmosClient({
      endpoint: this.endpoint,
      key,
      httpClient: witness(this.answers),
      connectionPolicy: { enableBackgroundEndpointRefreshing: false },
      ...tls,
      ...options,
    });
  }

  /** A new database. */
  async database(options = {}) {
    const { database } = await this.client.databases.create({ id: `db-${randomUUID()}`, ...options });
    this.databases.push(database);
    return database;
  }

  /** A new container in a new database, partition key /pk. */
  async container(throughput = PLENTY_RU, options = {}) {
    const database = await this.database();
    const { container } = await database.containers.create({ id: "items", partitionKey: "/pk", throughput, ...options });
    return container;
  }

  get lastAnswer() {
    return this.answers.at(-1);
  }
}

/** The server of this process, started on first use. */
const server = {
  started: undefined,

  endpoints() {
    this.started ??= start();
    return this.started.then((running) => running.endpoints);
  },

  async stop() {
    if (this.started) await (await this.started).stop();
  },
};

after(() => server.stop());

async function start() {
  const given = process.env.ORRERY_ENDPOINT;
  if (given) {
    return { endpoints: { http: given, https: given, key: process.env.ORRERY_KEY ?? EMULATOR_KEY }, stop: async () => {} };
  }
  const child = spawn(program(), ["start", "--memory", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--ready-json"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? signal)));
  const failed = new Promise((_, reject) => child.once("error", reject));
  failed.catch(() => {});
  let log = "";
  let panicked = false;
  createInterface({ input: child.stderr }).on("line", (line) => {
    panicked ||= line.includes("panicked at");
    log = `${log}${line}\n`.slice(-LOG_CHARACTERS_KEPT);
  });

  const firstLine = new Promise((resolve) => createInterface({ input: child.stdout }).once("line", resolve));
  const line = await Promise.race([
    firstLine,
    failed,
    ended.then((code) => Promise.reject(new Error(`the server ended with ${code} before it was ready\n${log}`))),
    deadline(READY_MS_MAX, `the server was not ready after ${READY_MS_MAX} ms`),
  ]);
  const said = JSON.parse(line);
  assert.equal(said.ready, true, `the server's first line is not its ready line: ${line}`);

  return {
    endpoints: { http: said.endpoint_http, https: said.endpoint, key: said.key },
    async stop() {
      assert.equal(child.exitCode, null, `the server ended by itself with ${child.exitCode}\n${log}`);
      child.kill("SIGTERM");
      await Promise.race([ended, deadline(STOP_MS_MAX, "the server did not stop")]).catch((error) => {
        child.kill("SIGKILL");
        throw error;
      });
      assert.equal(panicked, false, `the server panicked\n${log}`);
    },
  };
}

/** Rejects after `ms`; does not keep the process alive. */
function deadline(ms, message) {
  return new Promise((_, reject) => setTimeout(() => reject(new Error(message)), ms).unref());
}

/** The server program: $ORRERY_BIN, else the one that `cargo build` leaves in target/debug. */
function program() {
  const path = process.env.ORRERY_BIN || fileURLToPath(new URL("../../../target/debug/orrery", import.meta.url));
  if (!existsSync(path)) {
    throw new Error(
      `no server program at ${path}: build it with \`cargo build -p orrery-cli\`, or name another one in ORRERY_BIN`,
    );
  }
  return path;
}

// Without a program no test of this file can run, so the message is printed once.
if (!process.env.ORRERY_ENDPOINT) program();

/** Asserts that `promise` is refused with this status (and sub-status). Returns the error. */
export async function refused(promise, status, substatus) {
  try {
    await promise;
  } catch (error) {
    assert.equal(error.code, status, `refused with ${error.code}: ${error.message ?? error.stack}`);
    if (substatus !== undefined) assert.equal(error.substatus, substatus);
    return error;
  }
  assert.fail(`expected a refusal with ${status}`);
}

/** Creates the items one after the other. */
export async function fill(container, items) {
  for (const item of items) await container.items.create(item);
}
