/** Advice: what the figures of a container say about its partition key, its throughput and its queries.
 *
 * Promises: pure; each advice names the figures that it rests on, and the page where more is seen. */

import { bytes, percent, plural } from "../../ui/format.ts";
import type { ContainerFigures, Named } from "./figures.ts";

export interface Advice extends Named {
  readonly kind: "hot" | "throttled" | "skew" | "fan-out";
  readonly title: string;
  readonly text: string;
  /** The tab of the container that shows more. */
  readonly tab: string;
}

const HOT = 0.9;
const NOT_HOT = 0.7;
const THROTTLED = 0.01;
/** Below this number of requests a share says nothing. */
const REQUESTS_MIN = 100;
const SKEW = 0.7;
const SKEW_BYTES_MIN = 1024 ** 3;
const FAN_OUT_PARTITIONS = 1.5;
const FAN_OUT = 0.1;
const MISALIGNED = 0.6;

/** Returns the advice for a container, the most urgent first. */
export function adviceFor(figures: ContainerFigures): readonly Advice[] {
  const found: Advice[] = [];
  for (const rule of [throttled, hot, skewed, fannedOut]) {
    const advice = rule(figures);
    if (advice) found.push({ ...advice, database: figures.database, container: figures.container });
  }
  return found;
}

type Finding = Omit<Advice, "database" | "container"> | null;

function throttled({ partitions }: ContainerFigures): Finding {
  let refused = 0;
  let all = 0;
  for (const partition of partitions) {
    refused += partition.throttled;
    all += partition.requests + partition.throttled;
  }
  const share = all === 0 ? 0 : refused / all;
  if (all < REQUESTS_MIN || share < THROTTLED) return null;
  return {
    kind: "throttled",
    title: `${percent(share)} of the requests were refused with 429`,
    text: `That is ${plural(refused, "request")} since the server started. Raise the throughput, or make the most expensive query cheaper.`,
    tab: "partitions",
  };
}

function hot({ partitions }: ContainerFigures): Finding {
  if (partitions.length < 2) return null;
  const shares = partitions.map(({ normalized }) => normalized);
  const busiest = Math.max(...shares);
  const calmest = Math.min(...shares);
  if (busiest < HOT || calmest >= NOT_HOT) return null;
  const id = partitions.find(({ normalized }) => normalized === busiest)?.id ?? "";
  return {
    kind: "hot",
    title: `Physical partition ${id} is hot`,
    text: `It uses ${percent(busiest)} of its throughput, the calmest one ${percent(calmest)}. A few partition keys get most of the load.`,
    tab: "partitions",
  };
}

function skewed({ partitions }: ContainerFigures): Finding {
  if (partitions.length < 2) return null;
  const sizes = partitions.map((partition) => partition.bytes);
  const largest = Math.max(...sizes);
  const smallest = Math.min(...sizes);
  if (largest < SKEW_BYTES_MIN || smallest / largest >= SKEW) return null;
  return {
    kind: "skew",
    title: "The data is not even over the physical partitions",
    text: `The largest one has ${bytes(largest)}, the smallest ${bytes(smallest)}. A few partition keys have most of the data.`,
    tab: "partitions",
  };
}

function fannedOut({ partitions, queries }: ContainerFigures): Finding {
  if (partitions.length < 2) return null;
  let pages = 0;
  let wide = 0;
  for (const form of queries) {
    pages += form.count;
    if (form.partitions / Math.max(1, form.count) >= FAN_OUT_PARTITIONS) wide += form.count;
  }
  const share = pages === 0 ? 0 : wide / pages;
  if (pages < REQUESTS_MIN || share < FAN_OUT) return null;
  const isMisaligned = share >= MISALIGNED;
  return {
    kind: "fan-out",
    title: `${percent(share)} of the query pages ask several physical partitions`,
    text: isMisaligned
      ? "Most queries do not name the partition key. Another partition key may fit them better."
      : "Name the partition key in these queries, or keep a copy of the data under another key.",
    tab: isMisaligned ? "prediction" : "queries",
  };
}
