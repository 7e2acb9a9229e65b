/** Queries, their plans and the change feed: one page at a time, with everything that the server measures.
 *
 * Promises: aborting the signal of a page cancels the page on the server. */

import { data, type Reply } from "./client.ts";
import { containerPath, partitionKeyHeader, type Json } from "./data.ts";
import { jsonText, parseJson } from "./exact-json.ts";

export interface QueryParameter {
  readonly name: string;
  readonly value: Json;
}

export interface QueryOptions {
  readonly maxItemCount?: number | undefined;
  readonly continuation?: string | null | undefined;
  readonly partitionKey?: readonly (Json | undefined)[] | undefined;
  readonly partitionRange?: string | undefined;
  /** Asks for the work at each physical partition. */
  readonly explain?: boolean | undefined;
  readonly indexMetrics?: boolean | undefined;
  /** Reads numbers that JavaScript cannot hold as ExactNumber. */
  readonly exactNumbers?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** The figures of `x-ms-documentdb-query-metrics`: milliseconds, numbers, bytes, ratios by name. */
export type QueryMetrics = Readonly<Record<string, number>>;

export interface QueryPage {
  readonly rows: readonly Json[];
  readonly text: string;
  readonly continuation: string | null;
  readonly charge: number;
  readonly ms: number;
  readonly serverMs: number | null;
  readonly activityId: string | null;
  readonly metrics: QueryMetrics | null;
  /** The index advice as the server writes it; null if the query did not ask. */
  readonly indexUtilization: Json | null;
  readonly headers: Headers;
}

/** Runs a query and returns one page. */
export async function queryPage(
  database: string,
  container: string,
  query: string,
  parameters: readonly QueryParameter[] = [],
  options: QueryOptions = {},
): Promise<QueryPage> {
  const reply = await data(containerPath(database, container, "docs"), {
    method: "POST",
    headers: queryHeaders(options),
    body: jsonText({ query, parameters }),
    signal: options.signal,
  });
  return queryPageOf(reply, options.exactNumbers ?? false);
}

function queryHeaders(options: QueryOptions): Record<string, string> {
  const headers: Record<string, string> = {
    "content-type": "application/query+json",
    "x-ms-documentdb-isquery": "True",
    "x-ms-documentdb-query-enablecrosspartition": "True",
    "x-ms-documentdb-populatequerymetrics": "True",
    ...options.headers,
  };
  if (options.maxItemCount !== undefined) headers["x-ms-max-item-count"] = String(options.maxItemCount);
  if (options.continuation) headers["x-ms-continuation"] = options.continuation;
  if (options.partitionKey) headers["x-ms-documentdb-partitionkey"] = partitionKeyHeader(options.partitionKey);
  if (options.partitionRange) headers["x-ms-documentdb-partitionkeyrangeid"] = options.partitionRange;
  if (options.explain) headers["x-orrery-explain"] = "true";
  if (options.indexMetrics) headers["x-ms-cosmos-populateindexmetrics"] = "True";
  return headers;
}

function queryPageOf(reply: Reply, isExact: boolean): QueryPage {
  const { headers } = reply;
  const body = ((isExact && reply.text !== "" ? parseJson(reply.text) : reply.json()) ?? {}) as { Documents?: readonly Json[] };
  const serverMs = headers.get("x-ms-request-duration-ms");
  return {
    rows: body.Documents ?? [],
    text: reply.text,
    continuation: headers.get("x-ms-continuation"),
    charge: reply.charge,
    ms: reply.ms,
    serverMs: serverMs === null ? null : Number(serverMs),
    activityId: headers.get("x-ms-activity-id"),
    metrics: metricsOf(headers.get("x-ms-documentdb-query-metrics")),
    indexUtilization: jsonHeader(headers.get("x-ms-cosmos-index-utilization")),
    headers,
  };
}

/** Reads `name=number;name=number`. */
export function metricsOf(text: string | null): QueryMetrics | null {
  if (text === null) return null;
  const metrics: Record<string, number> = {};
  for (const part of text.split(";")) {
    const [name, value] = part.split("=");
    if (name && value !== undefined) metrics[name] = Number(value);
  }
  return metrics;
}

/** Reads a header that is JSON, plain, percent-encoded or in base64; null if it is absent or none. */
export function jsonHeader(text: string | null): Json | null {
  if (text === null) return null;
  for (const read of [plain, percent, base64]) {
    try {
      return JSON.parse(read(text)) as Json;
    } catch {
      // Another encoding.
    }
  }
  return null;
}

function plain(text: string): string {
  return text;
}

function percent(text: string): string {
  return decodeURIComponent(text);
}

function base64(text: string): string {
  const bytes = Uint8Array.from(atob(text), (unit) => unit.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}
