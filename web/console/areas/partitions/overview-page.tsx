/** All containers with their physical partitions as one line each, the busiest first. */

import type { JSX } from "preact";
import { containers, databases } from "../../api/data.ts";
import { href, useParameter } from "../../router.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { TextField } from "../../ui/field.tsx";
import { bytes, count, percent, plural, ruNumber } from "../../ui/format.ts";
import { usePoll, useResource } from "../../ui/resource.ts";
import { Empty, Skeleton } from "../../ui/states.tsx";
import { readPartitions, type ContainerName, type Partition } from "./api.ts";
import { spanOf, type Hashing } from "./epk.ts";
import { STEPS, cssOf } from "./scale.ts";

/** Containers whose partitions are read at once; a filter finds the others. */
const READ_MAX = 60;
const POLL_MS = 5_000;

interface Line extends ContainerName {
  readonly hashing: Hashing;
  readonly partitions: readonly Partition[];
}

interface Lines {
  readonly lines: readonly Line[];
  readonly total: number;
}

/** Draws the page. */
export default function PartitionsPage(): JSX.Element {
  const [filter, setFilter] = useParameter("filter");
  const found = useResource((signal) => readLines(filter, signal), [filter]);
  usePoll(found, POLL_MS);
  return (
    <div class="parts-page">
      <div class="page-head">
        <h1>Partitions</h1>
      </div>
      <TextField label="Container" value={filter} onInput={setFilter} type="search" placeholder="database/container" />
      {found.error && !found.value && <ErrorView error={found.error} onRetry={found.reload} />}
      {!found.value && found.isLoading && <Skeleton lines={8} />}
      {found.value && <Containers {...found.value} isFiltered={filter !== ""} />}
    </div>
  );
}

async function readLines(filter: string, signal: AbortSignal): Promise<Lines> {
  const names: (ContainerName & { hashing: Hashing })[] = [];
  for (const database of await databases.all({ signal, poll: true })) {
    for (const { id, partitionKey } of await containers.all(database.id, { signal, poll: true })) {
      if (!`${database.id}/${id}`.toLowerCase().includes(filter.toLowerCase())) continue;
      const isFirst = partitionKey.kind === "Hash" && partitionKey.version !== 2;
      names.push({ database: database.id, container: id, hashing: isFirst ? "v1" : "v2" });
    }
  }
  const lines: Line[] = [];
  for (const name of names.slice(0, READ_MAX)) {
    const { partitions } = await readPartitions(name, { signal, poll: true });
    lines.push({ ...name, partitions });
  }
  lines.sort((a, b) => nowOf(b) - nowOf(a) || sizeOf(b) - sizeOf(a));
  return { lines, total: names.length };
}

function nowOf(line: Line): number {
  return line.partitions.reduce((sum, partition) => sum + partition.lastSecondRequestUnits, 0);
}

function sizeOf(line: Line): number {
  return line.partitions.reduce((sum, partition) => sum + partition.bytes, 0);
}

function Containers(props: Lines & { readonly isFiltered: boolean }): JSX.Element {
  if (props.lines.length === 0) {
    return (
      <Empty title={props.isFiltered ? "No container has this name" : "There are no containers"} icon="data">
        Each container is drawn here as a line: its physical partitions over the hash space.
      </Empty>
    );
  }
  return (
    <>
      {props.total > props.lines.length && (
        <p class="soft">
          {count(props.lines.length)} of {plural(props.total, "container")} are shown. The filter finds the others.
        </p>
      )}
      <ul class="parts-lines">
        {props.lines.map((line) => (
          <ContainerLine key={`${line.database}/${line.container}`} line={line} />
        ))}
      </ul>
    </>
  );
}

function ContainerLine({ line }: { readonly line: Line }): JSX.Element {
  const busiest = Math.max(0, ...line.partitions.map((partition) => partition.normalized));
  let refused = 0;
  for (const partition of line.partitions) refused += partition.throttled;
  return (
    <li>
      <a href={href(["data", line.database, line.container, "partitions"])}>
        <span class="parts-line-name">
          <strong>{line.container}</strong>
          <span class="soft">{line.database}</span>
        </span>
        <span class="parts-line-bar" aria-hidden="true">
          {line.partitions.map((partition) => (
            <LineSegment key={partition.id} partition={partition} hashing={line.hashing} />
          ))}
        </span>
        <span class="parts-line-figures">
          <span>{plural(line.partitions.length, "partition")}</span>
          <span>{bytes(sizeOf(line))}</span>
          <span>{ruNumber(nowOf(line))} RU/s</span>
          <span>busiest {percent(busiest)}</span>
          <span class={refused > 0 ? "bad" : "soft"}>{count(refused)} refused</span>
        </span>
      </a>
    </li>
  );
}

function LineSegment(props: { readonly partition: Partition; readonly hashing: Hashing }): JSX.Element {
  const { partition, hashing } = props;
  const span = spanOf({ min: partition.minInclusive, max: partition.maxExclusive }, hashing);
  const used = Math.min(1, partition.normalized);
  return (
    <span
      style={{
        left: `${span.start * 100}%`,
        width: `${(span.end - span.start) * 100}%`,
        backgroundColor: used > 0 ? cssOf(used * (STEPS - 1)) : "transparent",
      }}
    />
  );
}
