/** Advice about the partitions of a container, by thresholds.
 *
 * | advice | when |
 * |---|---|
 * | hot partition | the busiest uses 90 % of its share while another uses less than 70 % |
 * | throttled | 1 % of the requests are refused while all partitions use 90 % |
 * | uneven data | the smallest has less than 70 % of the largest, which has at least 1 GiB |
 * | large key | a logical partition has 80 % of the limit |
 * | full | a physical partition has 80 % of the limit |
 * | index | the index is larger than 30 % of the data |
 *
 * Promises: a threshold that cannot be judged for want of data gives no advice. */

export interface PartitionFacts {
  id: string;
  bytes: number;
  indexBytes: number;
  /** Budget in RU/s; null if the partition is not limited. */
  ruPerSecond: number | null;
  /** 99th percentile of RU/s in the observed time. */
  busyRu: number;
  requests: number;
  throttled: number;
  wouldThrottle: number;
  largestKeys: readonly { key: string; bytes: number }[];
}

export interface Limits {
  physicalPartitionBytesMax: number;
  logicalPartitionBytesMax: number;
}

export interface Advice {
  kind: "info" | "warn" | "bad";
  title: string;
  text: string;
  /** The partition that the advice is about. */
  partition?: string;
}

const HOT = 0.9;
const COOL = 0.7;
const THROTTLED = 0.01;
const SKEW = 0.7;
const SKEW_BYTES_MIN = 2 ** 30;
const NEAR_LIMIT = 0.8;
const INDEX = 0.3;
/** Below this size the index says nothing about its cost. */
const INDEX_BYTES_MIN = 2 ** 20;

/** Returns the advice for the partitions of a container, the most urgent first. */
export function adviceFor(partitions: readonly PartitionFacts[], limits: Limits): Advice[] {
  const advice: Advice[] = [];
  for (const partition of partitions) advice.push(...largeKeys(partition, limits));
  advice.push(...hotPartition(partitions), ...throttling(partitions));
  advice.push(...unevenData(partitions), ...fullPartitions(partitions, limits));
  advice.push(...indexCost(partitions));
  const urgency = { bad: 0, warn: 1, info: 2 };
  return advice.sort((a, b) => urgency[a.kind] - urgency[b.kind]);
}

function used(partition: PartitionFacts): number | null {
  const budget = partition.ruPerSecond;
  return budget === null || budget <= 0 ? null : partition.busyRu / budget;
}

function hotPartition(partitions: readonly PartitionFacts[]): Advice[] {
  let hot: { id: string; share: number } | null = null;
  let cool: { id: string; share: number } | null = null;
  for (const partition of partitions) {
    const share = used(partition);
    if (share === null) continue;
    if (hot === null || share > hot.share) hot = { id: partition.id, share };
    if (cool === null || share < cool.share) cool = { id: partition.id, share };
  }
  if (hot === null || cool === null || hot.share < HOT || cool.share >= COOL) return [];
  return [
    {
      kind: "bad",
      title: `Partition ${hot.id} is hot`,
      text:
        `Partition ${hot.id} uses ${whole(hot.share)} of its share, partition ${cool.id} only ` +
        `${whole(cool.share)}. More throughput is divided equally and helps little. Look for the ` +
        `logical key below, and choose a partition key with more values.`,
      partition: hot.id,
    },
  ];
}

function throttling(partitions: readonly PartitionFacts[]): Advice[] {
  let throttled = 0;
  let requests = 0;
  let isFull = partitions.length > 0;
  for (const partition of partitions) {
    throttled += partition.throttled;
    requests += partition.requests + partition.throttled;
    isFull &&= (used(partition) ?? 0) >= HOT;
  }
  if (!isFull || requests === 0 || throttled / requests < THROTTLED) return [];
  return [
    {
      kind: "warn",
      title: "The throughput is used up",
      text:
        `All partitions use their share and ${whole(throttled / requests)} of the requests were ` +
        `refused with 429. Raise the throughput, or make the most expensive query forms cheaper.`,
    },
  ];
}

function unevenData(partitions: readonly PartitionFacts[]): Advice[] {
  const sizes = partitions.map((partition) => partition.bytes);
  const largest = Math.max(0, ...sizes);
  const smallest = Math.min(...sizes);
  if (partitions.length < 2 || largest < SKEW_BYTES_MIN || smallest / largest >= SKEW) return [];
  return [
    {
      kind: "info",
      title: "The data is uneven",
      text:
        `The smallest partition has ${whole(smallest / largest)} of the data of the largest. A ` +
        `split at the median of the items gives two equal halves.`,
    },
  ];
}

function largeKeys(partition: PartitionFacts, limits: Limits): Advice[] {
  const [largest] = partition.largestKeys;
  if (largest === undefined || limits.logicalPartitionBytesMax <= 0) return [];
  const share = largest.bytes / limits.logicalPartitionBytesMax;
  if (share < NEAR_LIMIT) return [];
  return [
    {
      kind: "bad",
      title: `A logical key is near its limit`,
      text:
        `The key ${largest.key === "" ? "without items" : largest.key} has ${whole(share)} of the ` +
        `bytes that one key may have. Writes beyond the limit are refused with 403/1014. Delete ` +
        `items, or add a level to the partition key.`,
      partition: partition.id,
    },
  ];
}

function fullPartitions(partitions: readonly PartitionFacts[], limits: Limits): Advice[] {
  const found: Advice[] = [];
  for (const partition of partitions) {
    const share = partition.bytes / limits.physicalPartitionBytesMax;
    if (!(share >= NEAR_LIMIT)) continue;
    found.push({
      kind: "info",
      title: `Partition ${partition.id} will be split`,
      text:
        `Partition ${partition.id} holds ${whole(share)} of the bytes beyond which the server ` +
        `splits it. Its successors have half of its throughput each.`,
      partition: partition.id,
    });
  }
  return found;
}

function indexCost(partitions: readonly PartitionFacts[]): Advice[] {
  let bytes = 0;
  let indexBytes = 0;
  for (const partition of partitions) {
    bytes += partition.bytes;
    indexBytes += partition.indexBytes;
  }
  if (bytes < INDEX_BYTES_MIN || indexBytes / bytes <= INDEX) return [];
  return [
    {
      kind: "info",
      title: "The index is large",
      text:
        `The index has ${whole(indexBytes / bytes)} of the size of the data. Paths that no query ` +
        `filters or sorts by can be excluded in the settings, which makes writes cheaper.`,
    },
  ];
}

function whole(share: number): string {
  return `${Math.round(share * 100)} %`;
}
