/** Geometry of the heat map: from the pointer and the keyboard to cells, times and ranges. */

import type { Span } from "./epk.ts";
import { PARTS, type HeatGrid, type TimeRange } from "./heat.ts";
import type { Cell } from "./paint.ts";

/** A place in the picture, from 0 to 1. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** A cell by its time, its range of the hash space and its load per second. */
export interface Place {
  readonly time: TimeRange;
  readonly span: Span;
  readonly value: number;
}

/** The part of the map that is shown. */
export interface Shown {
  readonly time: TimeRange;
  readonly span: Span;
}

const DRAG_PIXELS_MIN = 5;

/** Returns the place of a pointer in its element, from 0 to 1. */
export function pointOf(event: PointerEvent): Point {
  const target = event.currentTarget;
  if (!(target instanceof Element)) return { x: 0, y: 0 };
  const box = target.getBoundingClientRect();
  const within = (value: number): number => Math.max(0, Math.min(1, value));
  return {
    x: within((event.clientX - box.left) / Math.max(1, box.width)),
    y: within((event.clientY - box.top) / Math.max(1, box.height)),
  };
}

/** Returns true if the pointer went far enough to mark an area. */
export function isDrag(from: Point, to: Point, event: PointerEvent): boolean {
  const target = event.currentTarget;
  if (!(target instanceof Element)) return false;
  const box = target.getBoundingClientRect();
  const far = Math.max(Math.abs(to.x - from.x) * box.width, Math.abs(to.y - from.y) * box.height);
  return far >= DRAG_PIXELS_MIN;
}

/** Returns true if a drag marks an area, so that the tooltip gives way. */
export function isLong(drag: { from: Point; to: Point } | null): boolean {
  if (drag === null) return false;
  return Math.abs(drag.to.x - drag.from.x) > 0.01 || Math.abs(drag.to.y - drag.from.y) > 0.01;
}

/** Returns the cell at a place. */
export function cellAt(point: Point, grid: HeatGrid): Cell {
  return {
    pixel: Math.min(grid.width - 1, Math.floor(point.x * grid.width)),
    part: Math.min(grid.parts - 1, Math.floor(point.y * grid.parts)),
  };
}

/** Returns the nearest cell of the grid. */
export function inside(cell: Cell, grid: HeatGrid): Cell {
  return { pixel: Math.min(cell.pixel, grid.width - 1), part: Math.min(cell.part, grid.parts - 1) };
}

/** Returns the time, range and load of a cell. */
export function placeOf(grid: HeatGrid, cell: Cell): Place {
  const seconds = (grid.time.to - grid.time.from) / grid.width;
  const part = grid.firstPart + cell.part;
  return {
    time: {
      from: Math.round(grid.time.from + cell.pixel * seconds),
      to: Math.round(grid.time.from + (cell.pixel + 1) * seconds),
    },
    span: { start: part / PARTS, end: (part + 1) / PARTS },
    value: grid.values[cell.pixel * grid.parts + cell.part] ?? 0,
  };
}

/** Returns the area between two places; a drag along one axis keeps the other axis. */
export function areaOf(from: Point, to: Point, shown: Shown): Shown {
  const { time, span } = shown;
  const seconds = time.to - time.from;
  const height = span.end - span.start;
  const isFlat = Math.abs(to.y - from.y) < 0.02;
  const isTall = Math.abs(to.x - from.x) < 0.01;
  return {
    time: isTall
      ? time
      : {
          from: time.from + Math.min(from.x, to.x) * seconds,
          to: time.from + Math.max(from.x, to.x) * seconds,
        },
    span: isFlat
      ? span
      : {
          start: span.start + Math.min(from.y, to.y) * height,
          end: span.start + Math.max(from.y, to.y) * height,
        },
  };
}

/** Returns what is shown after a zoom by `factor` around a cell. */
export function zoomedAround(cell: Cell, factor: number, shown: Shown, grid: HeatGrid): Shown {
  const place = placeOf(grid, cell);
  const seconds = (shown.time.to - shown.time.from) * factor;
  const height = Math.max(1 / PARTS, (shown.span.end - shown.span.start) * factor);
  const middle = (place.time.from + place.time.to) / 2;
  const centre = (place.span.start + place.span.end) / 2;
  const start = Math.max(0, Math.min(1 - Math.min(1, height), centre - height / 2));
  const from = Math.min(middle - seconds / 2, shown.time.to - seconds);
  return {
    time: { from, to: from + seconds },
    span: { start, end: Math.min(1, start + height) },
  };
}

/** Returns the cell to which a key moves the cursor; null for another key. */
export function moved(cell: Cell, event: KeyboardEvent, grid: HeatGrid): Cell | null {
  const step = event.shiftKey ? 10 : 1;
  const steps: Readonly<Record<string, Point>> = {
    ArrowLeft: { x: -step, y: 0 },
    ArrowRight: { x: step, y: 0 },
    ArrowUp: { x: 0, y: -step },
    ArrowDown: { x: 0, y: step },
    PageUp: { x: 0, y: -32 },
    PageDown: { x: 0, y: 32 },
    Home: { x: -grid.width, y: 0 },
    End: { x: grid.width, y: 0 },
  };
  const by = steps[event.key];
  if (by === undefined) return null;
  return {
    pixel: Math.max(0, Math.min(grid.width - 1, cell.pixel + by.x)),
    part: Math.max(0, Math.min(grid.parts - 1, cell.part + by.y)),
  };
}
