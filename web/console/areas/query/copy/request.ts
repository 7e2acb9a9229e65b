/** Describes the query that a generated program runs, and the parts that all languages share.
 *
 * Promises: no program contains a key; each reads it from the environment variable `ORRERY_KEY`. */

import type { ExactNumber } from "../../../api/exact-json.ts";

/** A value of a partition key, one for each of its levels. */
export type KeyValue = string | number | boolean | null | ExactNumber;

export interface QueryParameter {
  name: string;
  value: unknown;
}

/** A query with everything that a program needs to run it. */
export interface QueryToCopy {
  endpoint: string;
  database: string;
  container: string;
  query: string;
  parameters: readonly QueryParameter[];
  /** The partition key to ask; null for all partitions. */
  partitionKey: readonly KeyValue[] | null;
  /** The maximum number of items of a page; null lets the server choose. */
  pageSize: number | null;
}

/** Returns the lines of a text, each but the last with its end of line. */
export function linesOf(text: string): string[] {
  return text.split(/(?<=\n)/);
}

/** Returns a string literal with the escapes of JSON, for languages that read these escapes.
 * Characters outside of ASCII stay as they are; line and paragraph separators, which some languages
 * read as ends of lines, and lone surrogates are escaped. */
export function jsonString(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Returns true for values that every language writes as a literal. */
export function isPlain(value: unknown): value is string | number | boolean | null {
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}

/** Returns the lines joined with this many spaces before each but the first. */
export function indented(lines: readonly string[], spaces: number): string {
  return lines.join(`\n${" ".repeat(spaces)}`);
}

/** Returns the query as string literals, one for each line, joined by an operator. */
export function joinedLines(
  query: string,
  literal: (line: string) => string,
  operator: string,
  spaces: number,
): string {
  const literals = linesOf(query).map(literal);
  return literals.join(`${operator}\n${" ".repeat(spaces)}`);
}
