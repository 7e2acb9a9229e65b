/** Names of databases and containers, for searching: read by queries that return ids only. */

import { data } from "./client.ts";
import { path } from "./data.ts";

export interface Place {
  readonly database: string;
  readonly container: string;
}

const DATABASES_MAX = 200;
const FOUND_MAX = 20;

/** Returns ids of a feed, such as `/dbs`, that contain a text in any case; at most `max`. */
export async function findIds(feed: string, text: string, max: number, signal?: AbortSignal): Promise<string[]> {
  const query = `SELECT TOP ${max} VALUE c.id FROM c WHERE CONTAINS(c.id, @text, true)`;
  const reply = await data(feed, {
    method: "POST",
    headers: {
      "content-type": "application/query+json",
      "x-ms-documentdb-isquery": "True",
      "x-ms-max-item-count": String(max),
    },
    body: { query, parameters: [{ name: "@text", value: text }] },
    signal,
  });
  const body = (reply.json() ?? {}) as Record<string, unknown>;
  for (const value of Object.values(body)) {
    if (Array.isArray(value)) return value.filter((id) => typeof id === "string");
  }
  return [];
}

/** Returns containers whose name contains the last word of a text, from all databases. */
export async function findContainers(text: string, signal?: AbortSignal): Promise<Place[]> {
  const word = text.split(/[\s/]+/).filter(Boolean).at(-1) ?? "";
  const places: Place[] = [];
  for (const database of await findIds("/dbs", "", DATABASES_MAX, signal)) {
    const wanted = database.toLowerCase().includes(word.toLowerCase()) ? "" : word;
    const ids = await findIds(path("dbs", database, "colls"), wanted, FOUND_MAX, signal);
    for (const container of ids) places.push({ database, container });
    if (places.length >= FOUND_MAX) break;
  }
  return places;
}

/** Joins paths of a partition key by blanks, for an address; a blank in a path is encoded. */
export function joinedPaths(paths: readonly string[]): string {
  return paths.map((path) => path.replace(/[% ]/g, encodeURIComponent)).join(" ");
}

/** Returns the paths that `joinedPaths` joined. */
export function splitPaths(text: string): string[] {
  return text.split(" ").map((path) => path.replace(/%20/g, " ").replace(/%25/g, "%"));
}
