/** Follows the change feed of a container over all of its physical partitions.
 *
 * The follower has a position for each EPK range: at the start one for each physical partition.
 * After a split a position is divided among the successors; after a merge each position stays
 * within its own EPK range of the new partition, so no change is skipped or read twice.
 *
 *     round ─▶ a page for each position that is due ─▶ changes in the order of their time,
 *                                                      as far as all positions have come
 *       ▲          200: again in the next round
 *       │          304: after a pause that doubles up to PAUSE_MS_MAX
 *       └──────────410: the ranges are read again, positions keep their place
 *
 * Promises: changes come in the order of their time over all partitions, except from a partition that
 * could not be read; an error of one partition does not stop the others. A position that is far
 * ahead waits, so what is held back is bounded.
 * Leaves out: requests (`FeedSource`) and timers; the page calls `round`. */

import { jsonText } from "../../api/exact-json.ts";
import type { JsonValue } from "./diff.ts";

export type FeedObject = { readonly [name: string]: JsonValue };
export type FeedMode = "latest" | "all";

/** The begin of a feed: all items, changes from now on, or changes after a time. */
export type FeedStart = "beginning" | "now" | Date;

export interface FeedRange {
  id: string;
  minInclusive: string;
  maxExclusive: string;
}

export interface FeedRequest {
  rangeId: string;
  /** The EPK range if it is narrower than the physical partition, otherwise null. */
  within: { min: string; max: string } | null;
  /** The etag of the page before; null on the first page. */
  place: string | null;
  start: FeedStart;
}

export interface FeedPage {
  entries: readonly FeedObject[];
  place: string | null;
  charge: number;
  isAtEnd: boolean;
}

export interface FeedSource {
  ranges(): Promise<readonly FeedRange[]>;
  page(request: FeedRequest): Promise<FeedPage>;
  /** Returns true if the error says that a physical partition was replaced. */
  isGone(error: unknown): boolean;
}

/** The position in one EPK range. */
export interface FeedPosition {
  rangeId: string;
  min: string;
  max: string;
  place: string | null;
  isAtEnd: boolean;
  changes: number;
  charge: number;
  /** Milliseconds at which the next page is due. */
  dueMs: number;
  pauseMs: number;
  error: unknown;
  /** Time of the last change, in seconds since 1970. */
  seconds: number;
}

export interface FeedChange {
  /** Number of the change in this follower, from 1. */
  number: number;
  rangeId: string;
  lsn: number;
  /** Seconds since 1970 of the write. */
  seconds: number;
  operation: "write" | "create" | "replace" | "delete";
  id: string;
  /** Identifies the item over its versions. */
  rid: string;
  item: FeedObject | null;
  /** The version before, if the feed contains it. */
  previous: FeedObject | null;
  timeToLiveExpired: boolean;
}

export const PAUSE_MS_MIN = 500;
export const PAUSE_MS_MAX = 4_000;
/** Changes that wait for slower positions; beyond it, positions that are ahead are not read. */
const HELD_MAX = 2_000;

export class FeedFollower {
  positions: FeedPosition[] = [];
  charge = 0;
  private count = 0;
  private hasRanges = false;
  private held: FeedChange[] = [];

  constructor(
    private readonly source: FeedSource,
    private readonly start: FeedStart,
  ) {}

  /** Reads a page for each position that is due and returns the changes, the oldest first. */
  async round(nowMs: number): Promise<FeedChange[]> {
    if (!this.hasRanges) await this.readRanges(nowMs);
    const reached = this.reached();
    const isFull = this.held.length >= HELD_MAX;
    const due = this.positions.filter(
      (position) => position.dueMs <= nowMs && (!isFull || position.seconds <= reached),
    );
    const answers = await Promise.all(due.map((position) => this.pageOf(position)));

    let isGone = false;
    for (const { position, page, error } of answers) {
      if (page === null) {
        isGone ||= this.source.isGone(error);
        retreat(position, error, nowMs);
      } else {
        this.held.push(...this.accept(position, page, nowMs));
      }
    }
    if (isGone) await this.readRanges(nowMs);
    return this.released();
  }

  /** Returns the held changes up to the time that all positions have reached, in their order. */
  private released(): FeedChange[] {
    const reached = this.reached();
    const changes = this.held.filter((change) => change.seconds <= reached);
    this.held = this.held.filter((change) => change.seconds > reached);
    changes.sort((a, b) => a.seconds - b.seconds || (a.rangeId === b.rangeId ? a.lsn - b.lsn : 0));
    for (const change of changes) change.number = this.count += 1;
    return changes;
  }

  /** Returns the time up to which every position that can be read has returned its changes. */
  private reached(): number {
    let reached = Infinity;
    for (const position of this.positions) {
      const isBehind = !position.isAtEnd && position.error === null;
      if (isBehind) reached = Math.min(reached, position.seconds);
    }
    return reached;
  }

  /** Milliseconds until the next position is due. */
  waitMs(nowMs: number): number {
    let wait = PAUSE_MS_MAX;
    for (const position of this.positions) wait = Math.min(wait, position.dueMs - nowMs);
    return Math.max(0, wait);
  }

  /** True if all positions have reached the end of the feed. */
  get isAtEnd(): boolean {
    return this.positions.length > 0 && this.positions.every((position) => position.isAtEnd);
  }

  private async pageOf(
    position: FeedPosition,
  ): Promise<{ position: FeedPosition; page: FeedPage | null; error: unknown }> {
    const range = this.ranges.find((known) => known.id === position.rangeId);
    const isWhole = range?.minInclusive === position.min && range.maxExclusive === position.max;
    try {
      const page = await this.source.page({
        rangeId: position.rangeId,
        within: isWhole ? null : { min: position.min, max: position.max },
        place: position.place,
        start: this.start,
      });
      return { position, page, error: null };
    } catch (error) {
      return { position, page: null, error };
    }
  }

  private accept(position: FeedPosition, page: FeedPage, nowMs: number): FeedChange[] {
    position.error = null;
    position.place = page.place ?? position.place;
    position.charge += page.charge;
    position.changes += page.entries.length;
    position.isAtEnd = page.isAtEnd;
    this.charge += page.charge;
    if (page.isAtEnd) {
      position.pauseMs = Math.min(PAUSE_MS_MAX, Math.max(PAUSE_MS_MIN, position.pauseMs * 2));
      position.dueMs = nowMs + position.pauseMs;
    } else {
      position.pauseMs = 0;
      position.dueMs = nowMs;
    }
    const changes = page.entries.map((entry) => changeOf(entry, position.rangeId));
    position.seconds = Math.max(position.seconds, changes.at(-1)?.seconds ?? 0);
    return changes;
  }

  private ranges: readonly FeedRange[] = [];

  private async readRanges(nowMs: number): Promise<void> {
    this.ranges = await this.source.ranges();
    this.positions = this.hasRanges
      ? routed(this.positions, this.ranges, nowMs)
      : this.ranges.map((range) => positionAt(range, nowMs));
    this.hasRanges = true;
  }
}

function positionAt(range: FeedRange, nowMs: number): FeedPosition {
  return {
    rangeId: range.id,
    min: range.minInclusive,
    max: range.maxExclusive,
    place: null,
    isAtEnd: false,
    changes: 0,
    charge: 0,
    dueMs: nowMs,
    pauseMs: 0,
    error: null,
    seconds: 0,
  };
}

/** Returns the positions cut at the borders of the ranges, each with the id of its range. */
export function routed(
  positions: readonly FeedPosition[],
  ranges: readonly FeedRange[],
  nowMs: number,
): FeedPosition[] {
  const cut: FeedPosition[] = [];
  for (const position of positions) {
    let isFirst = true;
    for (const range of ranges) {
      const min = position.min > range.minInclusive ? position.min : range.minInclusive;
      const max = position.max < range.maxExclusive ? position.max : range.maxExclusive;
      if (min >= max) continue;
      const isSame = range.id === position.rangeId && min === position.min && max === position.max;
      // The sums of a divided position go on in its first part, so that totals stay true.
      const counts = isFirst ? {} : { changes: 0, charge: 0 };
      cut.push({
        ...position,
        ...counts,
        rangeId: range.id,
        min,
        max,
        dueMs: isSame ? position.dueMs : nowMs,
        error: isSame ? position.error : null,
      });
      isFirst = false;
    }
  }
  return cut;
}

/** Puts the next request off after an error. */
function retreat(position: FeedPosition, error: unknown, nowMs: number): void {
  position.error = error;
  position.pauseMs = Math.min(PAUSE_MS_MAX, Math.max(PAUSE_MS_MIN, position.pauseMs * 2));
  position.dueMs = nowMs + position.pauseMs;
}

/** Reads an entry of either mode. */
export function changeOf(entry: FeedObject, rangeId: string): FeedChange {
  const metadata = objectOf(entry["metadata"]);
  const isVersion = metadata !== null && typeof metadata["operationType"] === "string";
  return isVersion ? versionOf(entry, metadata, rangeId) : latestOf(entry, rangeId);
}

function latestOf(item: FeedObject, rangeId: string): FeedChange {
  return {
    number: 0,
    rangeId,
    lsn: numberOf(item["_lsn"]),
    seconds: numberOf(item["_ts"]),
    operation: "write",
    id: textOf(item["id"]),
    rid: textOf(item["_rid"]),
    item,
    previous: null,
    timeToLiveExpired: false,
  };
}

function versionOf(entry: FeedObject, metadata: FeedObject, rangeId: string): FeedChange {
  const current = objectOf(entry["current"]);
  const previous = objectOf(entry["previous"]);
  const item = current !== null && Object.keys(current).length > 0 ? current : null;
  const named = item ?? previous ?? metadata;
  const operation = metadata["operationType"];
  const key = jsonText(metadata["partitionKey"] ?? null);
  const id = textOf(metadata["id"]) || textOf(named["id"]);
  return {
    number: 0,
    rangeId,
    lsn: numberOf(metadata["lsn"]),
    seconds: numberOf(metadata["crts"]),
    operation: operation === "create" || operation === "delete" ? operation : "replace",
    id,
    rid: textOf(named["_rid"]) || `${key}/${id}`,
    item,
    previous: previous !== null && Object.keys(previous).length > 0 ? previous : null,
    timeToLiveExpired: metadata["timeToLiveExpired"] === true,
  };
}

function objectOf(value: JsonValue | undefined): FeedObject | null {
  if (value === null || value === undefined || typeof value !== "object") return null;
  return Array.isArray(value) ? null : (value as FeedObject);
}

function numberOf(value: JsonValue | undefined): number {
  return typeof value === "number" ? value : 0;
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === "string" ? value : "";
}
