/** Partition keys: paths of a definition, the value of an item, and the value that a user types.
 *
 * Promises: the value is the one that the server extracts from the same item. Missing values,
 * arrays and objects are undefined. Numbers are doubles, as in the server's hash.
 *
 * Leaves out: the hash of the value, which only the server computes, and the header of requests
 * (api/data.ts). */

import { membersOf } from "./json-text.ts";
import type { Member } from "./json-text.ts";

/** The `partitionKey` member of a container. */
export interface KeyDefinition {
  readonly paths: readonly string[];
}

/** A level of a partition key. Undefined is the level of an item without the property. */
export type KeyComponent = null | boolean | number | string | undefined;

/** Returns the names of a path such as `/a/"b c"`, or null for a malformed path. */
export function pathNames(path: string): string[] | null {
  const names: string[] = [];
  let rest = path;
  while (rest !== "") {
    if (!rest.startsWith("/")) return null;
    rest = rest.slice(1);
    const quote = rest[0];
    let name: string;
    if (quote === '"' || quote === "'") {
      const end = closingQuote(rest, quote);
      if (end < 0) return null;
      name = rest.slice(1, end);
      rest = rest.slice(end + 1);
    } else {
      const slash = rest.indexOf("/");
      name = slash < 0 ? rest : rest.slice(0, slash);
      if (["[]", "*", "?"].includes(name)) return null;
      rest = slash < 0 ? "" : rest.slice(slash);
    }
    if (name === "") return null;
    names.push(name);
  }
  return names.length === 0 ? null : names;
}

/** Returns the position of the closing quote. A quote after a backslash belongs to the name. */
function closingQuote(text: string, quote: string): number {
  let end = text.indexOf(quote, 1);
  while (end > 0 && text[end - 1] === "\\") end = text.indexOf(quote, end + 1);
  return end;
}

/** Returns the JSON text at a path of names, or undefined. */
export function textAt(members: Member[], names: string[]): string | undefined {
  let level = members;
  for (const [depth, name] of names.entries()) {
    // The last of equal names wins, as in the server.
    let text: string | undefined;
    for (const member of level) if (member.name === name) text = member.text;
    if (text === undefined) return undefined;
    if (depth === names.length - 1) return text;
    if (!text.startsWith("{")) return undefined;
    level = membersOf(text);
  }
  return undefined;
}

function componentOf(text: string | undefined): KeyComponent {
  if (text === undefined || text.startsWith("{") || text.startsWith("[")) return undefined;
  return JSON.parse(text) as KeyComponent;
}

/** Returns the components of an item's partition key, one for each path. */
export function keyOf(members: Member[], definition: KeyDefinition): KeyComponent[] {
  const components: KeyComponent[] = [];
  for (const path of definition.paths) {
    const names = pathNames(path);
    components.push(names === null ? undefined : componentOf(textAt(members, names)));
  }
  return components;
}

/** Returns the components of the text that a user types, or the problem.
 *
 * Accepted are a JSON array of scalars, one JSON scalar, and a bare text, which is a string. */
export function typedKey(text: string, levels: number): KeyComponent[] | { problem: string } {
  const trimmed = text.trim();
  if (trimmed === "" && levels > 0) {
    return { problem: "The partition key value is missing. Write a value, for example \"a\"." };
  }
  if (!trimmed.startsWith("[")) {
    if (levels > 1) return { problem: `The partition key has ${levels} levels. Write an array.` };
    return [typedScalar(trimmed)];
  }
  let values: unknown[];
  try {
    values = JSON.parse(trimmed) as unknown[];
  } catch {
    return { problem: "The partition key value is not a JSON array. Check quotes and commas." };
  }
  if (values.length !== levels) {
    return { problem: `The partition key has ${levels} levels, the value has ${values.length}.` };
  }
  const components: KeyComponent[] = [];
  for (const value of values) {
    const isStructure = typeof value === "object" && value !== null;
    const isUndefined = isStructure && !Array.isArray(value) && Object.keys(value).length === 0;
    if (isStructure && !isUndefined) {
      return { problem: "A level of a partition key is a string, number, boolean or null." };
    }
    components.push(isUndefined ? undefined : (value as KeyComponent));
  }
  return components;
}

function typedScalar(text: string): KeyComponent {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return value as KeyComponent;
  } catch {
    // A text that is not JSON is a string.
  }
  return text;
}

/** Returns a component for people: strings without quotes, undefined by its name. */
export function shownComponent(component: KeyComponent): string {
  return typeof component === "string" ? component : String(component);
}
