/**
 * The driver for the JavaScript SDK: carries out the operations of the table with @azure/cosmos.
 *
 * It reads and writes one line of JSON for each request; conformance/sdk/scenarios/driver.py describes the protocol.
 * The SDK is the one that conformance/sdk/javascript pins. The driver uses each of the SDK's objects through a proxy
 * that records every method call (`watch`), so that the run can report methods that no scenario calls.
 */

import https from "node:https";
import { createInterface } from "node:readline";

import { Arguments, Missing } from "./arguments.js";
import { answerOf, refusal } from "./answers.js";
import { feeds } from "./feeds.js";
import { items } from "./items.js";
import { resources } from "./resources.js";
import { scripts } from "./scripts.js";
import { methods, reached, sdk, watch } from "./watch.js";
import { witness } from "../../javascript/witness.js";

/** The clients: the default one with the server's key, or the one that `connect` created. */
class Clients {
  constructor(endpoint, key) {
    this.endpoint = endpoint;
    this.key = key;
    this.answers = [];
    this.usual = this.made(key, {});
    this.current = this.usual;
  }

  made(key, options) {
    return watch(new sdk.CosmosClient({ endpoint: this.endpoint, key, ...this.basics(), ...options }));
  }

  /** The options of every client. The server's certificate is self-signed; over HTTP the SDK chooses the agent. */
  basics() {
    const connectionPolicy = { enableBackgroundEndpointRefreshing: false };
    const isSecure = this.endpoint.startsWith("https:");
    const tls = isSecure ? { agent: new https.Agent({ rejectUnauthorized: false, keepAlive: true }) } : {};
    return { connectionPolicy, httpClient: witness(this.answers), ...tls };
  }

  /** Replaces the default client until the end of the scenario. */
  connect(a) {
    const key = a.take("key") ?? this.key;
    const policy = { enableBackgroundEndpointRefreshing: false };
    const regions = a.take("preferred_regions");
    if (regions) policy.preferredLocations = regions;
    const consistencyLevel = a.take("consistency");
    const byText = a.take("connection_string");
    const token = a.take("token");
    this.leave();
    if (token) {
      // A client without a key: the token is for the one resource.
      this.current = this.made(undefined, { connectionPolicy: policy, resourceTokens: { [token.resource]: token.token } });
      return { status: 200, headers: {}, body: { endpoint: this.endpoint } };
    }
    this.current = byText
      ? watch(new sdk.CosmosClient({ connectionString: `AccountEndpoint=${this.endpoint};AccountKey=${key};`, ...this.basics() }))
      : this.made(key, { connectionPolicy: policy, ...(consistencyLevel ? { consistencyLevel } : {}) });
    return { status: 200, headers: {}, body: { endpoint: this.endpoint } };
  }

  /** Goes back to the default client. Returns the answers of the server since the reset before. */
  reset() {
    this.leave();
    return this.answers.splice(0);
  }

  leave() {
    if (this.current !== this.usual) this.current.dispose();
    this.current = this.usual;
  }

  client() {
    return this.current;
  }

  database(a) {
    return this.client().database(a.take("database"));
  }

  container(a) {
    return this.database(a).container(a.take("container"));
  }
}

const clients = new Clients(process.env.ORRERY_ENDPOINT, process.env.ORRERY_KEY);
const operations = {
  connect: async (a) => clients.connect(a),
  async read_account() {
    const response = await clients.client().getDatabaseAccount();
    const { consistencyPolicy, writableLocations } = response.resource;
    return answerOf(response, { consistency: consistencyPolicy, writable: writableLocations[0]?.name });
  },
  ...resources(clients),
  ...items(clients),
  ...feeds(clients),
  ...scripts(clients),
};

/** Returns the answer to one line. */
async function said({ do: asked, with: given }) {
  if (asked === "reset") {
    return { answers: clients.reset() };
  }
  if (asked === "methods") return { methods: methods(), reached: [...reached] };
  if (!operations[asked]) return { missing: asked };
  const a = new Arguments(given);
  let reply;
  try {
    reply = await operations[asked](a);
  } catch (error) {
    if (error instanceof Missing) return { missing: `${asked} with ${error.message}` };
    reply = refusal(error);
  }
  if (a.unused()) return { missing: `${asked} with ${a.unused()}` };
  // The SDK hides most headers of feeds.
  if (reply.items) reply.headers = { ...clients.answers.at(-1)?.headers, ...reply.headers };
  return reply;
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await said(JSON.parse(line)))}\n`);
}
clients.reset();
clients.usual.dispose();
process.exit(0); // the SDK's sockets would keep the process for a while
