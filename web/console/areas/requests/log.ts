/** The log of requests as the page keeps it: merged by number, filtered, newest first.
 *
 * Promises: at most `KEPT_MAX` requests are kept; a request appears once, also if pages overlap. A
 * server that started again begins a new log. */

export interface ChargePart {
  readonly what: string;
  readonly count: number;
  readonly ru: number;
}

export interface RecordedRequest {
  readonly number: number;
  readonly reason: "throttled" | "failed" | "expensive" | "slow" | "followed";
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly operation: string;
  readonly resource: string;
  readonly method: string;
  readonly db?: string;
  readonly coll?: string;
  readonly id?: string;
  readonly path: string;
  readonly partitions: readonly string[];
  readonly partitionCount: number;
  readonly status: number;
  readonly substatus: number;
  readonly code?: string;
  readonly ru: number;
  readonly parts: readonly ChargePart[];
  readonly ms: number;
  readonly activityId: string;
  readonly userAgent?: string;
  readonly client: string;
  readonly fromConsole: boolean;
  readonly query?: {
    readonly form?: string;
    readonly retrieved: number;
    readonly output: number;
    readonly indexHitRatio: number;
  };
}

export interface LogPage {
  readonly requests: readonly RecordedRequest[];
  readonly next: number;
}

/** What a person looks for; an absent member matches all requests. */
export interface LogFilter {
  readonly operation?: string;
  readonly partition?: string;
  /** Seconds since 1970. */
  readonly from?: number;
  readonly to?: number;
  readonly hasConsole: boolean;
}

export const KEPT_MAX = 5_000;

export class RequestLog {
  /** The newest first. */
  requests: readonly RecordedRequest[] = [];
  /** The number behind which the next page begins; null before the first page. */
  after: number | null = null;
  /** Requests that fell out of the list because newer ones came. */
  dropped = 0;

  /** Adds a page and returns the number of new requests. */
  add(page: LogPage): number {
    if (this.after !== null && page.next < this.after) this.clear();
    const newest = this.requests[0]?.number ?? -1;
    const fresh = page.requests.filter((request) => request.number > newest);
    const all = [...fresh].reverse().concat(this.requests);
    this.dropped += Math.max(0, all.length - KEPT_MAX);
    this.requests = all.slice(0, KEPT_MAX);
    this.after = page.next;
    return fresh.length;
  }

  /** Forgets everything; the next page begins with the newest requests. */
  clear(): void {
    this.requests = [];
    this.after = null;
    this.dropped = 0;
  }
}

/** Returns the requests that match, in their order. */
export function matching(requests: readonly RecordedRequest[], filter: LogFilter): RecordedRequest[] {
  const { operation, partition, from, to } = filter;
  return requests.filter((request) => {
    if (!filter.hasConsole && request.fromConsole) return false;
    if (operation !== undefined && request.operation !== operation) return false;
    if (partition !== undefined && !request.partitions.includes(partition)) return false;
    if (from !== undefined && request.time < from * 1_000) return false;
    return to === undefined || request.time < to * 1_000;
  });
}

/** Returns the parts that cost something, the most expensive first; rounding is left out. */
export function costs(parts: readonly ChargePart[]): ChargePart[] {
  return parts.filter((part) => part.ru > 0).sort((a, b) => b.ru - a.ru);
}
