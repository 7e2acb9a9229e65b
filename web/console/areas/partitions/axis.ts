/** Time on the axis of the heat map: ranges, ticks, alignment.
 *
 * Promises: ticks stand at round local times; a range ends at the border of a column. */

import type { TimeRange } from "./heat.ts";

export interface Tick {
  seconds: number;
  label: string;
}

const STEPS = [5, 15, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800];
const PIXEL_SECONDS = [5, 10, 15, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600];
const SHORTEST = 5;

/** The ranges of time that a person can choose, in seconds. */
export const RANGES: readonly (readonly [seconds: number, label: string])[] = [
  [300, "5 min"],
  [900, "15 min"],
  [3600, "1 h"],
  [21_600, "6 h"],
  [86_400, "24 h"],
  [604_800, "7 days"],
];

/** Returns the range of `seconds` that ends with the column of now. */
export function rangeUntil(now: number, seconds: number): TimeRange {
  const to = Math.ceil((now + 1) / SHORTEST) * SHORTEST;
  return { from: to - seconds, to };
}

/** Returns the range widened to whole columns of 5 s. */
export function aligned(range: TimeRange): TimeRange {
  const from = Math.floor(range.from / SHORTEST) * SHORTEST;
  const to = Math.max(from + SHORTEST, Math.ceil(range.to / SHORTEST) * SHORTEST);
  return { from, to };
}

/** Returns the number of pixel columns for a range, at most `widthMax`, so that a pixel column is a
 * round number of seconds. */
export function columnsFor(range: TimeRange, widthMax: number): number {
  const length = range.to - range.from;
  for (const seconds of PIXEL_SECONDS) {
    const columns = Math.ceil(length / seconds);
    if (columns <= widthMax) return Math.max(1, columns);
  }
  return Math.max(1, Math.floor(widthMax));
}

/** Returns the ticks of a range, at least `apart` pixels from each other. */
export function ticksOf(range: TimeRange, width: number, apart = 88): Tick[] {
  const length = range.to - range.from;
  const room = Math.max(1, Math.floor(width / apart));
  const step = STEPS.find((seconds) => length / seconds <= room) ?? 604_800;
  const shift = -new Date(range.from * 1000).getTimezoneOffset() * 60;
  const ticks: Tick[] = [];
  const first = Math.ceil((range.from + shift) / step) * step - shift;
  for (let seconds = first; seconds <= range.to; seconds += step) {
    ticks.push({ seconds, label: labelOf(seconds, step) });
  }
  return ticks;
}

/** Returns the name of the local time zone. */
export function zoneName(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
}

/** Returns the times of an interval for a tooltip, with the date if it is not today. */
export function intervalText(range: TimeRange): string {
  const from = new Date(range.from * 1000);
  const to = new Date(range.to * 1000);
  const isToday = from.toDateString() === new Date().toDateString();
  const day = isToday ? "" : `${from.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} `;
  return `${day}${clock(from)}–${clock(to)}`;
}

function clock(date: Date): string {
  return date.toLocaleTimeString("en-GB");
}

function labelOf(seconds: number, step: number): string {
  const date = new Date(seconds * 1000);
  if (step >= 86_400) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const text = clock(date);
  return step < 60 ? text : text.slice(0, 5);
}
