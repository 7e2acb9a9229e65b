/** The tab "Change feed" of a container: a tail that follows, its positions, and the consumers' lag.
 *
 * The address holds mode and start. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { asApiError, isAborted, type ApiError } from "../../api/client.ts";
import { containers } from "../../api/data.ts";
import type { ContainerProps } from "../../areas.ts";
import { useParameter } from "../../router.ts";
import { Button } from "../../ui/button.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { SelectField, TextField } from "../../ui/field.tsx";
import { count, ru } from "../../ui/format.ts";
import { useResource } from "../../ui/resource.ts";
import { Badge, Empty, Skeleton } from "../../ui/states.tsx";
import { Changes } from "./changes.tsx";
import { Consumers } from "./consumers.tsx";
import { FeedFollower, type FeedMode, type FeedPosition, type FeedStart } from "./follower.ts";
import { Positions } from "./positions.tsx";
import { feedSource } from "./source.ts";
import { FeedTail, type ShownChange } from "./tail.ts";

type StartKind = "now" | "beginning" | "time";

/** Draws the tab. */
export default function FeedTab({ database, container }: ContainerProps): JSX.Element {
  const definition = useResource(async () => containers.definition(database, container), [database, container]);
  if (definition.error) return <ErrorView error={definition.error} onRetry={definition.reload} />;
  if (!definition.value) return <Skeleton lines={8} />;
  const policy = definition.value.changeFeedPolicy;
  return <Feed database={database} container={container} hasVersions={keepsVersions(policy)} />;
}

function keepsVersions(policy: { readonly [name: string]: unknown } | undefined): boolean {
  const minutes = policy?.["retentionDuration"];
  return typeof minutes === "number" && minutes > 0;
}

function Feed(props: ContainerProps & { readonly hasVersions: boolean }): JSX.Element {
  const { database, container } = props;
  const [modeText, setMode] = useParameter("mode", "latest");
  const [startText, setStart] = useParameter("start", "now");
  const [timeText, setTime] = useParameter("time", "");
  const mode: FeedMode = modeText === "all" && props.hasVersions ? "all" : "latest";
  const kind = startKind(startText, mode);
  const time = kind === "time" ? new Date(timeText) : null;
  const isReady = time === null || !Number.isNaN(time.getTime());
  const [isPaused, setPaused] = useState(false);
  const [round, setRound] = useState(0);
  const start = useMemo((): FeedStart => (kind === "time" ? new Date(timeText) : kind), [kind, timeText]);
  const tail = useTail({ database, container, mode, start, isPaused: isPaused || !isReady, round });
  return (
    <div class="feed-page">
      <div class="feed-controls">
        <SelectField<FeedMode>
          label="Changes"
          value={mode}
          onChange={setMode}
          options={[
            ["latest", "Latest version of each item"],
            ...(props.hasVersions ? ([["all", "All versions and deletions"]] as const) : []),
          ]}
        />
        <SelectField<StartKind>
          label="From"
          value={kind}
          onChange={(value) => setStart(value)}
          options={mode === "all" ? [["now", "now on"]] : STARTS}
        />
        {kind === "time" && (
          <TextField
            label="Changes after"
            type="datetime-local"
            value={timeText}
            onInput={setTime}
            error={isReady ? null : "Choose a date and a time."}
          />
        )}
        <Button
          kind={isPaused ? "primary" : "plain"}
          icon={isPaused ? "play" : "stop"}
          onClick={() => setPaused(!isPaused)}
        >
          {isPaused ? "Go on" : "Pause"}
        </Button>
        <Button icon="reload" onClick={() => setRound(round + 1)}>
          Start again
        </Button>
        <Status tail={tail} isPaused={isPaused} />
      </div>
      {!props.hasVersions && (
        <p class="soft">
          The container keeps no versions: deletions are not in the feed, and of several changes of an item
          only the last. A change feed policy in the settings keeps them.
        </p>
      )}
      {tail.error && <ErrorView error={tail.error} title="The change feed could not be read." />}
      <div class="feed-columns">
        <section aria-labelledby="feed-changes">
          <h2 id="feed-changes">Changes</h2>
          {tail.changes.length === 0 ? (
            <Waiting isAtEnd={tail.isAtEnd} isPaused={isPaused} />
          ) : (
            <Changes changes={tail.changes} total={tail.total} />
          )}
        </section>
        <section aria-labelledby="feed-positions">
          <h2 id="feed-positions">Positions</h2>
          <Positions positions={tail.positions} />
          <p class="soft feed-hint">
            Each physical partition has a feed and a position of its own. A split divides a position, so no
            change is lost.
          </p>
        </section>
      </div>
      <Consumers database={database} container={container} />
    </div>
  );
}

const STARTS: readonly (readonly [StartKind, string])[] = [
  ["now", "now on"],
  ["beginning", "the beginning"],
  ["time", "a time"],
];

function startKind(text: string, mode: FeedMode): StartKind {
  if (mode === "all") return "now";
  return text === "beginning" || text === "time" ? text : "now";
}

interface TailState {
  readonly changes: readonly ShownChange[];
  readonly positions: readonly FeedPosition[];
  readonly total: number;
  readonly rate: number;
  readonly charge: number;
  readonly isAtEnd: boolean;
  readonly error: ApiError | null;
}

interface TailSetup extends ContainerProps {
  readonly mode: FeedMode;
  readonly start: FeedStart;
  readonly isPaused: boolean;
  readonly round: number;
}

const NOTHING: TailState = {
  changes: [],
  positions: [],
  total: 0,
  rate: 0,
  charge: 0,
  isAtEnd: false,
  error: null,
};
const AWAY_MS = 2_000;
const DRAW_MS_MIN = 200;

/** Follows the feed; a pause keeps the positions, another start begins again. */
function useTail(setup: TailSetup): TailState {
  const { database, container, mode, start, isPaused, round } = setup;
  const [state, setState] = useState(NOTHING);
  const aborter = useRef(new AbortController());
  const following = useMemo(() => {
    aborter.current.abort();
    aborter.current = new AbortController();
    const source = feedSource(database, container, mode, aborter.current.signal);
    return { follower: new FeedFollower(source, start), tail: new FeedTail() };
  }, [database, container, mode, start, round]);
  useEffect(() => setState(NOTHING), [following]);
  useEffect(() => () => aborter.current.abort(), []);
  useEffect(() => {
    if (isPaused) return undefined;
    const stop = new AbortController();
    void follow(following.follower, following.tail, stop.signal, setState);
    return () => stop.abort();
  }, [following, isPaused]);
  return state;
}

/** Reads round after round until the signal says stop. */
async function follow(
  follower: FeedFollower,
  tail: FeedTail,
  signal: AbortSignal,
  show: (state: TailState) => void,
): Promise<void> {
  while (!signal.aborted) {
    let error: ApiError | null = null;
    let wait = AWAY_MS;
    try {
      const now = Date.now();
      tail.add(await follower.round(now), now);
      wait = Math.max(DRAW_MS_MIN, follower.waitMs(Date.now()));
    } catch (problem) {
      if (signal.aborted || isAborted(problem)) return;
      error = asApiError(problem);
    }
    if (signal.aborted) return;
    const failed = follower.positions.find((position) => position.error !== null)?.error;
    show({
      changes: tail.changes,
      positions: [...follower.positions],
      total: tail.total,
      rate: tail.rate(Date.now()),
      charge: follower.charge,
      isAtEnd: follower.isAtEnd,
      error: error ?? (failed && !isReplaced(failed) ? asApiError(failed) : null),
    });
    await pause(wait, signal);
  }
}

/** A replaced partition is no failure: the follower goes on with its successors. */
function isReplaced(error: unknown): boolean {
  return asApiError(error).status === 410;
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}

function Status({ tail, isPaused }: { readonly tail: TailState; readonly isPaused: boolean }): JSX.Element {
  const kind = isPaused ? "info" : tail.isAtEnd ? "good" : "info";
  const text = isPaused ? "paused" : tail.isAtEnd ? "up to date" : "reading";
  return (
    <p class="feed-status" role="status">
      <Badge kind={kind}>{text}</Badge>
      <span>{count(tail.total)} changes</span>
      <span>{tail.rate.toLocaleString("en", { maximumFractionDigits: 1 })}/s</span>
      <span class="soft">{ru(tail.charge)} for reading</span>
    </p>
  );
}

function Waiting({ isAtEnd, isPaused }: { readonly isAtEnd: boolean; readonly isPaused: boolean }): JSX.Element {
  if (isPaused) {
    return (
      <Empty title="The tail is paused" icon="stop">
        The positions are kept. “Go on” reads the changes that came meanwhile.
      </Empty>
    );
  }
  if (!isAtEnd) return <Skeleton lines={5} />;
  return (
    <Empty title="No changes yet" icon="live">
      Every item that is written from now on appears here. Choose “the beginning” to see what is there.
    </Empty>
  );
}
