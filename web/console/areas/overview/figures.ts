/** The figures of the overview: of the account, and of each container from three operations.
 *
 * Promises: at most `AT_ONCE` containers are read at a time; a container that is deleted meanwhile is left
 * out. Leaves out: judging the figures (`advice.ts`). */

import { asApiError } from "../../api/client.ts";
import { findIds } from "../../api/names.ts";
import { path } from "../../api/data.ts";
import {
  listPartitions,
  listQueries,
  readThroughput,
  type Partition,
  type QueryForm,
  type Throughput,
} from "../../api/management.ts";

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
    const [{ partitions }, throughput, { queries }] = await Promise.all([
      listPartitions(database, container, options),
      readThroughput(database, container, options),
      listQueries(database, container, options),
    ]);
    let items = 0;
    let bytes = 0;
    for (const partition of partitions) {
      items += partition.items;
      bytes += partition.bytes;
    }
    return { ...name, items, bytes, partitions, throughput, queries };
  } catch (problem) {
    const error = asApiError(problem);
    if (error.status === 404) return null;
    throw problem;
  }
}
