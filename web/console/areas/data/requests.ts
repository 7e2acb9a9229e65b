/** Requests of the data pages that have no operation of their own in `api/data.ts`.
 *
 * Promises: names come in the order of the alphabet and in pages, so a database of 10,000
 * containers costs a few small answers.
 * Leaves out: what pages do with the answers. */

import { data, session, type Reply } from "../../api/client.ts";
import {
  containerPath,
  path,
  type Container,
  type Offer,
  type ScriptKind,
} from "../../api/data.ts";
import { useStore } from "../../store.ts";

/** Names in an answer, and the position after them. */
export interface NamePage {
  readonly names: readonly string[];
  readonly continuation: string | null;
}

const NAMES_PER_PAGE = 1_000;

/** Rows of a query over the resources of a feed, such as the containers of a database. */
export interface ResourcePage<T> {
  readonly rows: readonly T[];
  readonly continuation: string | null;
}

/** Runs a query over resources and returns one page. */
export async function queryResources<T>(
  feed: string,
  query: string,
  parameters: readonly { readonly name: string; readonly value: string }[] = [],
  continuation: string | null = null,
  signal?: AbortSignal,
): Promise<ResourcePage<T>> {
  const headers: Record<string, string> = {
    "content-type": "application/query+json",
    "x-ms-documentdb-isquery": "True",
    "x-ms-documentdb-query-enablecrosspartition": "True",
    "x-ms-max-item-count": String(NAMES_PER_PAGE),
  };
  if (continuation !== null) headers["x-ms-continuation"] = continuation;
  const reply = await data(feed, { method: "POST", headers, body: { query, parameters }, signal });
  return { rows: rowsOf<T>(reply), continuation: reply.headers.get("x-ms-continuation") };
}

function rowsOf<T>(reply: Reply): readonly T[] {
  const body = (reply.json() ?? {}) as Record<string, unknown>;
  for (const value of Object.values(body)) if (Array.isArray(value)) return value as T[];
  return [];
}

/** Reads names of a feed in the order of the alphabet. */
export async function namePage(
  feed: string,
  continuation: string | null,
  signal?: AbortSignal,
): Promise<NamePage> {
  const query = "SELECT VALUE c.id FROM c ORDER BY c.id";
  const page = await queryResources<string>(feed, query, [], continuation, signal);
  return { names: page.rows, continuation: page.continuation };
}

/** Feeds that the tree shows. */
export const feeds = {
  databases: "/dbs",
  containers: (database: string): string => path("dbs", database, "colls"),
  users: (database: string): string => path("dbs", database, "users"),
  scripts: (database: string, container: string, kind: ScriptKind): string =>
    containerPath(database, container, kind),
};

/** Returns the offer of a database or container by its resource id, or null if it has none. */
export async function offerOf(rid: string, signal?: AbortSignal): Promise<Offer | null> {
  const query = "SELECT * FROM c WHERE c.offerResourceId = @rid";
  const page = await queryResources<Offer>("/offers", query, [{ name: "@rid", value: rid }], null, signal);
  return page.rows[0] ?? null;
}

/** An offer, the lowest throughput that the server accepts, and true while partitions are split. */
export interface OfferState {
  readonly offer: Offer;
  readonly minimum: number | null;
  readonly isPending: boolean;
}

function offerState(reply: Reply): OfferState {
  const minimum = Number(reply.headers.get("x-ms-cosmos-min-throughput"));
  return {
    offer: reply.json() as Offer,
    minimum: Number.isFinite(minimum) && minimum > 0 ? minimum : null,
    isPending: reply.headers.get("x-ms-offer-replace-pending") === "true",
  };
}

/** Reads an offer with its minimum. */
export async function readOffer(id: string, signal?: AbortSignal): Promise<OfferState> {
  return offerState(await data(path("offers", id), { signal }));
}

/** Replaces the throughput of an offer. */
export async function replaceThroughput(offer: Offer, ru: number): Promise<OfferState> {
  const { offerAutopilotSettings } = offer.content;
  const content =
    offerAutopilotSettings === undefined
      ? { ...offer.content, offerThroughput: ru }
      : { offerAutopilotSettings: { ...offerAutopilotSettings, maxThroughput: ru } };
  return offerState(
    await data(path("offers", offer.id), {
      method: "PUT",
      headers: { "if-match": offer._etag },
      body: { ...offer, content },
    }),
  );
}

/** Changes an offer between manual throughput and autoscale. The server chooses the first figure. */
export async function migrateOffer(offer: Offer, to: "manual" | "autoscale"): Promise<OfferState> {
  const header =
    to === "autoscale"
      ? "x-ms-cosmos-migrate-offer-to-autopilot"
      : "x-ms-cosmos-migrate-offer-to-manual-throughput";
  const body = { ...offer, content: {} };
  return offerState(
    await data(path("offers", offer.id), { method: "PUT", headers: { [header]: "true" }, body }),
  );
}

/** A container with the size of its data. */
export interface ContainerState {
  readonly definition: Container;
  readonly items: number | null;
  readonly bytes: number | null;
  /** Progress of the index after a change of the policy, in percent. */
  readonly indexProgress: number | null;
}

/** Reads a container, its usage and the progress of its index. */
export async function readContainer(
  database: string,
  container: string,
  signal?: AbortSignal,
): Promise<ContainerState> {
  const reply = await data(containerPath(database, container), {
    headers: { "x-ms-documentdb-populatequotainfo": "True" },
    signal,
  });
  const usage = usageOf(reply.headers.get("x-ms-resource-usage"));
  const progress = reply.headers.get("x-ms-documentdb-collection-index-transformation-progress");
  const kilobytes = usage.get("documentsSize");
  return {
    definition: reply.json() as Container,
    items: usage.get("documentsCount") ?? null,
    bytes: kilobytes === undefined ? null : kilobytes * 1_024,
    indexProgress: progress === null ? null : Number(progress),
  };
}

/** Reads `documentsCount=2;documentsSize=1;`. */
function usageOf(header: string | null): Map<string, number> {
  const usage = new Map<string, number>();
  for (const part of (header ?? "").split(";")) {
    const [name, value] = part.split("=");
    if (name && value !== undefined && value !== "") usage.set(name, Number(value));
  }
  return usage;
}

/** Returns true if the session may only read. */
export function useReadOnly(): boolean {
  return useStore(session)?.readOnly ?? false;
}
