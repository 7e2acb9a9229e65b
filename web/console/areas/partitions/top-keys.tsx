/** The logical partition keys with the most load or the most bytes, and how unequal they are. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { href, useParameter } from "../../router.ts";
import { Button } from "../../ui/button.tsx";
import { copyText, csv } from "../../ui/clipboard.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { SelectField } from "../../ui/field.tsx";
import { bytes, percent, ru } from "../../ui/format.ts";
import { usePoll, useResource } from "../../ui/resource.ts";
import { Empty, Skeleton } from "../../ui/states.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import {
  readTopKeys,
  type ContainerName,
  type KeyMeasure,
  type KeyWindow,
  type LargeKey,
  type Partitions,
  type TopKeys,
} from "./api.ts";
import { keyQuery, keyText } from "./keys.ts";
import { inequalityOf, type Inequality } from "./lorenz.ts";
import { Why } from "./why.tsx";

export interface TopKeysProps {
  readonly name: ContainerName;
  readonly partitions: Partitions;
  readonly keyPaths: readonly string[];
}

type Tab = KeyMeasure | "stored";

const POLL_MS = 5_000;
const SHOWN = 12;

/** Draws the keys by request units, by bytes written and by stored size. */
export function TopKeySection(props: TopKeysProps): JSX.Element {
  const [tab, setTab] = useState<Tab>("ru");
  return (
    <section class="parts-section" aria-labelledby="parts-keys">
      <header>
        <h2 id="parts-keys">Top logical keys</h2>
      </header>
      <Tabs<Tab>
        label="Order of the keys"
        tabs={[
          ["ru", "Request units"],
          ["bytes", "Bytes written"],
          ["stored", "Stored size"],
        ]}
        current={tab}
        onChange={setTab}
      >
        {tab === "stored" ? <StoredKeys {...props} /> : <LoadedKeys key={tab} by={tab} {...props} />}
      </Tabs>
      <Why doc="see-partitioning.md">
        All items of one logical key are in one physical partition. A key with much of the load limits
        the container to the throughput of one partition, and a key cannot hold more than its limit.
      </Why>
    </section>
  );
}

function LoadedKeys(props: TopKeysProps & { readonly by: KeyMeasure }): JSX.Element {
  const [chosen] = useParameter("keyEpk");
  const [window, setWindow] = useState<KeyWindow>(chosen === "" ? "hour" : "now");
  const { name, by } = props;
  const keys = useResource(
    (signal) => readTopKeys(name, by, window, { signal, poll: true }),
    [name.database, name.container, by, window],
  );
  usePoll(keys, POLL_MS);
  return (
    <>
      <div class="parts-controls">
        <SelectField<KeyWindow>
          label="Counted time"
          value={window}
          onChange={setWindow}
          options={[
            ["now", "last seconds"],
            ["minute", "last minutes"],
            ["hour", "last hours"],
            ["day", "last days"],
          ]}
        />
        {keys.value && <CopyKeys keys={keys.value} />}
      </div>
      {keys.error && !keys.value && <ErrorView error={keys.error} onRetry={keys.reload} />}
      {!keys.value && keys.isLoading && <Skeleton lines={6} />}
      {keys.value && <KeyList {...props} keys={keys.value} />}
    </>
  );
}

function CopyKeys({ keys }: { readonly keys: TopKeys }): JSX.Element {
  const copy = (): void => {
    const rows = keys.keys.map((key) => [key.key ?? "", key.epk, key.amount, key.error]);
    void copyText(csv([["key", "epk", keys.by, "error"], ...rows]));
  };
  return (
    <Button kind="quiet" icon="copy" onClick={copy}>
      Copy as CSV
    </Button>
  );
}

function KeyList(props: TopKeysProps & { readonly by: KeyMeasure; readonly keys: TopKeys }): JSX.Element {
  const { keys, by } = props;
  const [isOpen, setOpen] = useState(false);
  const [chosen] = useParameter("keyEpk");
  const isRevealed = useRef(false);
  const reveal = (row: HTMLElement | null): void => {
    if (row && !isRevealed.current) row.scrollIntoView({ block: "center" });
    isRevealed.current ||= row !== null;
  };
  if (keys.keys.length === 0) {
    return (
      <Empty title="No load in this time" icon="live">
        Each request for one logical key is counted here within a few seconds.
      </Empty>
    );
  }
  const amounts = keys.keys.map((key) => key.amount);
  const inequality = inequalityOf(amounts, keys.total, keys.othersAtMost);
  const shown = isOpen ? keys.keys : keys.keys.slice(0, SHOWN);
  const figure = (amount: number): string => (by === "ru" ? ru(amount) : bytes(amount));
  return (
    <div class="parts-keys">
      <div>
        <ol class="parts-key-list">
          {shown.map((key) => (
            <li key={key.epk} class={key.epk === chosen ? "selected" : ""} aria-current={key.epk === chosen ? "true" : undefined} ref={key.epk === chosen ? reveal : null}>
              <KeyName {...props} text={key.key} epk={key.epk} />
              <span class="parts-key-bar">
                <span
                  class={by === "ru" ? "ru" : "bytes"}
                  style={{ width: `${(key.amount / Math.max(1e-9, amounts[0] ?? 1)) * 100}%` }}
                />
              </span>
              <span class="number" title={key.error > 0 ? `at most ${figure(key.error)} too high` : "exact"}>
                {figure(key.amount)}
              </span>
              <span class="number soft">{percent(key.amount / Math.max(1e-9, keys.total))}</span>
            </li>
          ))}
        </ol>
        {keys.keys.length > SHOWN && (
          <Button kind="quiet" onClick={() => setOpen(!isOpen)}>
            {isOpen ? "Show fewer" : `Show all ${keys.keys.length}`}
          </Button>
        )}
      </div>
      <Lorenz inequality={inequality} />
    </div>
  );
}

function KeyName(props: TopKeysProps & { readonly text: string | undefined; readonly epk: string }): JSX.Element {
  const { name, keyPaths, text, epk } = props;
  const query = text === undefined ? null : keyQuery(text, keyPaths);
  if (query === null) {
    return (
      <code class="parts-key soft" title={`EPK ${epk}`}>
        {text === undefined ? `no items (EPK ${epk.slice(0, 8)}…)` : keyText(text)}
      </code>
    );
  }
  const address = href(["data", name.database, name.container, "query"], { text: query });
  return (
    <a class="parts-key" href={address} title={`Query the items of ${keyText(text ?? "")}`}>
      <code>{keyText(text ?? "")}</code>
    </a>
  );
}

const WIDTH = 200;

/** Draws the Lorenz curve: the share of the load over the share of the keys. */
function Lorenz({ inequality }: { readonly inequality: Inequality }): JSX.Element {
  const { points, gini, topShare } = inequality;
  const steps = points.map((point) => `${point.keys * WIDTH},${WIDTH - point.load * WIDTH}`);
  const curve = steps.join(" ");
  const label = `Lorenz curve, Gini coefficient ${gini.toFixed(2)}, the busiest key has ${percent(topShare)} of the load`;
  return (
    <figure class="parts-lorenz">
      <svg viewBox={`-1 -1 ${WIDTH + 2} ${WIDTH + 2}`} role="img" aria-label={label}>
        <polygon class="area" points={`0,${WIDTH} ${curve} ${WIDTH},0`} />
        <path class="frame" d={`M0 0V${WIDTH}H${WIDTH}`} />
        <path class="even" d={`M0 ${WIDTH}L${WIDTH} 0`} />
        <polyline class="curve" points={curve} />
      </svg>
      <figcaption>
        <strong>Gini {gini.toFixed(2)}</strong>
        <span>{inequalityText(gini)}</span>
        <span>The busiest key has {percent(topShare)}.</span>
        <span class="soft">Load over keys; the straight line is an even load.</span>
      </figcaption>
    </figure>
  );
}

function inequalityText(gini: number): string {
  if (gini < 0.3) return "The keys have similar load.";
  if (gini < 0.6) return "Some keys have much more load than others.";
  return "A few keys have most of the load.";
}

function StoredKeys(props: TopKeysProps): JSX.Element {
  const { partitions } = props;
  const limit = partitions.logicalPartitionBytesMax;
  const found: (LargeKey & { partition: string })[] = [];
  for (const partition of partitions.partitions) {
    for (const large of partition.largestKeys) found.push({ ...large, partition: partition.id });
  }
  found.sort((a, b) => b.bytes - a.bytes);
  if (found.length === 0) {
    return (
      <Empty title="No logical key is large" icon="key">
        A key may hold {bytes(limit)}. Sizes are listed once a physical partition holds more than{" "}
        {bytes(limit / 2)}.
      </Empty>
    );
  }
  return (
    <>
      <p class="soft">
        The bar is the limit of {bytes(limit)}; the mark is at 80 %, where the server warns.
      </p>
      <ol class="parts-key-list stored">
        {found.slice(0, 32).map((large) => (
          <li key={large.epk}>
            <KeyName {...props} text={large.key === "" ? undefined : large.key} epk={large.epk} />
            <span class="parts-key-bar limit">
              <span
                class={large.bytes >= limit * 0.8 ? "bad" : "bytes"}
                style={{ width: `${Math.min(1, large.bytes / limit) * 100}%` }}
              />
            </span>
            <span class="number">{bytes(large.bytes)}</span>
            <span class={large.bytes >= limit * 0.8 ? "number bad" : "number soft"}>
              {percent(large.bytes / limit)}
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}
