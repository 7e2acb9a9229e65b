/** Reads the items of a JSON file piece by piece: an array, JSON lines, or objects in a row.
 *
 * Promises: a file of any size needs the memory of one piece and one item. An item arrives as its
 * text in the file, with its number and the line of the file on which the item starts. A broken
 * item of a file of JSON lines costs this line only; a broken array ends the reading.
 *
 * Leaves out: the check of an item's content, which belongs to the caller. */

import { isBlank } from "../../../ui/json-scan.ts";
import { membersOf, repeatedName } from "./json-text.ts";

/** One item of a file: either its text or the reason why the text is no item. */
export interface ReadItem {
  /** Number of the item in the file, from 1. */
  number: number;
  /** Line of the file on which the item starts, from 1. */
  line: number;
  text: string;
  /** Reason why the text is not a JSON object; absent for a good item. */
  problem?: string;
}

/** A reader that takes a file in pieces. */
export interface ItemReader {
  /** Takes the next piece and returns the items that end in it. */
  push(piece: string): ReadItem[];
  /** Returns the items that the end of the file completes. */
  end(): ReadItem[];
}

/** Longest item text that the reader collects, in characters. The server accepts 2 MB. */
const ITEM_CHARACTERS_MAX = 16 * 1024 * 1024;

const NOT_AN_OBJECT = "The value is not a JSON object. An item is an object in braces.";

/** Returns the reason why a text is not an item, or undefined. */
export function problemOf(text: string): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `The text is not valid JSON: ${(error as Error).message}`;
  }
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject) return NOT_AN_OBJECT;
  const repeated = repeatedName(membersOf(text));
  return repeated === undefined ? undefined : `The member ${repeated} occurs twice. Keep one of the two.`;
}

/** Reads one item on each line. Blank lines count for numbers of lines and are no items. */
export class JsonLinesReader implements ItemReader {
  private rest = "";
  private line = 1;
  private number = 0;

  push(piece: string): ReadItem[] {
    const items: ReadItem[] = [];
    let start = 0;
    for (;;) {
      const end = piece.indexOf("\n", start);
      if (end < 0) break;
      this.addLine(this.rest + piece.slice(start, end), items);
      this.rest = "";
      start = end + 1;
    }
    this.rest += piece.slice(start);
    return items;
  }

  end(): ReadItem[] {
    const items: ReadItem[] = [];
    this.addLine(this.rest, items);
    this.rest = "";
    return items;
  }

  private addLine(raw: string, items: ReadItem[]): void {
    const text = raw.trim();
    const line = this.line;
    this.line += 1;
    if (text === "") return;
    this.number += 1;
    items.push(readItem(this.number, line, text));
  }
}

function readItem(number: number, line: number, text: string): ReadItem {
  const problem = problemOf(text);
  return problem === undefined ? { number, line, text } : { number, line, text, problem };
}

/** Reads the elements of one array, or objects in a row without an array around. */
export class JsonArrayReader implements ItemReader {
  private pieces: string[] = [];
  private length = 0;
  private depth = 0;
  private isInString = false;
  private isEscaped = false;
  private isInArray = false;
  private hasEnded = false;
  private hasFailed = false;
  private line = 1;
  private startLine = 1;
  private number = 0;

  push(piece: string): ReadItem[] {
    const items: ReadItem[] = [];
    let start = this.length > 0 ? 0 : -1;
    for (let at = 0; at < piece.length && !this.hasFailed; at += 1) {
      const code = piece.charCodeAt(at);
      if (code === 10) this.line += 1;
      if (this.isInString) {
        this.stepInString(code);
        // A string that is no item ends here, as in ["a"].
        if (!this.isInString && this.depth === 0) {
          this.finish(piece.slice(start, at + 1), items);
          start = -1;
        }
        continue;
      }
      if (start < 0) {
        start = this.stepOutside(piece, at, code, items);
        continue;
      }
      const end = this.stepInside(code);
      if (end === "none") continue;
      const last = end === "after" ? at + 1 : at;
      this.finish(piece.slice(start, last), items);
      start = -1;
      if (end === "before") this.stepOutside(piece, at, code, items);
    }
    if (start >= 0 && !this.hasFailed) this.keep(piece.slice(start), items);
    return items;
  }

  end(): ReadItem[] {
    const items: ReadItem[] = [];
    if (this.hasFailed) return items;
    if (this.length > 0) this.finish("", items);
    if (this.isInArray && !this.hasEnded) {
      this.fail("The array has no end. The file may be cut off.", items);
    }
    return items;
  }

  private stepInString(code: number): void {
    if (this.isEscaped) this.isEscaped = false;
    else if (code === 92) this.isEscaped = true;
    else if (code === 34) this.isInString = false;
  }

  /** Handles a character between items. Returns the start of a new item, or -1. */
  private stepOutside(piece: string, at: number, code: number, items: ReadItem[]): number {
    const sign = piece[at] as string;
    if (isBlank(code) || sign === "," || code === 0xfeff) return -1;
    if (this.hasEnded) {
      this.fail("The file has text after the end of the array. Remove the text.", items);
      return -1;
    }
    if (sign === "[" && !this.isInArray && this.number === 0) {
      this.isInArray = true;
      return -1;
    }
    if (sign === "]" && this.isInArray) {
      this.hasEnded = true;
      return -1;
    }
    this.startLine = this.line;
    if (sign === "{" || sign === "[") this.depth = 1;
    if (code === 34) this.isInString = true;
    return at;
  }

  /** Handles a character of an item, outside of strings. Returns where the item ends, if so. */
  private stepInside(code: number): "none" | "before" | "after" {
    if (code === 34) {
      this.isInString = true;
      return "none";
    }
    if (this.depth === 0) {
      // A number or literal ends before a comma, a bracket or a blank.
      const ends = isBlank(code) || code === 44 || code === 93;
      return ends ? "before" : "none";
    }
    if (code === 123 || code === 91) this.depth += 1;
    if (code === 125 || code === 93) this.depth -= 1;
    return this.depth === 0 ? "after" : "none";
  }

  private keep(part: string, items: ReadItem[]): void {
    this.pieces.push(part);
    this.length += part.length;
    if (this.length > ITEM_CHARACTERS_MAX) {
      const megabytes = ITEM_CHARACTERS_MAX / 1024 / 1024;
      this.fail(`A value has more than ${megabytes} MB. Check the brackets of the file.`, items);
    }
  }

  private finish(part: string, items: ReadItem[]): void {
    const text = this.pieces.join("") + part;
    this.pieces = [];
    this.length = 0;
    this.depth = 0;
    this.number += 1;
    items.push(readItem(this.number, this.startLine, text));
  }

  private fail(problem: string, items: ReadItem[]): void {
    this.hasFailed = true;
    this.number += 1;
    const text = this.pieces.join("").slice(0, 200);
    items.push({ number: this.number, line: this.startLine, text, problem });
  }
}

/** Returns the reader that fits the first characters of a file.
 *
 * The extensions of JSON lines decide. A file that begins with a bracket is an array. A file whose first line is a whole JSON value is
 * a file of JSON lines. Any other file is read as objects in a row. */
export function readerFor(beginning: string, name = ""): ItemReader {
  if (/\.(jsonl|ndjson)$/i.test(name)) return new JsonLinesReader();
  const text = beginning.replace(/^\ufeff/, "").trimStart();
  if (text.startsWith("[")) return new JsonArrayReader();
  const lineEnd = text.indexOf("\n");
  const firstLine = lineEnd < 0 ? text : text.slice(0, lineEnd);
  const isWhole = problemOf(firstLine) === undefined;
  return isWhole ? new JsonLinesReader() : new JsonArrayReader();
}
