/** The settings that a person proposes, as the form holds them, and as the request that asks for them.
 *
 * Leaves out: checks that only the server can make; its message is shown. */

import type { JsonObject } from "../../api/data.ts";
import type { PredictionProposal } from "../../api/management.ts";

export type ThroughputKind = "keep" | "manual" | "autoscale";

export interface ProposalText {
  /** The paths of the partition key, the outermost first. */
  readonly keys: readonly string[];
  readonly throughput: ThroughputKind;
  readonly ru: string;
  readonly partitions: string;
  readonly changesPolicy: boolean;
  readonly policy: string;
  readonly query: string;
}

/** The levels that a partition key may have. */
export const LEVELS = 3;

/** Returns the request, or the text of a mistake and the field that it is in. */
export function requestOf(proposal: ProposalText, currentKeys: readonly string[]): { request: PredictionProposal } | Mistake {
  const keys = proposal.keys.map((key) => key.trim()).filter((key) => key !== "");
  for (const key of keys) {
    if (!key.startsWith("/")) return { field: "key", message: `“${key}” is not a path. A path starts with /, such as /userId.` };
  }
  if (keys.length === 0) return { field: "key", message: "The partition key has no path. Name one, such as /userId." };
  const policy = proposal.changesPolicy ? parsed(proposal.policy) : undefined;
  if (policy === null) return { field: "policy", message: "The policy is not a JSON object. Correct the marked place." };
  const ru = proposal.throughput === "keep" ? undefined : whole(proposal.ru);
  if (ru === null) return { field: "ru", message: "The throughput is a whole number of RU/s, such as 4000." };
  const partitions = proposal.partitions.trim() === "" ? undefined : whole(proposal.partitions);
  if (partitions === null) return { field: "partitions", message: "The number of partitions is a whole number from 1 to 100." };
  const isSameKey = JSON.stringify(keys) === JSON.stringify(currentKeys);
  const query = proposal.query.trim();
  return {
    request: {
      partitionKey: isSameKey ? undefined : { paths: keys, kind: keys.length > 1 ? "MultiHash" : "Hash", version: 2 },
      throughput: proposal.throughput === "manual" ? ru : undefined,
      autoscaleMaxThroughput: proposal.throughput === "autoscale" ? ru : undefined,
      indexingPolicy: policy,
      physicalPartitions: partitions,
      queries: query === "" ? undefined : [{ text: query }],
    },
  };
}

export interface Mistake {
  readonly field: "key" | "policy" | "ru" | "partitions";
  readonly message: string;
}

function whole(text: string): number | null {
  const value = Number(text);
  return text.trim() !== "" && Number.isInteger(value) && value > 0 ? value : null;
}

function parsed(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as JsonObject) : null;
  } catch {
    return null;
  }
}
