/** Words for requests: status, reason of the record. */

import type { RecordedRequest } from "./log.ts";

/** Returns status and sub-status. */
export function statusText(request: RecordedRequest): string {
  if (request.status === 0) return "no answer";
  return request.substatus === 0 ? String(request.status) : `${request.status}/${request.substatus}`;
}

/** Returns the colour of a status. */
export function statusKind(status: number): "good" | "info" | "warn" | "bad" {
  if (status === 429) return "warn";
  if (status === 0 || status >= 500) return "bad";
  return status >= 400 ? "warn" : status === 304 ? "info" : "good";
}

/** Returns why the request is in the log. */
export function reasonText(request: RecordedRequest): string {
  switch (request.reason) {
    case "throttled":
      return "The request was refused because the throughput was used up.";
    case "failed":
      return "The request failed.";
    case "expensive":
      return "The charge was above the threshold.";
    case "slow":
      return "The request took longer than the threshold.";
    case "followed":
      return "Every request was recorded at this time.";
  }
}
