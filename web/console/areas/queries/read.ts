/** Reads query forms with what is needed to judge them: partition key and number of partitions. */

import { manage } from "../../api/client.ts";
import { containerPath, containers, databases, type Container } from "../../api/data.ts";
import type { QueryForm } from "./forms.ts";
import type { PlacedForm } from "./forms-view.tsx";

/** Containers that are read for the overview. */
export const CONTAINERS_MAX = 200;

interface Options {
  readonly signal: AbortSignal;
  readonly poll: boolean;
}

/** Reads the forms of one container, the most expensive first. */
export async function formsOf(
  database: string,
  container: string,
  options: Options,
  definition?: Container,
): Promise<PlacedForm[]> {
  const path = containerPath(database, container, "queries");
  const { queries } = (await manage(path, options)).json() as { queries: readonly QueryForm[] };
  if (queries.length === 0) return [];
  const known = definition ?? (await containers.definition(database, container));
  const throughput = await manage(containerPath(database, container, "throughput"), options);
  const { partitions } = throughput.json() as { partitions: readonly unknown[] };
  const place = {
    database,
    container,
    keyPaths: known.partitionKey.paths,
    partitionCount: partitions.length,
  };
  return queries.map((form) => ({ ...form, ...place })).sort((a, b) => b.ru - a.ru);
}

export interface AllForms {
  readonly forms: readonly PlacedForm[];
  readonly read: number;
  readonly total: number;
}

/** Reads the forms of all containers, the most expensive first. */
export async function formsOfAll(options: Options): Promise<AllForms> {
  const all: { database: string; definition: Container }[] = [];
  for (const { id } of await databases.all(options)) {
    for (const definition of await containers.all(id, options)) all.push({ database: id, definition });
  }
  const read = all.slice(0, CONTAINERS_MAX);
  const forms: PlacedForm[] = [];
  for (const { database, definition } of read) {
    forms.push(...(await formsOf(database, definition.id, options, definition)));
  }
  forms.sort((a, b) => b.ru - a.ru);
  return { forms, read: read.length, total: all.length };
}
