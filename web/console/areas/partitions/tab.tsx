/** The tab "Partitions" of a container: hash space, advice, load, heat map, keys, splits. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { session } from "../../api/client.ts";
import { containers, type PartitionKeyDefinition } from "../../api/data.ts";
import type { ContainerProps } from "../../areas.ts";
import { useParameter } from "../../router.ts";
import { useStore } from "../../store.ts";
import { Button } from "../../ui/button.tsx";
import { copyText, csv } from "../../ui/clipboard.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { bytes, count, plural, ruNumber } from "../../ui/format.ts";
import { usePoll, useResource } from "../../ui/resource.ts";
import { Skeleton } from "../../ui/states.tsx";
import { adviceFrom } from "../../advice/advice.ts";
import { AdviceList } from "../../advice/advice-list.tsx";
import { CONTAINER_RULES, type HotKey } from "../../advice/container-rules.ts";
import { hotKeyOf } from "../../advice/hot-key.ts";
import { readOperations, readPartitions, readThroughput, readTopKeys } from "./api.ts";
import type { ContainerName, Operation, Partition, Partitions, Throughput } from "./api.ts";
import { Distribution } from "./distribution.tsx";
import type { Hashing } from "./epk.ts";
import { HeatSection } from "./heat-section.tsx";
import { LoadChart } from "./load-chart.tsx";
import { Operations } from "./operations.tsx";
import { PartitionBar } from "./partition-bar.tsx";
import { PartitionTable, partitionRows } from "./partition-table.tsx";
import { PartitionSamples } from "./samples.ts";
import { MergeDialog, SplitDialog } from "./split-dialog.tsx";
import { TopKeySection } from "./top-keys.tsx";
import { Why } from "./why.tsx";

const PARTITIONS_MS = 1_500;
const SETTINGS_MS = 3_000;
const RUNNING_MS = 500;
/** Time over which a partition is judged as hot. */
const BUSY_SECONDS = 300;

/** Draws the tab. */
export default function PartitionsTab(props: ContainerProps): JSX.Element {
  const { database, container } = props;
  const name = useMemo(() => ({ database, container }), [database, container]);
  const key = useResource(
    async () => (await containers.definition(database, container)).partitionKey,
    [database, container],
  );
  const found = useResource((signal) => readPartitions(name, { signal, poll: true }), [database, container]);
  usePoll(found, PARTITIONS_MS);
  if (found.error && !found.value) {
    return <ErrorView error={found.error} title="The partitions could not be read." onRetry={found.reload} />;
  }
  if (key.error) return <ErrorView error={key.error} onRetry={key.reload} />;
  if (!found.value || !key.value) return <Skeleton lines={8} />;
  return <Loaded name={name} found={found.value} definition={key.value} onReload={found.reload} />;
}

interface LoadedProps {
  readonly name: ContainerName;
  readonly found: Partitions;
  readonly definition: PartitionKeyDefinition;
  readonly onReload: () => void;
}

/** Returns the hashing of a partition key; definitions without a version are of version 1. */
function hashingOf(definition: PartitionKeyDefinition): Hashing {
  return definition.kind === "Hash" && definition.version !== 2 ? "v1" : "v2";
}

type Asked = { readonly kind: "split" | "merge"; readonly partitions: readonly Partition[] };

function Loaded(props: LoadedProps): JSX.Element {
  const { name, found, definition } = props;
  const hashing = hashingOf(definition);
  const isReadOnly = useStore(session)?.readOnly ?? false;
  const [selected, setSelected] = useParameter("partition", "");
  const [asked, setAsked] = useState<Asked | null>(null);
  const { partitions } = found;
  const samples = useSamples(name, partitions);
  const settings = useResource(
    (signal) => readThroughput(name, { signal, poll: true }),
    [name.database, name.container],
  );
  usePoll(settings, SETTINGS_MS);
  const throughput = settings.value ?? null;
  const operations = useOperations(name, props.onReload);
  const top = useResource(
    (signal) => readTopKeys(name, "ru", "now", { signal, poll: true }),
    [name.database, name.container],
  );
  usePoll(top, SETTINGS_MS);
  const hotKey = top.value ? hotKeyOf(top.value, partitions) : null;
  const provisioned = throughput?.ruPerSecond ?? null;
  const dialog = {
    name,
    partitionCount: partitions.length,
    provisioned,
    onBegun: operations.reload,
    onClose: () => setAsked(null),
  };
  return (
    <div class="parts-page">
      <Summary partitions={partitions} throughput={throughput} samples={samples} />
      <AdviceList advice={advise(props, samples, hotKey)} />
      <section class="parts-section" aria-labelledby="parts-space">
        <header>
          <h2 id="parts-space">Hash space</h2>
          <Button kind="quiet" icon="copy" onClick={() => void copyText(csv(partitionRows(partitions)))}>
            Copy as CSV
          </Button>
        </header>
        <PartitionBar
          partitions={partitions}
          lineage={found.lineage}
          hashing={hashing}
          refused={refusedNow(samples)}
          selected={selected}
          onSelect={setSelected}
        />
        <PartitionTable
          partitions={partitions}
          physicalPartitionBytesMax={found.physicalPartitionBytesMax}
          selected={selected}
          isReadOnly={isReadOnly}
          onSelect={setSelected}
          onSplit={(partition) => setAsked({ kind: "split", partitions: [partition] })}
          onMerge={(adjacent) => setAsked({ kind: "merge", partitions: adjacent })}
        />
        <Why doc="manage.md">
          A segment is a physical partition: as wide as its part of the hash space, as high as its data,
          coloured by the used share of its RU/s, hatched while it answers 429. The throughput of the
          container is divided among the partitions, so one partition can refuse requests while others
          are idle.
        </Why>
      </section>
      <Operations
        operations={operations.list}
        partitions={partitions}
        isReadOnly={isReadOnly}
        onChanged={operations.reload}
      />
      <LoadChart samples={samples} partitions={partitions} />
      <HeatSection name={name} partitions={found.partitions} hashing={hashing} keyPaths={definition.paths} />
      <TopKeySection name={name} partitions={found} keyPaths={definition.paths} />
      {throughput && (
        <Distribution name={name} throughput={throughput} isReadOnly={isReadOnly} onChanged={settings.reload} />
      )}
      {asked?.kind === "split" && asked.partitions[0] && (
        <SplitDialog {...dialog} partition={asked.partitions[0]} hashing={hashing} />
      )}
      {asked?.kind === "merge" && <MergeDialog {...dialog} partitions={asked.partitions} />}
    </div>
  );
}

/** Keeps the samples of this container while the page is open. */
function useSamples(name: ContainerName, partitions: readonly Partition[]): PartitionSamples {
  const kept = useRef({ name, samples: new PartitionSamples() });
  if (kept.current.name !== name) kept.current = { name, samples: new PartitionSamples() };
  const { samples } = kept.current;
  useMemo(() => samples.add(Date.now() / 1000, partitions), [samples, partitions]);
  return samples;
}

/** Reads the splits and merges of a container, often while one runs. */
function useOperations(
  name: ContainerName,
  onEnded: () => void,
): { list: readonly Operation[]; reload: () => void } {
  const found = useResource((signal) => readOperations({ signal, poll: true }), []);
  const list: Operation[] = [];
  for (const operation of found.value ?? []) {
    if (operation.database === name.database && operation.container === name.container) list.push(operation);
  }
  const running = list.filter((operation) => operation.next !== undefined).length;
  usePoll(found, running > 0 ? RUNNING_MS : SETTINGS_MS);
  const ended = list.length - running;
  useEffect(() => {
    if (ended > 0) onEnded();
  }, [ended, onEnded]);
  return { list, reload: found.reload };
}

function refusedNow(samples: PartitionSamples): ReadonlyMap<string, number> {
  const refused = new Map<string, number>();
  for (const sample of samples.samples.slice(-3)) {
    for (const [id, rate] of sample.partitions) {
      refused.set(id, Math.max(refused.get(id) ?? 0, rate.throttledPerSecond));
    }
  }
  return refused;
}

/** Returns the advice, judged by the time that the page has seen. */
function advise({ name, found, definition }: LoadedProps, samples: PartitionSamples, hotKey: HotKey | null) {
  const facts = found.partitions.map((partition) => ({
    ...partition,
    ruPerSecond: partition.ruPerSecond ?? null,
    busyRu: samples.busy(partition.id, BUSY_SECONDS),
  }));
  const all = { ...found, partitions: facts, keyPaths: definition.paths, hotKey, forms: [] };
  return adviceFrom(CONTAINER_RULES, all).map((one) => ({ ...one, ...name }));
}

function Summary(props: {
  readonly partitions: readonly Partition[];
  readonly throughput: Throughput | null;
  readonly samples: PartitionSamples;
}): JSX.Element {
  const { partitions, throughput } = props;
  let items = 0;
  let size = 0;
  let refused = 0;
  for (const partition of partitions) {
    items += partition.items;
    size += partition.bytes;
    refused += partition.throttled;
  }
  let now = 0;
  for (const rate of props.samples.samples.at(-1)?.partitions.values() ?? []) now += rate.ruPerSecond;
  const provisioned = throughput?.ruPerSecond;
  return (
    <dl class="parts-summary">
      <Figure label="Partitions" value={count(partitions.length)} />
      <Figure label="Items" value={count(items)} note={bytes(size)} />
      <Figure
        label="RU/s now"
        value={ruNumber(now)}
        note={provisioned === undefined ? "no throughput" : `of ${count(provisioned)}`}
      />
      <Figure
        label="Refused with 429"
        value={count(refused)}
        note={throughput?.enforced === "off" ? "not enforced" : plural(partitions.length, "partition")}
        isBad={refused > 0}
      />
    </dl>
  );
}

function Figure(props: {
  readonly label: string;
  readonly value: string;
  readonly note?: string;
  readonly isBad?: boolean;
}): JSX.Element {
  return (
    <div>
      <dt>{props.label}</dt>
      <dd>
        <strong class={props.isBad ? "bad" : undefined}>{props.value}</strong>
        {props.note && <small>{props.note}</small>}
      </dd>
    </div>
  );
}
