/** The figures of the overview: of the account, and of each container from four operations, with advice.
 *
 * Promises: at most `AT_ONCE` containers are read at a time; a container that is deleted meanwhile is left
 * out. */

import { asApiError } from "../../api/client.ts";
import { findIds } from "../../api/names.ts";
import { containers, path } from "../../api/data.ts";
import {
  listPartitions,
  listQueries,
  listTopKeys,
  readThroughput,
  type Partition,
  type QueryForm,
  type Throughput,
} from "../../api/management.ts";
import { adviceFrom } from "../../advice/advice.ts";
import type { PlacedAdvice } from "../../advice/advice-list.tsx";
import { CONTAINER_RULES, type HotKey, type PartitionFacts } from "../../advice/container-rules.ts";
import { hotKeyOf } from "../../advice/hot-key.ts";

const AT_ONCE = 4;
const NAMES_MAX = 20_000;

export interface Named {
  readonly database: string;
  readonly container: string;
}

export interface ContainerFigures extends Named {
  readonly items: number;
  readonly bytes: number;
  readonly partitions: readonly Partition[];
  readonly throughput: Throughput;
  readonly queries: readonly QueryForm[];
  /** The logical key with the most load in the last seconds; null without load. */
  readonly hotKey: HotKey | null;
  readonly advice: readonly PlacedAdvice[];
}

/** Returns the names of all containers, and of databases without one. */
export async function readNames(signal: AbortSignal): Promise<{ databases: string[]; containers: Named[] }> {
  const databases = await findIds("/dbs", "", NAMES_MAX, signal);
  databases.sort();
  const containers: Named[] = [];
  for (const database of databases) {
    const ids = await findIds(path("dbs", database, "colls"), "", NAMES_MAX, signal);
    ids.sort();
    for (const container of ids) containers.push({ database, container });
  }
  return { databases, containers };
}

/** Returns the figures of these containers, in their order. */
export async function readFigures(names: readonly Named[], signal: AbortSignal): Promise<ContainerFigures[]> {
  const found: (ContainerFigures | null)[] = names.map(() => null);
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < names.length) {
      const at = next;
      next += 1;
      const name = names[at];
      if (name) found[at] = await figuresOf(name, signal);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return found.filter((figures) => figures !== null);
}

async function figuresOf(name: Named, signal: AbortSignal): Promise<ContainerFigures | null> {
  const { database, container } = name;
  const options = { signal, poll: true };
  try {
    const [list, throughput, { queries }, top] = await Promise.all([
      listPartitions(database, container, options),
      readThroughput(database, container, options),
      listQueries(database, container, options),
      listTopKeys(database, container, { window: "now" }, options),
    ]);
    const { partitions } = list;
    let items = 0;
    let bytes = 0;
    for (const partition of partitions) {
      items += partition.items;
      bytes += partition.bytes;
    }
    const hotKey = hotKeyOf(top, partitions);
    const facts = {
      ...list,
      keyPaths: hotKey || queries.length > 0 ? await keyPathsOf(name) : [],
      partitions: partitions.map(factsOf),
      hotKey,
      forms: queries,
    };
    const advice = adviceFrom(CONTAINER_RULES, facts).map((one) => ({ ...one, ...name }));
    return { ...name, items, bytes, partitions, throughput, queries, hotKey, advice };
  } catch (problem) {
    const error = asApiError(problem);
    if (error.status === 404) return null;
    throw problem;
  }
}

/** Returns what the rules look at; a busy second is the 95th percentile of the last minute. */
function factsOf(partition: Partition): PartitionFacts {
  const rates = partition.lastMinute.map(({ requestUnits }) => requestUnits).sort((a, b) => a - b);
  return {
    ...partition,
    ruPerSecond: partition.ruPerSecond ?? null,
    busyRu: rates[Math.ceil(rates.length * 0.95) - 1] ?? 0,
  };
}

const keyPaths = new Map<string, readonly string[]>();

/** Returns the paths of a partition key, which a container keeps as long as it lives. */
async function keyPathsOf({ database, container }: Named): Promise<readonly string[]> {
  const place = JSON.stringify([database, container]);
  const known = keyPaths.get(place);
  if (known) return known;
  const { paths } = (await containers.definition(database, container)).partitionKey;
  keyPaths.set(place, paths);
  return paths;
}
