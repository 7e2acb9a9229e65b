/** JSON as text: members of an object, indentation, and values of a stream.
 *
 * Promises: the text of every number, string and literal stays as the server sent it, so that
 * whole numbers beyond 2^53 survive a round trip through the editor. Every function checks its
 * text before use and throws `SyntaxError` with a position.
 *
 * Leaves out: comments and other extensions of JSON. */

import { endOfString, isBlank, skipBlanks } from "../../../ui/json-scan.ts";

/** A member of an object, with its value as text. */
export interface Member {
  name: string;
  text: string;
}

const QUOTE = 34;

/** Returns the position after the valid JSON value that starts at `start`. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  let at = start;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at);
      if (depth === 0) return at;
      continue;
    }
    const sign = text[at];
    if (sign === "{" || sign === "[") depth += 1;
    if (sign === "}" || sign === "]") {
      // A bracket of the surrounding value ends a number or literal.
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    }
    if (depth === 0 && (sign === "," || isBlank(code))) return at;
    at += 1;
  }
  return at;
}

/** A member of an object or an element of an array: its name, empty for an element, and its value's place. */
interface Part {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/** Returns the parts of the valid object or array that starts at `start`; none for another value. */
function partsOf(text: string, start: number): Part[] {
  const parts: Part[] = [];
  const isObject = text[start] === "{";
  if (!isObject && text[start] !== "[") return parts;
  const closing = isObject ? "}" : "]";
  let at = skipBlanks(text, start + 1);
  while (at < text.length && text[at] !== closing) {
    let name = "";
    if (isObject) {
      const nameEnd = endOfString(text, at);
      name = JSON.parse(text.slice(at, nameEnd)) as string;
      at = skipBlanks(text, skipBlanks(text, nameEnd) + 1);
    }
    const to = endOfValue(text, at);
    parts.push({ name, from: at, to });
    at = skipBlanks(text, to);
    if (text[at] === ",") at = skipBlanks(text, at + 1);
  }
  return parts;
}

/** Returns the members of an object in the order of the text.
 *
 * Throws `SyntaxError` for a text that is not one JSON object. */
export function membersOf(text: string): Member[] {
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new SyntaxError("The text is not a JSON object. Write one object in braces.");
  }
  return partsOf(text, skipBlanks(text, 0)).map(({ name, from, to }) => ({ name, text: text.slice(from, to) }));
}

/** Returns the first name that two members of an object have, or undefined. */
export function repeatedName(members: readonly Member[]): string | undefined {
  const names = new Set<string>();
  for (const { name } of members) {
    if (names.has(name)) return name;
    names.add(name);
  }
  return undefined;
}

/** Returns the place of a value in a valid JSON text by the names and indexes that lead to it.
 *
 * Where a step leads nowhere, the place is that of the value before. */
export function rangeOf(text: string, steps: readonly string[]): { from: number; to: number } {
  const start = skipBlanks(text, 0);
  let found = { from: start, to: endOfValue(text, start) };
  for (const step of steps) {
    const parts = partsOf(text, found.from);
    // Of members with one name, `JSON.parse` takes the last.
    const next = text[found.from] === "[" ? parts[Number(step)] : parts.reverse().find(({ name }) => name === step);
    if (next === undefined) break;
    found = next;
  }
  return { from: found.from, to: found.to };
}

/** Returns an object with these members on one line. */
export function objectText(members: Member[]): string {
  const parts: string[] = [];
  for (const { name, text } of members) parts.push(`${JSON.stringify(name)}:${text}`);
  return `{${parts.join(",")}}`;
}

/** Returns the same JSON with two blanks for each level, and one member or element on a line. */
export function indented(text: string): string {
  JSON.parse(text);
  const pieces: string[] = [];
  let level = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (isBlank(code)) {
      at += 1;
      continue;
    }
    if (code === QUOTE) {
      const end = endOfString(text, at);
      pieces.push(text.slice(at, end));
      at = end;
      continue;
    }
    const sign = text[at] as string;
    if (sign === "{" || sign === "[") {
      const next = skipBlanks(text, at + 1);
      if (text[next] === "}" || text[next] === "]") {
        pieces.push(sign, text[next] as string);
        at = next + 1;
        continue;
      }
      level += 1;
      pieces.push(sign, lineBreak(level));
    } else if (sign === "}" || sign === "]") {
      level -= 1;
      pieces.push(lineBreak(level), sign);
    } else if (sign === ",") {
      pieces.push(sign, lineBreak(level));
    } else if (sign === ":") {
      pieces.push(": ");
    } else {
      const end = endOfValue(text, at);
      pieces.push(text.slice(at, end));
      at = end;
      continue;
    }
    at += 1;
  }
  return pieces.join("");
}

function lineBreak(level: number): string {
  return `\n${"  ".repeat(level)}`;
}

/** The properties that the server sets in every item. */
export const SYSTEM_PROPERTIES = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/** The two halves of an item: the user's members, and those that the server sets. */
export interface ItemParts {
  own: Member[];
  system: Member[];
}

/** Splits an item into the user's members and the system properties. */
export function itemParts(text: string): ItemParts {
  const parts: ItemParts = { own: [], system: [] };
  for (const member of membersOf(text)) {
    const list = SYSTEM_PROPERTIES.includes(member.name) ? parts.system : parts.own;
    list.push(member);
  }
  return parts;
}

/** Returns an item for the editor: indented, without system properties. */
export function editableText(text: string): string {
  return indented(objectText(itemParts(text).own));
}

/** Returns the text values of a JSON document `{…, "<name>": [ … ], …}`, one for each element.
 *
 * The feeds of the protocol have this form. Throws `SyntaxError` if no array has the name. */
export function feedTexts(text: string, name: string): string[] {
  for (const member of membersOf(text)) {
    if (member.name === name) return elementsOf(member.text);
  }
  throw new SyntaxError(`The answer has no list '${name}'.`);
}

/** Returns the elements of a valid JSON array as texts. */
export function elementsOf(text: string): string[] {
  return partsOf(text, skipBlanks(text, 0)).map(({ from, to }) => text.slice(from, to));
}
