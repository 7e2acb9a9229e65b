/** What the tail shows: the newest changes with their differences, bounded, and the rate.
 *
 * Promises: at most `CHANGES_MAX` changes are kept, the newest first. */

import { differences, type Difference } from "./diff.ts";
import type { FeedChange } from "./follower.ts";
import { SeenVersions } from "./seen.ts";

export const CHANGES_MAX = 1_000;
const RATE_MS = 10_000;

/** A change with what the tail knows of the version before. */
export interface ShownChange extends FeedChange {
  /** Null if the version before was not seen. */
  readonly changed: readonly Difference[] | null;
  /** False for the first version that this tail saw of an item. */
  readonly isKnown: boolean;
}

export class FeedTail {
  changes: readonly ShownChange[] = [];
  total = 0;
  private readonly seen = new SeenVersions();
  private arrivals: { ms: number; count: number }[] = [];

  /** Adds changes in the order in which the follower returned them. */
  add(changes: readonly FeedChange[], nowMs: number): void {
    if (changes.length === 0) return;
    const shown = changes.map((change) => this.shown(change)).reverse();
    this.changes = [...shown, ...this.changes].slice(0, CHANGES_MAX);
    this.total += changes.length;
    this.arrivals.push({ ms: nowMs, count: changes.length });
  }

  /** Changes in a second over the last ten seconds. */
  rate(nowMs: number): number {
    this.arrivals = this.arrivals.filter(({ ms }) => ms > nowMs - RATE_MS);
    return this.arrivals.reduce((sum, { count }) => sum + count, 0) / (RATE_MS / 1_000);
  }

  private shown(change: FeedChange): ShownChange {
    const before = this.seen.replace(change.rid, change.item);
    const old = change.previous ?? before;
    const changed = old !== null && change.item !== null ? differences(old, change.item) : null;
    return { ...change, changed, isKnown: old !== null };
  }
}
