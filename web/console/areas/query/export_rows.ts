/** Writes rows as JSON or CSV, for copies and downloads.
 *
 * Promises: JSON is the rows as they arrived; CSV quotes by RFC 4180, writes nested values as JSON,
 * and prefixes texts that a spreadsheet would run as a formula. */

import { isNumber, jsonText } from "../../api/exact-json.ts";
import { cellValue, type Column } from "./table.ts";

/** Characters at the start of a text that make a spreadsheet read a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/** Returns the rows as an indented JSON array. */
export function toJson(rows: readonly unknown[]): string {
  return `${jsonText(rows, 2)}\n`;
}

/** Returns the rows as CSV with a header line. */
export function toCsv(rows: readonly unknown[], columns: readonly Column[]): string {
  const lines = [columns.map((column) => field(column.title)).join(",")];
  for (const row of rows) {
    lines.push(columns.map((column) => csvCell(cellValue(row, column))).join(","));
  }
  return `${lines.join("\r\n")}\r\n`;
}

function csvCell(value: unknown): string {
  if (value === undefined) return "";
  if (typeof value === "string") return field(FORMULA.test(value) ? `'${value}` : value);
  if (typeof value === "object" && value !== null && !isNumber(value)) return field(jsonText(value));
  return String(value);
}

function field(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
