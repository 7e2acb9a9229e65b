/** Load of each physical partition by the second, as far as the page has seen it.
 *
 * An answer of the management API has the seconds of the last minute that had requests; a second
 * without an entry had none. Answers overlap, so a second is taken from the newest answer.
 *
 * Promises: at most `SECONDS_MAX` seconds are kept; the second that is still running is left out. */

export interface PartitionSecond {
  readonly second: number;
  readonly requestUnits: number;
  readonly requests: number;
  readonly throttled: number;
}

export interface SampledPartition {
  readonly id: string;
  readonly lastMinute: readonly PartitionSecond[];
}

/** The load of the partitions in one second. */
export interface Sample {
  /** Seconds since 1970. */
  readonly seconds: number;
  readonly partitions: ReadonlyMap<string, PartitionRate>;
}

export interface PartitionRate {
  readonly ruPerSecond: number;
  readonly requestsPerSecond: number;
  readonly throttledPerSecond: number;
}

export const SECONDS_MAX = 3_600;
const MINUTE = 60;
const IDLE: PartitionRate = { ruPerSecond: 0, requestsPerSecond: 0, throttledPerSecond: 0 };

export class PartitionSamples {
  samples: readonly Sample[] = [];

  /** Adds an answer that was read at `now`, in seconds since 1970. */
  add(now: number, partitions: readonly SampledPartition[]): void {
    const end = endOf(now, partitions);
    const start = end - MINUTE;
    const fresh: Sample[] = [];
    for (let second = start; second < end; second += 1) {
      fresh.push({ seconds: second, partitions: ratesAt(second, partitions) });
    }
    const older = this.samples.filter((sample) => sample.seconds < start);
    this.samples = [...older, ...fresh].slice(-SECONDS_MAX);
  }

  /** Returns the ids of all partitions in the samples, in order of their numbers. */
  ids(): string[] {
    const ids = new Set<string>();
    for (const sample of this.samples) for (const id of sample.partitions.keys()) ids.add(id);
    return [...ids].sort((a, b) => Number(a) - Number(b));
  }

  /** Returns the 99th percentile of a partition's RU/s over the last `seconds`. */
  busy(id: string, seconds: number): number {
    const last = this.samples.at(-1)?.seconds ?? 0;
    const rates: number[] = [];
    for (const sample of this.samples) {
      const rate = sample.partitions.get(id);
      if (sample.seconds > last - seconds && rate !== undefined) rates.push(rate.ruPerSecond);
    }
    rates.sort((a, b) => a - b);
    return rates[Math.ceil(rates.length * 0.99) - 1] ?? 0;
  }
}

/** Returns the end of the last whole second. The clocks of server and browser may differ: seconds that
 * are newer than the browser's clock, or older than its last minute, show the server's time. */
function endOf(now: number, partitions: readonly SampledPartition[]): number {
  let newest = 0;
  for (const { lastMinute } of partitions) newest = Math.max(newest, lastMinute.at(-1)?.second ?? 0);
  const end = Math.floor(now);
  const isElsewhere = newest > end || (newest > 0 && newest < end - MINUTE);
  return isElsewhere ? newest : end;
}

function ratesAt(second: number, partitions: readonly SampledPartition[]): Map<string, PartitionRate> {
  const rates = new Map<string, PartitionRate>();
  for (const { id, lastMinute } of partitions) {
    const found = lastMinute.find((entry) => entry.second === second);
    const rate = found && {
      ruPerSecond: found.requestUnits,
      requestsPerSecond: found.requests,
      throttledPerSecond: found.throttled,
    };
    rates.set(id, rate ?? IDLE);
  }
  return rates;
}
