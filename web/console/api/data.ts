/** Operations of the database's protocol, typed: databases, containers, items, queries, feeds, scripts,
 * users, permissions, offers.
 *
 * Promises: names of any form reach the server as they are; `path` alone encodes them. Values of
 * items are kept as the server's text where a person edits them, so no digit of a number is lost.
 * Leaves out: sessions and errors (`client.ts`). */

import { data, type Reply, type RequestOptions } from "./client.ts";
import { jsonText } from "./exact-json.ts";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

/** Members that the server adds to each resource. */
export interface System {
  readonly id: string;
  readonly _rid: string;
  readonly _self: string;
  readonly _etag: string;
  readonly _ts: number;
}

export type Database = System;

export interface PartitionKeyDefinition {
  readonly paths: readonly string[];
  readonly kind: string;
  readonly version?: number;
}

export interface Container extends System {
  readonly partitionKey: PartitionKeyDefinition;
  readonly indexingPolicy: JsonObject;
  readonly uniqueKeyPolicy?: { readonly uniqueKeys: readonly { readonly paths: readonly string[] }[] };
  readonly conflictResolutionPolicy?: JsonObject;
  readonly defaultTtl?: number;
  readonly analyticalStorageTtl?: number;
  readonly geospatialConfig?: JsonObject;
  readonly changeFeedPolicy?: JsonObject;
  readonly computedProperties?: readonly { readonly name: string; readonly query: string }[];
  readonly vectorEmbeddingPolicy?: JsonObject;
  readonly fullTextPolicy?: JsonObject;
}

export type Item = JsonObject & { readonly id: string };

export type ScriptKind = "sprocs" | "triggers" | "udfs";

export interface Script extends System {
  readonly body: string;
  readonly triggerType?: "Pre" | "Post";
  readonly triggerOperation?: "All" | "Create" | "Update" | "Delete" | "Replace";
}

export interface Permission extends System {
  readonly permissionMode: "Read" | "All";
  readonly resource: string;
  readonly resourcePartitionKey?: readonly Json[];
  readonly _token: string;
}

export interface Offer extends System {
  readonly resource: string;
  readonly offerResourceId: string;
  readonly offerVersion: string;
  readonly content: {
    readonly offerThroughput?: number;
    readonly offerAutopilotSettings?: { readonly maxThroughput: number };
    readonly offerMinimumThroughputParameters?: JsonObject;
  };
}

export interface PartitionRange {
  readonly id: string;
  readonly minInclusive: string;
  readonly maxExclusive: string;
  readonly parents?: readonly string[];
}

/** A page of a feed. */
export interface Page<T> {
  readonly entries: readonly T[];
  /** The whole answer as the server sent it. */
  readonly text: string;
  readonly continuation: string | null;
  readonly charge: number;
  readonly ms: number;
  readonly headers: Headers;
}

export interface FeedOptions {
  readonly maxItemCount?: number | undefined;
  readonly continuation?: string | null | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly poll?: boolean | undefined;
}

/** Returns a path of the protocol; each segment is encoded here and nowhere else. */
export function path(...segments: readonly string[]): string {
  return `/${segments.map(segment).join("/")}`;
}

/** An address collapses a segment of one or two dots, encoded or not; such names have no path. */
function segment(text: string): string {
  if (text === "." || text === "..") {
    throw new Error(`no address can hold the name ${text}; a program can read the resource by a query`);
  }
  return encodeURIComponent(wellFormed(text));
}

/** Half a surrogate pair has no encoding, so no resource on the server can have such a name. */
function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\uFFFD");
}

/** Returns the path of a container. */
export function containerPath(database: string, container: string, ...more: readonly string[]): string {
  return path("dbs", database, "colls", container, ...more);
}

/** Returns the value of the header that names a partition key; `undefined` in it stands for no value.
 * Headers are ASCII, so other characters are written as escapes of JSON. */
export function partitionKeyHeader(values: readonly (Json | undefined)[]): string {
  const parts = values.map((value) => (value === undefined ? "{}" : jsonText(value)));
  const text = `[${parts.join(",")}]`;
  return text.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function feedHeaders(options: FeedOptions): Record<string, string> {
  const headers: Record<string, string> = { ...options.headers };
  if (options.maxItemCount !== undefined) headers["x-ms-max-item-count"] = String(options.maxItemCount);
  if (options.continuation) headers["x-ms-continuation"] = options.continuation;
  return headers;
}

function pageOf<T>(reply: Reply): Page<T> {
  const body = (reply.json() ?? {}) as Record<string, unknown>;
  let entries: readonly T[] = [];
  for (const value of Object.values(body)) {
    if (Array.isArray(value)) entries = value as T[];
  }
  const continuation = reply.headers.get("x-ms-continuation");
  return { entries, text: reply.text, continuation, charge: reply.charge, ms: reply.ms, headers: reply.headers };
}

/** Reads one page of a feed, such as `/dbs`. */
export async function readPage<T>(feed: string, options: FeedOptions = {}): Promise<Page<T>> {
  const { signal, poll } = options;
  return pageOf<T>(await data(feed, { headers: feedHeaders(options), signal, poll }));
}

/** Reads all pages of a feed, at most `max` entries. */
export async function readAll<T>(feed: string, options: FeedOptions = {}, max = 100_000): Promise<T[]> {
  const entries: T[] = [];
  let continuation: string | null | undefined = options.continuation;
  do {
    const page: Page<T> = await readPage<T>(feed, { ...options, continuation });
    entries.push(...page.entries);
    continuation = page.continuation;
  } while (continuation && entries.length < max);
  return entries;
}

async function resource<T>(at: string, options: RequestOptions = {}): Promise<T> {
  return (await data(at, options)).json() as T;
}

function body(value: unknown, method: string, options: RequestOptions = {}): RequestOptions {
  return { ...options, method, body: value };
}

/** The throughput of a new database or container. */
export type Throughput =
  | { readonly kind: "none" }
  | { readonly kind: "manual"; readonly ru: number }
  | { readonly kind: "autoscale"; readonly maxRu: number };

function throughputHeaders(throughput: Throughput): Record<string, string> {
  if (throughput.kind === "manual") return { "x-ms-offer-throughput": String(throughput.ru) };
  if (throughput.kind === "none") return {};
  return { "x-ms-cosmos-offer-autopilot-settings": JSON.stringify({ maxThroughput: throughput.maxRu }) };
}

export const databases = {
  page: async (options: FeedOptions = {}): Promise<Page<Database>> => readPage("/dbs", options),
  all: async (options: FeedOptions = {}): Promise<Database[]> => readAll("/dbs", options),
  read: async (id: string): Promise<Database> => resource(path("dbs", id)),
  create: async (id: string, throughput: Throughput = { kind: "none" }): Promise<Database> =>
    resource("/dbs", body({ id }, "POST", { headers: throughputHeaders(throughput) })),
  delete: async (id: string): Promise<Reply> => data(path("dbs", id), { method: "DELETE" }),
};

export const containers = {
  page: async (database: string, options: FeedOptions = {}): Promise<Page<Container>> =>
    readPage(path("dbs", database, "colls"), options),
  all: async (database: string, options: FeedOptions = {}): Promise<Container[]> =>
    readAll(path("dbs", database, "colls"), options),
  /** Reads a container; `x-ms-resource-usage` and the index progress are in the reply's headers. */
  read: async (database: string, id: string, options: RequestOptions = {}): Promise<Reply> =>
    data(containerPath(database, id), {
      ...options,
      headers: { "x-ms-documentdb-populatequotainfo": "True", ...options.headers },
    }),
  definition: async (database: string, id: string): Promise<Container> => resource(containerPath(database, id)),
  create: async (database: string, value: object, throughput: Throughput): Promise<Container> =>
    resource(path("dbs", database, "colls"), body(value, "POST", { headers: throughputHeaders(throughput) })),
  replace: async (database: string, id: string, value: unknown, etag?: string): Promise<Container> =>
    resource(containerPath(database, id), body(value, "PUT", { headers: ifMatch(etag) })),
  delete: async (database: string, id: string): Promise<Reply> =>
    data(containerPath(database, id), { method: "DELETE" }),
  ranges: async (database: string, id: string): Promise<PartitionRange[]> =>
    readAll(containerPath(database, id, "pkranges")),
};

function ifMatch(etag: string | undefined): Record<string, string> {
  return etag === undefined ? {} : { "if-match": etag };
}

/** Where an item is: its container, its id and the values of its partition key. */
export interface ItemAddress {
  readonly database: string;
  readonly container: string;
  readonly id: string;
  readonly partitionKey: readonly (Json | undefined)[];
}

function itemRequest(at: ItemAddress, etag?: string): Record<string, string> {
  return { "x-ms-documentdb-partitionkey": partitionKeyHeader(at.partitionKey), ...ifMatch(etag) };
}

function itemPath(at: ItemAddress): string {
  return containerPath(at.database, at.container, "docs", at.id);
}

export const items = {
  page: async (database: string, container: string, options: FeedOptions = {}): Promise<Page<Item>> =>
    readPage(containerPath(database, container, "docs"), options),
  read: async (at: ItemAddress, signal?: AbortSignal): Promise<Reply> =>
    data(itemPath(at), { headers: itemRequest(at), signal }),
  /** Creates an item from its text; `upsert` replaces one with the same id and partition key. */
  create: async (
    database: string,
    container: string,
    text: string,
    partitionKey: readonly (Json | undefined)[],
    options: { readonly upsert?: boolean; readonly signal?: AbortSignal } = {},
  ): Promise<Reply> => {
    const headers: Record<string, string> = { "x-ms-documentdb-partitionkey": partitionKeyHeader(partitionKey) };
    if (options.upsert) headers["x-ms-documentdb-is-upsert"] = "True";
    const { signal } = options;
    return data(containerPath(database, container, "docs"), { method: "POST", headers, body: text, signal });
  },
  /** Replaces an item by this text; with an etag, only if the item has not changed since. */
  replace: async (at: ItemAddress, text: string, etag?: string): Promise<Reply> =>
    data(itemPath(at), { method: "PUT", headers: itemRequest(at, etag), body: text }),
  patch: async (at: ItemAddress, operations: readonly JsonObject[], etag?: string): Promise<Reply> =>
    data(itemPath(at), { method: "PATCH", headers: itemRequest(at, etag), body: { operations } }),
  delete: async (at: ItemAddress, etag?: string, signal?: AbortSignal): Promise<Reply> =>
    data(itemPath(at), { method: "DELETE", headers: itemRequest(at, etag), signal }),
  /** Deletes all items of one partition key. */
  deletePartitionKey: async (
    database: string,
    container: string,
    partitionKey: readonly (Json | undefined)[],
  ): Promise<Reply> =>
    data(containerPath(database, container, "operations", "partitionkeydelete"), {
      method: "POST",
      headers: { "x-ms-documentdb-partitionkey": partitionKeyHeader(partitionKey) },
    }),
};

export const scripts = {
  all: async (database: string, container: string, kind: ScriptKind): Promise<Script[]> =>
    readAll(containerPath(database, container, kind)),
  create: async (database: string, container: string, kind: ScriptKind, value: object): Promise<Script> =>
    resource(containerPath(database, container, kind), body(value, "POST")),
  replace: async (
    database: string,
    container: string,
    kind: ScriptKind,
    id: string,
    value: object,
    etag?: string,
  ): Promise<Script> =>
    resource(containerPath(database, container, kind, id), body(value, "PUT", { headers: ifMatch(etag) })),
  delete: async (database: string, container: string, kind: ScriptKind, id: string): Promise<Reply> =>
    data(containerPath(database, container, kind, id), { method: "DELETE" }),
  /** Runs a stored procedure; the log is in the header `x-ms-documentdb-script-log-results`. */
  run: async (
    database: string,
    container: string,
    id: string,
    partitionKey: readonly (Json | undefined)[],
    inputs: readonly Json[],
    signal?: AbortSignal,
  ): Promise<Reply> =>
    data(containerPath(database, container, "sprocs", id), {
      method: "POST",
      headers: {
        "x-ms-documentdb-partitionkey": partitionKeyHeader(partitionKey),
        "x-ms-documentdb-script-enable-logging": "True",
      },
      body: jsonText(inputs),
      signal,
    }),
};

export const users = {
  all: async (database: string): Promise<System[]> => readAll(path("dbs", database, "users")),
  create: async (database: string, id: string): Promise<System> =>
    resource(path("dbs", database, "users"), body({ id }, "POST")),
  delete: async (database: string, id: string): Promise<Reply> =>
    data(path("dbs", database, "users", id), { method: "DELETE" }),
};

export const permissions = {
  all: async (database: string, user: string): Promise<Permission[]> =>
    readAll(path("dbs", database, "users", user, "permissions")),
  create: async (database: string, user: string, value: object): Promise<Permission> =>
    resource(path("dbs", database, "users", user, "permissions"), body(value, "POST")),
  replace: async (database: string, user: string, id: string, value: object): Promise<Permission> =>
    resource(path("dbs", database, "users", user, "permissions", id), body(value, "PUT")),
  delete: async (database: string, user: string, id: string): Promise<Reply> =>
    data(path("dbs", database, "users", user, "permissions", id), { method: "DELETE" }),
};

export const conflicts = {
  all: async (database: string, container: string): Promise<JsonObject[]> =>
    readAll(containerPath(database, container, "conflicts")),
  delete: async (database: string, container: string, id: string): Promise<Reply> =>
    data(containerPath(database, container, "conflicts", id), { method: "DELETE" }),
};

export const offers = {
  all: async (options: FeedOptions = {}): Promise<Offer[]> => readAll("/offers", options),
  replace: async (offer: Offer): Promise<Offer> =>
    resource(path("offers", offer.id), body(offer, "PUT")),
};
