/** The bounds of a run: what a person typed on the page, or else the settings of the console. */

import { settings } from "../../settings.ts";
import { createKeptStore, createStore } from "../../store.ts";

/** What a person typed; null takes the settings. Kept until the console is closed. */
export interface TypedBounds {
  readonly pageSize: number | null;
  /** Zero is no limit. */
  readonly ruLimit: number | null;
  /** Null or zero is no limit. */
  readonly timeoutSeconds: number | null;
  /** The priority of the requests; empty for the server's default. */
  readonly priority: "" | "High" | "Low";
  /** The number of a throughput bucket; empty for none. */
  readonly bucket: string;
}

/** The bounds of a run; null is no limit. */
export interface RunBounds {
  readonly pageSize: number;
  readonly ruLimit: number | null;
  readonly timeoutMs: number | null;
  /** Request headers for the priority and the throughput bucket. */
  readonly headers: Readonly<Record<string, string>>;
}

export const typedBounds = createStore<TypedBounds>({
  pageSize: null,
  ruLimit: null,
  timeoutSeconds: null,
  priority: "",
  bucket: "",
});

/** Returns the bounds of the next run. */
export function runBounds(): RunBounds {
  const { pageSize, ruLimit, timeoutSeconds, priority, bucket } = typedBounds.get();
  const headers: Record<string, string> = {};
  if (priority !== "") headers["x-ms-cosmos-priority-level"] = priority;
  if (bucket !== "") headers["x-ms-cosmos-throughput-bucket"] = bucket;
  const limits = settings.get();
  const ru = ruLimit ?? limits.queryRuLimit;
  return {
    pageSize: pageSize ?? limits.pageSize,
    ruLimit: ru > 0 ? ru : null,
    timeoutMs: timeoutSeconds ? timeoutSeconds * 1_000 : null,
    headers,
  };
}

/** The place of the results: below the editor, or beside the editor on wide screens. */
export const layout = createKeptStore<"below" | "beside">(
  "query-layout",
  "below",
  (value): value is "below" | "beside" => value === "below" || value === "beside",
);
