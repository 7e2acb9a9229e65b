/** Asks the server what a query costs with another indexing policy, and applies a policy.
 *
 * Promises: measuring changes nothing and is charged to no container; applying is refused if the
 * container changed since its definition was read. */

import { manage } from "../../api/client.ts";
import { type Container, containers, path } from "../../api/data.ts";
import { jsonText } from "../../api/exact-json.ts";
import type { IndexingPolicy } from "./advice.ts";
import type { RunRequest } from "./run.ts";

/** One side of a measurement. */
export interface MeasuredSide {
  readonly error?: string;
  readonly ru: number;
  readonly rows: number;
  readonly retrieved: number;
  readonly partitions: number;
  readonly indexBytes: number;
  readonly why: readonly { readonly code: string; readonly text: string; readonly ru: number }[];
}

export interface Measurement {
  readonly sample: {
    readonly items: number;
    readonly containerItems: number;
    readonly complete: boolean;
  };
  readonly now: MeasuredSide;
  readonly proposed: MeasuredSide;
}

const PAGE_ITEMS_MAX = 1_000;
const PAGES_MAX = 20;

/** Measures the pages that a run read, with the policy as it is and as proposed. */
export async function measure(
  request: RunRequest,
  pages: number,
  policy: IndexingPolicy,
  signal: AbortSignal,
): Promise<Measurement> {
  const { database, container } = request;
  const size = request.pageSize;
  const body = {
    text: request.query,
    parameters: request.parameters,
    ...(request.partitionKey && { partitionKey: jsonText(request.partitionKey) }),
    ...(size !== null && { maxItems: Math.min(size, PAGE_ITEMS_MAX) }),
    pages: Math.max(1, Math.min(pages, PAGES_MAX)),
    indexingPolicy: policy,
  };
  const route = `${path("dbs", database, "colls", container)}/prediction/query`;
  const reply = await manage(route, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: jsonText(body),
    signal,
  });
  return reply.json() as Measurement;
}

/** Replaces the indexing policy of a container and returns the new definition. */
export async function applyPolicy(
  database: string,
  definition: Container,
  policy: IndexingPolicy,
): Promise<Container> {
  const changed = { ...definition, indexingPolicy: policy };
  return containers.replace(database, definition.id, changed, definition._etag);
}

/** Returns the progress of reindexing, 0 to 100. */
export async function indexProgress(database: string, container: string): Promise<number> {
  const reply = await containers.read(database, container, { poll: true });
  const header = reply.headers.get("x-ms-documentdb-collection-index-transformation-progress");
  const progress = Number(header ?? "100");
  return progress < 0 || !Number.isFinite(progress) ? 100 : progress;
}

