/** The load of the account over time: samples that the server keeps, and the newest minute for the header.
 *
 * Leaves out: drawing. */

import { recoveries } from "./client.ts";
import { manage } from "./client.ts";
import { createStore } from "../store.ts";

/** Columns: the n-th element of each list belongs to the n-th sample. */
export interface Live {
  /** Start of each sample in seconds since 1970, the oldest first. */
  readonly start: readonly number[];
  /** Length of each sample in seconds. */
  readonly seconds: readonly number[];
  readonly requests: readonly number[];
  readonly requestUnits: readonly number[];
  readonly throttled: readonly number[];
  readonly clientErrors: readonly number[];
  readonly serverErrors: readonly number[];
  readonly microsecondsP50: readonly number[];
  readonly microsecondsP95: readonly number[];
  readonly microsecondsP99: readonly number[];
  readonly connections: readonly number[];
  readonly storedBytes: readonly number[];
  /** Seconds of one core. */
  readonly processorSeconds: readonly number[];
  readonly residentBytes: readonly number[];
  readonly diskReadBytes: readonly number[];
  readonly diskWrittenBytes: readonly number[];
  readonly containers: readonly LiveContainer[];
}

export interface LiveContainer {
  readonly db: string;
  readonly coll: string;
  readonly requestUnits: readonly number[];
  readonly requests: readonly number[];
  readonly throttled: readonly number[];
}

export interface LiveRange {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly containers?: number | undefined;
  /** Seconds to which samples are merged. */
  readonly step?: number | undefined;
}

/** Reads the samples of a range of time; without one, of the newest quarter of an hour. */
export async function readLive(range: LiveRange, signal?: AbortSignal): Promise<Live> {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(range)) {
    if (value !== undefined) parameters.set(name, String(Math.floor(value)));
  }
  const reply = await manage(`/live?${parameters.toString()}`, { signal, poll: true });
  return reply.json() as Live;
}

/** Divides a count of each sample by its length. */
export function perSecond(counts: readonly number[], live: Live): number[] {
  return counts.map((amount, index) => amount / Math.max(0.001, live.seconds[index] ?? 1));
}

const NOW_SECONDS = 60;
const NOW_EVERY_MS = 2_000;

/** The newest minute; null until the first answer. */
export const liveNow = createStore<Live | null>(null);

let readers = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Keeps `liveNow` current until the returned function is called. */
export function followLiveNow(): () => void {
  readers += 1;
  if (readers === 1) void readNow();
  const stop = recoveries.subscribe(() => void readNow());
  return () => {
    stop();
    readers -= 1;
    if (readers === 0) clearTimeout(timer);
  };
}

async function readNow(): Promise<void> {
  clearTimeout(timer);
  if (document.visibilityState === "visible") {
    try {
      const last = liveNow.get()?.start.at(-1);
      const from = last === undefined ? undefined : last - NOW_SECONDS;
      liveNow.set(newest(await readLive({ from, containers: 0 })));
    } catch {
      // The page shows what is wrong with the server; the header shows no figure then.
      liveNow.set(null);
    }
  }
  clearTimeout(timer);
  if (readers > 0) timer = setTimeout(() => void readNow(), NOW_EVERY_MS);
}

/** Keeps the newest minute. */
function newest(live: Live): Live {
  const last = live.start.at(-1) ?? 0;
  const first = Math.max(0, live.start.findIndex((start) => start > last - NOW_SECONDS));
  const cut: Record<string, unknown> = {};
  for (const [name, list] of Object.entries(live)) {
    cut[name] = name === "containers" ? [] : (list as readonly number[]).slice(first);
  }
  return cut as unknown as Live;
}
