/** The model of the heat map: columns of different widths in time, resampled into a grid.
 *
 * The server returns columns of 5 s, 1 min, 10 min and 1 h, the older the wider, and only the parts
 * with load. The grid has one cell for each pixel column and part, and holds load per second, so
 * that columns of different widths have comparable colours.
 *
 * Promises: a column that covers several pixel columns gives each the same value; a pixel column
 * that covers several columns has their mean over its time, so no peak counts twice. */

import type { Span } from "./epk.ts";

export const PARTS = 256;

/** One time interval, as the management API returns it. */
export interface HeatColumn {
  /** Seconds since 1970. */
  start: number;
  seconds: number;
  buckets: readonly number[];
  values: readonly number[];
  /** Load of requests that address several logical partitions. */
  scans: number;
}

/** A range of time in seconds since 1970. */
export interface TimeRange {
  from: number;
  to: number;
}

/** Load per second by pixel column and part of the hash space. */
export interface HeatGrid {
  time: TimeRange;
  /** The parts that the grid shows: `firstPart` and `parts` of `PARTS`. */
  firstPart: number;
  parts: number;
  width: number;
  /** `width * parts` values, the parts of a pixel column one after another. */
  values: Float32Array;
  /** The greatest value. */
  max: number;
}

/** Returns the parts that a span of the hash space touches. */
export function partsOf(span: Span): { firstPart: number; parts: number } {
  const firstPart = Math.max(0, Math.min(PARTS - 1, Math.floor(span.start * PARTS + 1e-9)));
  const end = Math.max(firstPart + 1, Math.min(PARTS, Math.ceil(span.end * PARTS - 1e-9)));
  return { firstPart, parts: end - firstPart };
}

/** Resamples the columns that overlap `time` into `width` pixel columns. */
export function gridOf(
  columns: readonly HeatColumn[],
  time: TimeRange,
  span: Span,
  width: number,
): HeatGrid {
  const { firstPart, parts } = partsOf(span);
  const values = new Float32Array(width * parts);
  const pixelSeconds = (time.to - time.from) / width;
  for (const column of columns) addColumn(column);
  let max = 0;
  for (const value of values) if (value > max) max = value;
  return { time, firstPart, parts, width, values, max };

  function addColumn(column: HeatColumn): void {
    const start = Math.max(column.start, time.from);
    const end = Math.min(column.start + column.seconds, time.to);
    if (end <= start) return;
    const first = Math.floor((start - time.from) / pixelSeconds);
    const last = Math.min(width - 1, Math.ceil((end - time.from) / pixelSeconds) - 1);
    for (let pixel = first; pixel <= last; pixel += 1) {
      const pixelStart = time.from + pixel * pixelSeconds;
      const covered = Math.min(end, pixelStart + pixelSeconds) - Math.max(start, pixelStart);
      const share = covered / pixelSeconds / column.seconds;
      if (share > 0) addCells(column, pixel, share);
    }
  }

  function addCells(column: HeatColumn, pixel: number, share: number): void {
    for (let at = 0; at < column.buckets.length; at += 1) {
      const part = (column.buckets[at] ?? 0) - firstPart;
      if (part < 0 || part >= parts) continue;
      const cell = pixel * parts + part;
      values[cell] = (values[cell] ?? 0) + (column.values[at] ?? 0) * share;
    }
  }
}

/** Returns the load per second of a cell. */
export function cellOf(grid: HeatGrid, pixel: number, part: number): number {
  return grid.values[pixel * grid.parts + part] ?? 0;
}

/** Returns the sum of the columns' load in a range of time and of the hash space. */
export function sumOf(columns: readonly HeatColumn[], time: TimeRange, span: Span): number {
  const { firstPart, parts } = partsOf(span);
  let sum = 0;
  for (const column of columns) {
    const share = overlap(column, time) / column.seconds;
    if (share <= 0) continue;
    for (let at = 0; at < column.buckets.length; at += 1) {
      const part = (column.buckets[at] ?? 0) - firstPart;
      if (part >= 0 && part < parts) sum += (column.values[at] ?? 0) * share;
    }
  }
  return sum;
}

/** Returns the sum of requests that address several logical partitions. */
export function scansOf(columns: readonly HeatColumn[], time: TimeRange): number {
  let sum = 0;
  for (const column of columns) sum += column.scans * (overlap(column, time) / column.seconds);
  return sum;
}

/** Returns the share of the load that the busiest twentieth of the parts has, from 0 to 1.
 * Evenly distributed load gives a twentieth. */
export function concentrationOf(columns: readonly HeatColumn[], time: TimeRange): number {
  const sums = new Float64Array(PARTS);
  let total = 0;
  for (const column of columns) {
    const share = overlap(column, time) / column.seconds;
    if (share <= 0) continue;
    for (let at = 0; at < column.buckets.length; at += 1) {
      const amount = (column.values[at] ?? 0) * share;
      const part = column.buckets[at] ?? 0;
      sums[part] = (sums[part] ?? 0) + amount;
      total += amount;
    }
  }
  if (total === 0) return 0;
  const busiest = [...sums].sort((a, b) => b - a).slice(0, Math.round(PARTS / 20));
  return busiest.reduce((sum, amount) => sum + amount, 0) / total;
}

function overlap(column: HeatColumn, time: TimeRange): number {
  const end = Math.min(column.start + column.seconds, time.to);
  return Math.max(0, end - Math.max(column.start, time.from));
}
