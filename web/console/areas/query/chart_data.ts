/** Chooses columns of rows for a chart and makes their series.
 *
 * Promises: at most `POINTS_MAX` points, and the number left out is said; rows without a number in
 * the chosen column are counted, not drawn as zero. */

import { isNumber } from "../../api/exact-json.ts";
import { cellText, cellValue, type Column } from "./table.ts";

export type ChartKind = "bar" | "line" | "scatter";

export const POINTS_MAX = 10_000;
export const BARS_MAX = 200;
const ROWS_LOOKED_AT = 200;

export interface ChartSeries {
  x: number[];
  y: number[];
  /** Names of the positions on the x axis, if the column has texts. */
  labels: string[] | null;
  /** Rows without a number in the y column. */
  withoutNumber: number;
  /** Rows behind the largest number of points. */
  leftOut: number;
}

/** Returns the columns that have numbers, by their first rows. */
export function numberColumns(rows: readonly unknown[], columns: readonly Column[]): Column[] {
  const looked = rows.slice(0, ROWS_LOOKED_AT);
  return columns.filter((column) =>
    looked.some((row) => isDrawn(cellValue(row, column))),
  );
}

/** Returns true for a number that has a place in a chart. */
function isDrawn(value: unknown): boolean {
  return isNumber(value) && Number.isFinite(Number(value));
}

/** Returns the series of two columns. */
export function series(
  rows: readonly unknown[],
  xColumn: Column,
  yColumn: Column,
  kind: ChartKind,
): ChartSeries {
  const limit = kind === "bar" ? BARS_MAX : POINTS_MAX;
  const points: { x: unknown; y: number }[] = [];
  let withoutNumber = 0;
  let leftOut = 0;
  for (const row of rows) {
    const y = cellValue(row, yColumn);
    if (!isDrawn(y)) withoutNumber += 1;
    else if (points.length >= limit) leftOut += 1;
    else points.push({ x: cellValue(row, xColumn), y: Number(y) });
  }
  const isNumeric = kind !== "bar" && points.every((point) => isDrawn(point.x));
  if (isNumeric) {
    const sorted = [...points].sort((a, b) => Number(a.x) - Number(b.x));
    const x = sorted.map((point) => Number(point.x));
    return { x, y: sorted.map((point) => point.y), labels: null, withoutNumber, leftOut };
  }
  return {
    x: points.map((_, index) => index),
    y: points.map((point) => point.y),
    labels: points.map((point) => cellText(point.x)),
    withoutNumber,
    leftOut,
  };
}
