/** Turns rows of any JSON into columns and cells.
 *
 * Promises: rows that are objects have a column for each member, in the order in which the members
 * are first seen, system properties last; other rows have one column `value`; a missing member and
 * null differ; bounded columns, the rest is said. */

import { compareNumbers, isNumber } from "../../api/exact-json.ts";

export interface Column {
  /** Member of the rows; null for the rows themselves. */
  name: string | null;
  title: string;
}

export interface Columns {
  list: Column[];
  /** Number of members without a column. */
  leftOut: number;
}

export const COLUMNS_MAX = 200;
const CELL_CHARACTERS_MAX = 200;
const SYSTEM = ["_ts", "_etag", "_rid", "_self", "_attachments"];

/** Returns true for objects, whose members can be columns. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isNumber(value);
}

/** Collects the columns of rows that arrive in pages. */
export class ColumnSet {
  private readonly names = new Set<string>();
  private hasOther = false;
  private leftOut = 0;

  add(rows: readonly unknown[]): void {
    for (const row of rows) {
      if (!isRecord(row)) {
        this.hasOther = true;
        continue;
      }
      for (const name of Object.keys(row)) {
        if (this.names.has(name)) continue;
        if (this.names.size < COLUMNS_MAX) this.names.add(name);
        else this.leftOut += 1;
      }
    }
  }

  columns(): Columns {
    const own: Column[] = [];
    const system: Column[] = [];
    for (const name of this.names) {
      (SYSTEM.includes(name) ? system : own).push({ name, title: name });
    }
    system.sort((a, b) => SYSTEM.indexOf(a.title) - SYSTEM.indexOf(b.title));
    const value: Column[] = this.hasOther ? [{ name: null, title: "(value)" }] : [];
    return { list: [...value, ...own, ...system], leftOut: this.leftOut };
  }
}

/** Returns true for the columns that a table hides at first. */
export function isSystemColumn(column: Column): boolean {
  return column.name !== null && SYSTEM.includes(column.name);
}

/** Returns the value of a cell; undefined if the row does not have it. */
export function cellValue(row: unknown, column: Column): unknown {
  if (column.name === null) return isRecord(row) ? undefined : row;
  if (!isRecord(row)) return undefined;
  return Object.hasOwn(row, column.name) ? row[column.name] : undefined;
}

/** Returns the text of a cell, shortened. Strings are shown without quotes. */
export function cellText(value: unknown): string {
  if (value === undefined) return "";
  const text = typeof value === "string" ? value : boundedJson(value);
  if (text.length <= CELL_CHARACTERS_MAX) return text;
  return `${text.slice(0, CELL_CHARACTERS_MAX)}…`;
}

/** Returns JSON text of a value; large values are cut while the text is made, so that a cell of two
 * megabytes costs no more than a small one. */
function boundedJson(value: unknown): string {
  let left = CELL_CHARACTERS_MAX * 2;
  const write = (part: unknown): string => {
    if (left <= 0) return "…";
    if (typeof part === "string") {
      const shown = JSON.stringify(part.slice(0, left));
      left -= shown.length;
      return shown;
    }
    if (typeof part !== "object" || part === null || isNumber(part)) {
      const shown = String(part);
      left -= shown.length;
      return shown;
    }
    const texts: string[] = [];
    if (Array.isArray(part)) {
      for (const element of part) {
        if (left <= 0) break;
        texts.push(write(element));
      }
      return `[${texts.join(",")}]`;
    }
    for (const [name, member] of Object.entries(part)) {
      if (left <= 0) break;
      left -= name.length + 3;
      texts.push(`${JSON.stringify(name)}:${write(member)}`);
    }
    return `{${texts.join(",")}}`;
  };
  return write(value);
}

/** The order of types in a sorted column, which is the service's: null, boolean, number, string, and
 * at the end arrays and objects; missing values come first. */
function typeRank(value: unknown): number {
  if (value === undefined) return 0;
  if (value === null) return 1;
  if (typeof value === "boolean") return 2;
  if (isNumber(value)) return 3;
  if (typeof value === "string") return 4;
  return Array.isArray(value) ? 5 : 6;
}

/** Compares two values of a column. Strings are compared by code units. */
export function compareCells(a: unknown, b: unknown): number {
  const byType = typeRank(a) - typeRank(b);
  if (byType !== 0) return byType;
  if (isNumber(a) && isNumber(b)) return compareNumbers(a, b);
  if (typeof a === "boolean" && typeof b === "boolean") return Number(a) - Number(b);
  if (typeof a === "string" && typeof b === "string") {
    if (a === b) return 0;
    return a < b ? -1 : 1;
  }
  return 0;
}

/** Returns the indexes of the rows in the order of a column; equal rows keep their order. */
export function sortedIndexes(
  rows: readonly unknown[],
  column: Column,
  descending: boolean,
): number[] {
  const indexes = rows.map((_, index) => index);
  const sign = descending ? -1 : 1;
  indexes.sort((a, b) => {
    const order = compareCells(cellValue(rows[a], column), cellValue(rows[b], column));
    return order === 0 ? a - b : order * sign;
  });
  return indexes;
}
