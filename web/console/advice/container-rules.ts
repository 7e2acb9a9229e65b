/** The rules about a container: its keys, its physical partitions, its throughput, its queries.
 *
 * The thresholds are those of the service's account dashboard, where it has one. */

import { joinedPaths } from "../api/names.ts";
import { bytes, count, percent } from "../ui/format.ts";
import type { Finding, Rule, Way } from "./advice.ts";

export interface PartitionFacts {
  readonly id: string;
  readonly bytes: number;
  readonly indexBytes: number;
  /** Budget in RU/s; null if the partition is not limited. */
  readonly ruPerSecond: number | null;
  /** RU/s of a busy second in the observed time. */
  readonly busyRu: number;
  readonly requests: number;
  readonly throttled: number;
  readonly largestKeys: readonly { readonly key: string; readonly bytes: number }[];
}

/** The logical partition key with the most load. */
export interface HotKey {
  /** The values as a person reads them. */
  readonly name: string;
  readonly epk: string;
  /** Its share of the load of all keys, from 0 to 1. */
  readonly share: number;
  readonly ruPerSecond: number;
  /** The physical partition that holds the key; undefined if it is not known. */
  readonly partition: string | undefined;
  /** The share of that partition's requests that were refused with 429. */
  readonly refused: number;
}

export interface FormFacts {
  readonly count: number;
  readonly partitions: number;
}

export interface ContainerFacts {
  readonly keyPaths: readonly string[];
  readonly partitions: readonly PartitionFacts[];
  readonly physicalPartitionBytesMax: number;
  readonly logicalPartitionBytesMax: number;
  readonly hotKey: HotKey | null;
  readonly forms: readonly FormFacts[];
}

const HOT = 0.9;
const COOL = 0.7;
const KEY_SHARE = 0.3;
/** Below this rate, or this share of a partition's budget, a share of the load says nothing. */
const KEY_RU_MIN = 3;
const KEY_USE_MIN = 0.005;
const THROTTLED = 0.01;
const REQUESTS_MIN = 100;
const SKEW = 0.7;
const SKEW_BYTES_MIN = 2 ** 30;
const NEAR_LIMIT = 0.8;
const INDEX = 0.3;
const INDEX_BYTES_MIN = 2 ** 20;
const FAN_OUT_PARTITIONS = 1.5;
const FAN_OUT = 0.1;
const MISALIGNED = 0.6;
/** The levels that a partition key may have. */
const LEVELS = 3;

export const CONTAINER_RULES: readonly Rule<ContainerFacts>[] = [
  { id: "large-key", urgency: "bad", find: largeKeys },
  { id: "hot-key", urgency: "info", find: hotKey },
  { id: "hot-partition", urgency: "bad", find: hotPartition },
  { id: "throttled", urgency: "warn", find: throttled },
  { id: "uneven", urgency: "info", find: uneven },
  { id: "full", urgency: "info", find: full },
  { id: "index", urgency: "info", find: largeIndex },
  { id: "fan-out", urgency: "info", find: fanOut },
];

/** Returns the partition key that spreads the values of the present one: a level more, or the id. */
export function finerKey(paths: readonly string[]): readonly string[] {
  return paths.length < LEVELS && !paths.includes("/id") ? [...paths, "/id"] : ["/id"];
}

function proposal(paths: readonly string[]): Way {
  const finer = finerKey(paths);
  return { text: `Try the key ${finer.join(", ")}`, tab: "prediction", query: { key: joinedPaths(finer) } };
}

function used({ busyRu, ruPerSecond }: PartitionFacts): number | null {
  return ruPerSecond === null || ruPerSecond <= 0 ? null : busyRu / ruPerSecond;
}

/** Returns the budget of the physical partition that holds the key; null without a limit. */
function budgetOf(key: HotKey, partitions: readonly PartitionFacts[]): number | null {
  return partitions.find(({ id }) => id === key.partition)?.ruPerSecond ?? null;
}

function isHotKey({ hotKey: key, partitions }: ContainerFacts): boolean {
  if (key === null || key.share < KEY_SHARE) return false;
  return key.ruPerSecond >= Math.max(KEY_RU_MIN, KEY_USE_MIN * (budgetOf(key, partitions) ?? 0));
}

function hotKey(facts: ContainerFacts): Finding | null {
  const { hotKey: key, keyPaths } = facts;
  if (key === null || !isHotKey(facts)) return null;
  const budget = budgetOf(key, facts.partitions);
  const use = budget ? key.ruPerSecond / budget : 0;
  const of = budget ? ` of the ${count(budget)} RU/s (${percent(use)})` : " RU/s";
  const where = key.partition === undefined ? "" : `${budget ? " of" : " at"} physical partition ${key.partition}`;
  const refused = key.refused > 0 ? ` ${percent(key.refused)} of the requests there are refused with 429.` : "";
  return {
    urgency: use >= HOT || key.refused >= THROTTLED ? "bad" : use >= HOT / 2 ? "warn" : "info",
    happened: `The key ${key.name} has ${percent(key.share)} of the traffic.`,
    cost: `It uses ${count(key.ruPerSecond)}${of}${where}.${refused}`,
    out: "One key cannot use more than one partition has. Spread it over several with a finer partition key.",
    ways: [
      { text: "Show the key", tab: "partitions", query: { keyEpk: key.epk, ...(key.partition ? { partition: key.partition } : {}) } },
      proposal(keyPaths),
    ],
    ...(key.partition === undefined ? {} : { partition: key.partition }),
  };
}

function hotPartition(facts: ContainerFacts): Finding | null {
  let hot: { id: string; share: number } | null = null;
  let cool: { id: string; share: number } | null = null;
  for (const partition of facts.partitions) {
    const share = used(partition);
    if (share === null) continue;
    if (hot === null || share > hot.share) hot = { id: partition.id, share };
    if (cool === null || share < cool.share) cool = { id: partition.id, share };
  }
  if (hot === null || cool === null || hot.share < HOT || cool.share >= COOL) return null;
  // The rule about its key says more.
  if (isHotKey(facts) && facts.hotKey?.partition === hot.id) return null;
  return {
    happened: `Partition ${hot.id} is hot.`,
    cost: `It uses ${percent(hot.share)} of its RU/s, partition ${cool.id} only ${percent(cool.share)}.`,
    out: "More throughput is divided equally and helps little. Choose a partition key with more values.",
    ways: [{ text: "Show the partition", tab: "partitions", query: { partition: hot.id } }, proposal(facts.keyPaths)],
    partition: hot.id,
  };
}

function throttled({ partitions }: ContainerFacts): Finding | null {
  let refused = 0;
  let all = 0;
  for (const partition of partitions) {
    refused += partition.throttled;
    all += partition.requests + partition.throttled;
  }
  if (all < REQUESTS_MIN || refused / all < THROTTLED) return null;
  const isFull = partitions.every((partition) => (used(partition) ?? 0) >= HOT);
  return {
    happened: isFull ? "The throughput is used up." : "Requests were answered with 429.",
    cost: `${percent(refused / all)} of the requests were refused.`,
    out: "Raise the throughput, or make the most expensive queries cheaper.",
    ways: [
      { text: "Change the throughput", tab: "settings" },
      { text: "Show the queries", tab: "queries" },
    ],
  };
}

function uneven({ partitions }: ContainerFacts): Finding | null {
  const sizes = partitions.map((partition) => partition.bytes);
  const largest = Math.max(0, ...sizes);
  const smallest = Math.min(...sizes);
  if (partitions.length < 2 || largest < SKEW_BYTES_MIN || smallest / largest >= SKEW) return null;
  return {
    happened: "The data is uneven.",
    cost: `The largest partition has ${bytes(largest)}, the smallest ${bytes(smallest)}.`,
    out: "A split at the median of the items gives two equal halves.",
    ways: [{ text: "Show the partitions", tab: "partitions" }],
  };
}

function largeKeys({ partitions, logicalPartitionBytesMax: limit }: ContainerFacts): Finding[] {
  const found: Finding[] = [];
  for (const { id, largestKeys } of partitions) {
    const [largest] = largestKeys;
    if (largest === undefined || !(largest.bytes / limit >= NEAR_LIMIT)) continue;
    const name = largest.key === "" ? "without items" : largest.key;
    found.push({
      happened: "A logical key is near its limit.",
      cost: `The key ${name} has ${percent(largest.bytes / limit)} of the bytes that one key may have; writes beyond are refused with 403/1014.`,
      out: "Delete items, or add a level to the partition key.",
      ways: [{ text: "Show the partition", tab: "partitions", query: { partition: id } }],
      partition: id,
    });
  }
  return found;
}

function full({ partitions, physicalPartitionBytesMax: limit }: ContainerFacts): Finding[] {
  const found: Finding[] = [];
  for (const partition of partitions) {
    const share = partition.bytes / limit;
    if (!(share >= NEAR_LIMIT)) continue;
    found.push({
      happened: `Partition ${partition.id} will be split.`,
      cost: `It holds ${percent(share)} of the bytes that a partition may have; its successors get half of its RU/s each.`,
      out: "",
      ways: [{ text: "Show the partition", tab: "partitions", query: { partition: partition.id } }],
      partition: partition.id,
    });
  }
  return found;
}

function largeIndex({ partitions }: ContainerFacts): Finding | null {
  let size = 0;
  let index = 0;
  for (const partition of partitions) {
    size += partition.bytes;
    index += partition.indexBytes;
  }
  if (size < INDEX_BYTES_MIN || index / size <= INDEX) return null;
  return {
    happened: "The index is large.",
    cost: `It has ${percent(index / size)} of the size of the data, and each write pays for it.`,
    out: "Exclude paths that no query filters or sorts by.",
    ways: [{ text: "Change the indexing policy", tab: "settings" }],
  };
}

function fanOut({ partitions, forms, keyPaths }: ContainerFacts): Finding | null {
  let pages = 0;
  let wide = 0;
  for (const form of forms) {
    pages += form.count;
    if (form.partitions / Math.max(1, form.count) >= FAN_OUT_PARTITIONS) wide += form.count;
  }
  const share = pages === 0 ? 0 : wide / pages;
  if (partitions.length < 2 || pages < REQUESTS_MIN || share < FAN_OUT) return null;
  const isMisaligned = share >= MISALIGNED;
  const show: Way = { text: "Show the queries", tab: "queries" };
  return {
    happened: `${percent(share)} of the query pages ask several physical partitions.`,
    cost: "Each partition that is asked costs a request.",
    out: isMisaligned
      ? `Most queries do not name the partition key ${keyPaths.join(", ")}. Another key may fit them better.`
      : "Name the partition key in these queries, or keep a copy of the data under another key.",
    ways: isMisaligned ? [{ text: "Try another key", tab: "prediction" }, show] : [show],
  };
}
