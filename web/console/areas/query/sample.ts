/** Learns the properties of a container from a sample of its items: paths, types, frequency.
 *
 * Promises: bounded work and memory for any items; a path names members, and `[]` the elements of an
 * array. */

export interface Property {
  /** The names from the item to the property; `[]` stands for the elements of an array. */
  path: readonly string[];
  /** The JSON types that were seen, most frequent first. */
  types: readonly string[];
  /** Share of the sampled items that have the property, 0 to 1. */
  frequency: number;
  /** A short text, number or boolean that an item has there; undefined if there was none. */
  example?: string | number | boolean;
}

const PROPERTIES_MAX = 2_000;
const DEPTH_MAX = 8;
const ELEMENTS_MAX = 10;
const EXAMPLE_CHARACTERS_MAX = 200;

interface Seen {
  path: readonly string[];
  types: Map<string, number>;
  items: number;
  lastItem: number;
  example: string | number | boolean | undefined;
}

/** Returns the properties of a sample, sorted by path. */
export function propertiesOf(items: readonly unknown[]): Property[] {
  const seen = new Map<string, Seen>();
  for (const [number, item] of items.entries()) {
    visit(item, [], number, seen);
  }
  const properties: Property[] = [];
  for (const found of seen.values()) {
    const types = [...found.types].sort((a, b) => b[1] - a[1]).map(([name]) => name);
    const property: Property = { path: found.path, types, frequency: found.items / items.length };
    if (found.example !== undefined) property.example = found.example;
    properties.push(property);
  }
  return properties.sort((a, b) => compareText(a.path.join("/"), b.path.join("/")));
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Returns the JSON type of a value. */
export function typeName(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}

function visit(
  value: unknown,
  path: readonly string[],
  item: number,
  seen: Map<string, Seen>,
): void {
  if (path.length > 0) note(value, path, item, seen);
  if (path.length >= DEPTH_MAX || typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    for (const element of value.slice(0, ELEMENTS_MAX)) {
      visit(element, [...path, "[]"], item, seen);
    }
    return;
  }
  for (const [name, member] of Object.entries(value)) {
    if (path.length === 0 && isSystemProperty(name)) continue;
    visit(member, [...path, name], item, seen);
  }
}

function note(
  value: unknown,
  path: readonly string[],
  item: number,
  seen: Map<string, Seen>,
): void {
  const key = JSON.stringify(path);
  let found = seen.get(key);
  if (!found) {
    if (seen.size >= PROPERTIES_MAX) return;
    found = { path, types: new Map(), items: 0, lastItem: -1, example: undefined };
    seen.set(key, found);
  }
  const isShort = typeof value === "string" && value.length <= EXAMPLE_CHARACTERS_MAX;
  if (isShort || typeof value === "number" || typeof value === "boolean") found.example ??= value;
  const type = typeName(value);
  found.types.set(type, (found.types.get(type) ?? 0) + 1);
  if (found.lastItem !== item) {
    found.items += 1;
    found.lastItem = item;
  }
}

/** Returns true for the properties that the server adds and few queries name. `_ts` is one that
 * queries do name. */
function isSystemProperty(name: string): boolean {
  return ["_rid", "_self", "_etag", "_attachments"].includes(name);
}
