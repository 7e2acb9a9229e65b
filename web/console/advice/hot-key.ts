/** The logical key with the most load, from the top keys of the last ten to twenty seconds.
 *
 * Promises: the rate is over the seconds with load, so that a load which has just begun is not
 * watered down. */

import { contains } from "../areas/partitions/epk.ts";
import { keyText } from "../areas/partitions/keys.ts";
import type { Partition, PartitionSecond, TopKeys } from "../api/management.ts";
import type { HotKey } from "./container-rules.ts";

type Load = Pick<Partition, "id" | "minInclusive" | "maxExclusive"> & {
  readonly lastMinute: readonly Pick<PartitionSecond, "second" | "requestUnits" | "requests" | "throttled">[];
};

/** Returns the key, or null without load. */
export function hotKeyOf(top: TopKeys, partitions: readonly Load[]): HotKey | null {
  const [first] = top.keys;
  if (!first || top.total <= 0) return null;
  const active = new Set<number>();
  for (const { lastMinute } of partitions) {
    for (const { second, requestUnits } of lastMinute) {
      if (second >= top.since && requestUnits > 0) active.add(second);
    }
  }
  const home = partitions.find(({ minInclusive: min, maxExclusive: max }) => contains({ min, max }, first.epk));
  let requests = 0;
  let refused = 0;
  for (const entry of home?.lastMinute ?? []) {
    if (entry.second < top.since) continue;
    requests += entry.requests + entry.throttled;
    refused += entry.throttled;
  }
  return {
    name: first.key === undefined ? "without items" : keyText(first.key),
    epk: first.epk,
    share: Math.min(1, first.amount / top.total),
    ruPerSecond: first.amount / Math.max(1, active.size),
    partition: home?.id,
    refused: requests === 0 ? 0 : refused / requests,
  };
}
