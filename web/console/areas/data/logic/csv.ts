/** CSV by RFC 4180, and items as rows of CSV.
 *
 * Promises: an item that is written and read again is the same item. Cells hold strings as they
 * are; numbers, literals, arrays and objects as JSON. A string that would be read as something
 * else is written as a JSON string in quotes. Members without a column of their own are written
 * as one JSON object in the column `(other)`. An absent member is an empty cell.
 *
 * Leaves out: separators other than comma, semicolon and tab, and encodings other than UTF-8. */

import type { ReadItem } from "./json-stream.ts";
import { membersOf, objectText } from "./json-text.ts";
import type { Member } from "./json-text.ts";

/** The column of the members that have no column of their own. */
export const OTHER_COLUMN = "(other)";

/** Returns a cell, in quotes if the text needs them. */
export function csvCell(text: string): string {
  if (!/[",;\t\r\n]/.test(text)) return text;
  return `"${text.replaceAll('"', '""')}"`;
}

/** Returns a line of cells with its line break. */
export function csvLine(cells: string[]): string {
  return `${cells.map(csvCell).join(",")}\r\n`;
}

/** Returns true if the text is a JSON value, which a reader of cells takes as this value. */
function isJsonValue(text: string): boolean {
  if (!/^\s*(?:["{[\-\d]|true|false|null)/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Characters at the start of a cell that spreadsheets take for the start of a formula. */
const FORMULA_START = /^[=+\-@\t\r]/;

/** Returns the cell of a JSON value. */
export function cellOfValue(json: string): string {
  if (!json.startsWith('"')) return json;
  const text = JSON.parse(json) as string;
  const isPlain = text !== "" && !isJsonValue(text) && !FORMULA_START.test(text);
  return isPlain ? text : json;
}

/** Returns the JSON value of a cell, or undefined for an empty cell, which is an absent member. */
export function valueOfCell(cell: string, column: string): string | undefined {
  if (cell === "") return undefined;
  if (!isJsonValue(cell)) return JSON.stringify(cell);
  // An id is always a string, so that files of other programs with ids like 17 can be read.
  const isText = column === "id" && !cell.trimStart().startsWith('"');
  return isText ? JSON.stringify(cell) : cell.trim();
}

/** Returns the columns for these items: `id` and the first levels of the partition key at the
 * front, then the members in the order of their first appearance. */
export function columnsOf(items: Member[][], firstColumns: string[]): string[] {
  const columns = new Set<string>(["id", ...firstColumns]);
  for (const members of items) {
    for (const { name } of members) columns.add(name);
  }
  columns.delete(OTHER_COLUMN);
  return [...columns, OTHER_COLUMN];
}

/** Returns the line of an item. `columns` ends with the column of other members. */
export function itemLine(members: Member[], columns: string[]): string {
  const byName = new Map<string, string>();
  const others: Member[] = [];
  const known = new Set(columns.slice(0, -1));
  for (const member of members) {
    if (known.has(member.name)) byName.set(member.name, member.text);
    else others.push(member);
  }
  const cells: string[] = [];
  for (const column of columns.slice(0, -1)) {
    const value = byName.get(column);
    cells.push(value === undefined ? "" : cellOfValue(value));
  }
  cells.push(others.length === 0 ? "" : objectText(others));
  return csvLine(cells);
}

/** A record of a CSV file and the line on which the record starts. */
export interface CsvRecord {
  line: number;
  cells: string[];
  problem?: string;
}

/** Reads CSV in pieces. A quoted cell may contain line breaks. */
export class CsvReader {
  private cells: string[] = [];
  private cell = "";
  private state: "start" | "plain" | "quoted" | "afterQuote" = "start";
  private line = 1;
  private startLine = 1;
  private isAfterReturn = false;
  private problem: string | undefined;
  private readonly separator: string;

  constructor(separator = ",") {
    this.separator = separator;
  }

  push(piece: string): CsvRecord[] {
    const records: CsvRecord[] = [];
    for (let at = 0; at < piece.length; at += 1) {
      if (this.state === "quoted") {
        at = this.takeQuoted(piece, at);
        continue;
      }
      this.take(piece[at] as string, records);
    }
    return records;
  }

  end(): CsvRecord[] {
    const records: CsvRecord[] = [];
    if (this.state === "quoted") {
      this.problem = "The quotes of a cell are not closed. Add a quote at the end of the cell.";
    }
    const isEmpty = this.cells.length === 0 && this.cell === "" && this.state === "start";
    if (!isEmpty) this.endRecord(records);
    return records;
  }

  /** Takes characters of a quoted cell up to the next quote. Returns the last position taken. */
  private takeQuoted(piece: string, at: number): number {
    const quote = piece.indexOf('"', at);
    const end = quote < 0 ? piece.length : quote;
    const part = piece.slice(at, end);
    this.line += countLines(part);
    this.cell += part;
    if (quote >= 0) this.state = "afterQuote";
    return end;
  }

  private take(sign: string, records: CsvRecord[]): void {
    // The line feed after a carriage return belongs to the same line break.
    if (sign === "\n" && this.isAfterReturn) {
      this.isAfterReturn = false;
      return;
    }
    this.isAfterReturn = sign === "\r";
    if (sign === "\ufeff" && this.line === 1 && this.cells.length === 0 && this.cell === "") return;
    if (sign === this.separator) {
      this.endCell();
    } else if (sign === "\n" || sign === "\r") {
      this.line += 1;
      this.endRecord(records);
    } else if (sign === '"' && this.state === "start") {
      this.state = "quoted";
    } else if (sign === '"' && this.state === "afterQuote") {
      this.cell += '"';
      this.state = "quoted";
    } else {
      if (this.state === "afterQuote") {
        this.problem = "Text follows the closing quote of a cell. Double the quotes in the cell.";
      }
      this.cell += sign;
      if (this.state === "start") this.state = "plain";
    }
  }

  private endCell(): void {
    this.cells.push(this.cell);
    this.cell = "";
    this.state = "start";
  }

  private endRecord(records: CsvRecord[]): void {
    const isBlankLine = this.cells.length === 0 && this.cell === "" && this.state === "start";
    if (!isBlankLine) {
      this.endCell();
      const record: CsvRecord = { line: this.startLine, cells: this.cells };
      if (this.problem !== undefined) record.problem = this.problem;
      records.push(record);
    }
    this.cells = [];
    this.problem = undefined;
    this.startLine = this.line;
  }
}

function countLines(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** Returns the separator of a file: the sign that its first line has most often. */
export function separatorOf(beginning: string): string {
  const firstLine = beginning.split(/\r?\n/, 1)[0] ?? "";
  let best = ",";
  let most = 0;
  for (const sign of [",", ";", "\t"]) {
    const count = firstLine.split(sign).length - 1;
    if (count > most) {
      most = count;
      best = sign;
    }
  }
  return best;
}

/** Reads the items of a CSV file, whose first record names the members. */
export class CsvItemReader {
  private readonly records: CsvReader;
  private columns: string[] | undefined;
  private number = 0;

  constructor(separator = ",") {
    this.records = new CsvReader(separator);
  }

  push(piece: string): ReadItem[] {
    return this.items(this.records.push(piece));
  }

  end(): ReadItem[] {
    return this.items(this.records.end());
  }

  private items(records: CsvRecord[]): ReadItem[] {
    const items: ReadItem[] = [];
    for (const record of records) {
      if (this.columns === undefined) {
        this.columns = record.cells;
        continue;
      }
      this.number += 1;
      items.push(csvItem(record, this.columns, this.number));
    }
    return items;
  }
}

function csvItem(record: CsvRecord, columns: string[], number: number): ReadItem {
  const { line, cells } = record;
  const text = cells.map(csvCell).join(",");
  if (record.problem !== undefined) return { number, line, text, problem: record.problem };
  if (cells.length > columns.length) {
    const problem = `The line has ${cells.length} cells for ${columns.length} columns.`;
    return { number, line, text, problem };
  }
  const members: Member[] = [];
  for (const [at, cell] of cells.entries()) {
    const column = columns[at] as string;
    const value = valueOfCell(cell, column);
    if (value === undefined) continue;
    if (column !== OTHER_COLUMN) {
      members.push({ name: column, text: value });
      continue;
    }
    try {
      members.push(...membersOf(value));
    } catch {
      const problem = `The column ${OTHER_COLUMN} does not hold a JSON object.`;
      return { number, line, text, problem };
    }
  }
  return { number, line, text: objectText(members) };
}
