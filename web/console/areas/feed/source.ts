/** The follower's source: the change feed through the server's door. */

import { ApiError, data } from "../../api/client.ts";
import { containerPath, containers } from "../../api/data.ts";
import { parseJson } from "../../api/exact-json.ts";
import type { FeedMode, FeedObject, FeedPage, FeedRange, FeedRequest, FeedSource } from "./follower.ts";

const PAGE = 100;
const GONE = 410;

/** Returns the source of a container. */
export function feedSource(
  database: string,
  container: string,
  mode: FeedMode,
  signal: AbortSignal,
): FeedSource {
  return {
    ranges: async (): Promise<readonly FeedRange[]> => containers.ranges(database, container),
    page: async (request) => {
      const headers = headersOf(request, mode);
      const reply = await data(containerPath(database, container, "docs"), { headers, signal, poll: true });
      const body = (parseJson(reply.text || "{}") ?? {}) as { Documents?: readonly FeedObject[] };
      const page: FeedPage = {
        entries: body.Documents ?? [],
        place: reply.headers.get("etag"),
        charge: reply.charge,
        isAtEnd: reply.status === 304,
      };
      return page;
    },
    isGone: (error) => error instanceof ApiError && error.status === GONE,
  };
}

function headersOf(request: FeedRequest, mode: FeedMode): Record<string, string> {
  const headers: Record<string, string> = {
    "a-im": mode === "all" ? "Full-Fidelity Feed" : "Incremental feed",
    "x-ms-max-item-count": String(PAGE),
    "x-ms-documentdb-partitionkeyrangeid": request.rangeId,
  };
  if (mode === "all") headers["x-ms-cosmos-changefeed-wire-format-version"] = "2021-09-15";
  if (request.within) {
    headers["x-ms-start-epk"] = request.within.min;
    headers["x-ms-end-epk"] = request.within.max;
    headers["x-ms-read-key-type"] = "EffectivePartitionKeyRange";
  }
  if (request.place !== null) headers["if-none-match"] = request.place;
  else if (request.start === "now") headers["if-none-match"] = "*";
  else if (request.start instanceof Date) headers["if-modified-since"] = request.start.toUTCString();
  return headers;
}
