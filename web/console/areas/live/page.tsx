/** The live page: requests, request units, latency, refusals, storage and connections over time.
 *
 * The address holds the range: `last` (seconds up to now) or `from` and `to` (seconds since 1970).
 * Promises: while the range ends now, the charts follow; a chart that a person zooms stops them. */

import type { JSX } from "preact";
import { readLive, type Live } from "../../api/live.ts";
import { href, navigate, useAddress } from "../../router.ts";
import { Button } from "../../ui/button.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { clock, duration } from "../../ui/format.ts";
import { usePoll, useResource } from "../../ui/resource.ts";
import { Empty, Skeleton } from "../../ui/states.tsx";
import { LiveCharts } from "./charts.tsx";

const RANGES = [
  [60, "1 min"],
  [900, "15 min"],
  [3_600, "1 h"],
  [21_600, "6 h"],
  [86_400, "24 h"],
] as const;
const DEFAULT_LAST = 900;
/** Up to this range the server has a sample for each second. */
const FINE_SECONDS = 900;

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Draws the page. */
export default function LivePage(): JSX.Element {
  const range = useRange();
  const live = useResource(async (signal) => read(range, signal), [range.last, range.from, range.to]);
  usePoll(live, range.last <= FINE_SECONDS ? 1_000 : 10_000, range.isFollowing);
  const zoom = (from: number, to: number): void =>
    navigate(href(["live"], { from: from.toFixed(0), to: Math.max(to, from + 2).toFixed(0) }));
  return (
    <>
      <div class="page-head">
        <h1>Live</h1>
        <RangePicker range={range} />
      </div>
      {live.error && <ErrorView error={live.error} title="The samples could not be read." onRetry={live.reload} />}
      {live.value ? <Shown live={live.value} onZoom={zoom} /> : !live.error && <Skeleton lines={8} />}
    </>
  );
}

function Shown({ live, onZoom }: { readonly live: Live; readonly onZoom: (from: number, to: number) => void }): JSX.Element {
  if (live.start.length < 2) {
    return (
      <Empty title="The server has no samples of this time." icon="live">
        Samples begin when the server starts, and are kept for a day. Send a request, then look again.
      </Empty>
    );
  }
  return (
    <>
      <LiveCharts live={live} onZoom={onZoom} />
      <p class="soft">
        Times are in the zone {ZONE}. Drag over a chart to see a shorter range. The console's own requests are
        left out. Processor, memory and disk are those of the server's process; 100 % is one core.
      </p>
    </>
  );
}

interface Range {
  /** Seconds up to now; 0 if the range is fixed. */
  readonly last: number;
  readonly from: number;
  readonly to: number;
  readonly isFollowing: boolean;
}

function useRange(): Range {
  const { query } = useAddress();
  const from = Number(query.get("from"));
  const to = Number(query.get("to"));
  if (Number.isFinite(from) && Number.isFinite(to) && from > 0 && to > from) {
    return { last: 0, from, to, isFollowing: false };
  }
  const last = Number(query.get("last") ?? DEFAULT_LAST);
  return { last: last > 0 ? last : DEFAULT_LAST, from: 0, to: 0, isFollowing: true };
}

/** The clock of the samples may differ from the browser's, so the newest sample says when now is. */
async function read(range: Range, signal: AbortSignal): Promise<Live> {
  if (!range.isFollowing) return readLive({ from: range.from, to: range.to }, signal);
  if (range.last <= FINE_SECONDS) return cut(await readLive({}, signal), range.last);
  const newest = await readLive({ containers: 0 }, signal);
  const now = newest.start.at(-1) ?? Date.now() / 1_000;
  return readLive({ from: now - range.last }, signal);
}

/** Keeps the samples of the newest seconds. */
function cut(live: Live, seconds: number): Live {
  const last = live.start.at(-1) ?? 0;
  const first = live.start.findIndex((start) => start > last - seconds);
  if (first <= 0) return live;
  const shortened = Object.entries(live).map(([name, list]) => {
    if (name !== "containers") return [name, (list as readonly number[]).slice(first)];
    return [
      name,
      live.containers.map((container) => ({
        ...container,
        requestUnits: container.requestUnits.slice(first),
        requests: container.requests.slice(first),
        throttled: container.throttled.slice(first),
      })),
    ];
  });
  return Object.fromEntries(shortened) as Live;
}

function RangePicker({ range }: { readonly range: Range }): JSX.Element {
  return (
    <div class="row live-range" role="group" aria-label="Range of time">
      {!range.isFollowing && (
        <>
          <span class="soft">
            {clock(new Date(range.from * 1_000))} to {clock(new Date(range.to * 1_000))},{" "}
            {duration((range.to - range.from) * 1_000)}
          </span>
          <Button icon="play" onClick={() => navigate(href(["live"]))}>
            Follow
          </Button>
        </>
      )}
      {RANGES.map(([seconds, text]) => (
        <Button
          key={seconds}
          kind="quiet"
          pressed={range.isFollowing && range.last === seconds}
          onClick={() => navigate(href(["live"], { last: String(seconds) }))}
        >
          {text}
        </Button>
      ))}
    </div>
  );
}
