/** The overview: figures of the account, advice, and every container with its load. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { liveNow, readLive } from "../../api/live.ts";
import { readStatus, type Status } from "../../api/management.ts";
import { href, navigate } from "../../router.ts";
import { useStore } from "../../store.ts";
import { Button } from "../../ui/button.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { bytes, compact, count, duration, percent, plural } from "../../ui/format.ts";
import { usePoll, useResource } from "../../ui/resource.ts";
import { Skeleton } from "../../ui/states.tsx";
import { AdviceList } from "../../advice/advice-list.tsx";
import { byUrgency } from "../../advice/advice.ts";
import { Icon } from "../../ui/icons.tsx";
import { LiveCharts } from "../live/charts.tsx";
import { ContainerTable } from "./container-table.tsx";
import { NoData } from "./no-data.tsx";
import { Strip } from "./strip.tsx";
import { readFigures, readNames, type ContainerFigures } from "./figures.ts";

/** Figures of this many containers are read at once. */
const STEP = 50;
/** Above this number the figures are read again only on request. */
const FOLLOWED_MAX = 20;
const EVERY_MS = 3_000;
/** Seconds of a sample of the charts. */
const SAMPLE_SECONDS = 10;
const CHARTS_MS = 5_000;
/** Advice that is shown at once. */
const FIRST = 3;
const CHARTS = ["Request units", "Latency", "Refused requests", "Stored data", "Processor", "Memory", "Disk"];

interface Overview {
  readonly status: Status;
  readonly containers: number;
  readonly databases: number;
  readonly figures: readonly ContainerFigures[];
}

/** Draws the page. */
export default function OverviewPage(): JSX.Element {
  const [shown, setShown] = useState(STEP);
  const overview = useResource(async (signal) => read(shown, signal), []);
  const { value } = overview;
  usePoll(overview, EVERY_MS, value !== undefined && value.containers <= FOLLOWED_MAX && !overview.error);
  const more = (): void => {
    setShown(shown + STEP);
    overview.reload();
  };
  return (
    <>
      <div class="page-head">
        <h1>Overview</h1>
        {value && <About status={value.status} />}
      </div>
      {overview.error && !overview.error.away && (
        <ErrorView error={overview.error} title="The account could not be read." onRetry={overview.reload} />
      )}
      {value ? <Loaded value={value} onMore={more} onChange={overview.reload} /> : !overview.error && <Skeleton lines={8} />}
    </>
  );
}

async function read(shown: number, signal: AbortSignal): Promise<Overview> {
  const [status, names] = await Promise.all([readStatus({ signal, poll: true }), readNames(signal)]);
  const figures = await readFigures(names.containers.slice(0, shown), signal);
  return { status, containers: names.containers.length, databases: names.databases.length, figures };
}

function About({ status }: { readonly status: Status }): JSX.Element {
  return (
    <p class="soft">
      Orrery {status.version}, running for {duration(status.uptimeSeconds * 1_000)},{" "}
      {status.dataDirectory ? <>data in <code>{status.dataDirectory}</code></> : "data in memory"}
    </p>
  );
}

interface LoadedProps {
  readonly value: Overview;
  readonly onMore: () => void;
  readonly onChange: () => void;
}

function Loaded({ value, onMore, onChange }: LoadedProps): JSX.Element {
  if (value.databases === 0) return <NoData onChange={onChange} />;
  return (
    <>
      <Tiles value={value} />
      <Advice figures={value.figures} />
      {value.figures.length > 0 && <Strip figures={value.figures} />}
      <Load value={value} />
      <section class="stack">
        <h2>Containers</h2>
        {value.containers === 0 ? (
          <p class="soft">
            {plural(value.databases, "database")} without a container. <a href={href(["data"])}>Create a container</a>
          </p>
        ) : (
          <ContainerTable figures={value.figures} onOpen={open} />
        )}
        {value.figures.length < value.containers && (
          <p class="row soft">
            Figures of {count(value.figures.length)} of {plural(value.containers, "container")}.
            <Button onClick={onMore}>Read {STEP} more</Button>
          </p>
        )}
      </section>
    </>
  );
}

function Advice({ figures }: { readonly figures: readonly ContainerFigures[] }): JSX.Element {
  const all = byUrgency(figures.flatMap(({ advice }) => advice));
  return (
    <section class="stack" aria-labelledby="overview-advice">
      <h2 id="overview-advice">Advice</h2>
      {all.length === 0 ? (
        <p class="overview-fine soft">
          <Icon name="check" /> No key has much of the traffic, no container is throttled, and queries stay in few
          partitions.
        </p>
      ) : (
        <>
          <AdviceList advice={all.slice(0, FIRST)} hasNames />
          {all.length > FIRST && (
            <details>
              <summary>{count(all.length - FIRST)} more</summary>
              <AdviceList advice={all.slice(FIRST)} hasNames />
            </details>
          )}
        </>
      )}
    </section>
  );
}

/** Draws the load of the last quarter of an hour, with the process. */
function Load({ value }: { readonly value: Overview }): JSX.Element {
  const live = useResource(async (signal) => readLive({ step: SAMPLE_SECONDS, containers: 0 }, signal), []);
  usePoll(live, CHARTS_MS);
  const isWhole = value.figures.length === value.containers;
  return (
    <section class="stack" aria-labelledby="overview-load">
      <div class="page-head">
        <h2 id="overview-load">Last 15 minutes</h2>
        <a href={href(["live"])}>Live, by the second</a>
      </div>
      {live.error && !live.value && (
        <ErrorView error={live.error} title="The samples could not be read." onRetry={live.reload} />
      )}
      {live.value && live.value.start.length > 1 ? (
        <LiveCharts
          live={live.value}
          only={CHARTS}
          provisioned={isWhole ? provisionedOf(value.figures) : null}
          onZoom={(from, to) => navigate(href(["live"], { from: from.toFixed(0), to: to.toFixed(0) }))}
        />
      ) : (
        !live.error && <Skeleton lines={8} />
      )}
    </section>
  );
}

/** Returns the RU/s of all containers; null if one of them has no limit. Containers that share the
 * throughput of their database count once. */
function provisionedOf(figures: readonly ContainerFigures[]): number | null {
  let sum = 0;
  const shared = new Set<string>();
  for (const { database, throughput } of figures) {
    if (throughput.ruPerSecond === undefined) return null;
    const isShared = throughput.shared === "yes";
    if (!isShared || !shared.has(database)) sum += throughput.ruPerSecond;
    if (isShared) shared.add(database);
  }
  return figures.length === 0 ? null : sum;
}

function open({ database, container }: ContainerFigures): void {
  navigate(href(["data", database, container, "items"]));
}

function Tiles({ value }: { readonly value: Overview }): JSX.Element {
  const live = useStore(liveNow);
  const { status } = value;
  const total = (list: readonly number[] | undefined): number => {
    let sum = 0;
    for (const one of list ?? []) sum += one;
    return sum;
  };
  const requests = total(live?.requests);
  const seconds = total(live?.seconds);
  const per = (amount: number): string => compact(seconds === 0 ? 0 : amount / seconds);
  return (
    <dl class="overview-tiles">
      <Tile name="Items" text={count(status.items)} />
      <Tile name="JSON of the items" text={bytes(status.bytes)} />
      <Tile name="Physical partitions" text={count(status.partitions)} />
      <Tile name="RU/s (1 min)" text={per(total(live?.requestUnits))} />
      <Tile name="Requests/s (1 min)" text={per(requests)} />
      <Tile name="429 (1 min)" text={requests === 0 ? "0 %" : percent(total(live?.throttled) / requests)} />
    </dl>
  );
}

function Tile({ name, text }: { readonly name: string; readonly text: string }): JSX.Element {
  return (
    <div class="card">
      <dt>{name}</dt>
      <dd>{text}</dd>
    </div>
  );
}
