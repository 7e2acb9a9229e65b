/** The difference between two versions of an item, member by member.
 *
 * Promises: system members (`_etag`, `_ts`, `_lsn` …) are left out; elements of arrays are compared
 * by position; the differences stand in the order of the new version, removed members last.
 * Leaves out: a text for people; the page writes it. */

import { isNumber, jsonText } from "../../api/exact-json.ts";

export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

export interface Difference {
  kind: "added" | "removed" | "changed";
  /** Path of the member, such as `/tags/0`. */
  path: string;
  before?: JsonValue;
  after?: JsonValue;
}

const SYSTEM = new Set(["_etag", "_ts", "_lsn", "_rid", "_self", "_attachments"]);
const DEPTH_MAX = 64;

/** Returns what changed from `before` to `after`; `max` bounds the list. */
export function differences(before: JsonValue, after: JsonValue, max = 200): Difference[] {
  const found: Difference[] = [];
  compare(before, after, "", 0);
  return found;

  function add(difference: Difference): void {
    if (found.length < max) found.push(difference);
  }

  function compare(old: JsonValue, now: JsonValue, path: string, depth: number): void {
    if (old === now || found.length >= max) return;
    if (isObject(old) && isObject(now) && depth < DEPTH_MAX) {
      const oldNames = Object.keys(old).filter((name) => isShown(name, depth));
      const newNames = Object.keys(now).filter((name) => isShown(name, depth));
      for (const name of newNames) member(old, now, name, path, depth);
      for (const name of oldNames) if (!Object.hasOwn(now, name)) member(old, now, name, path, depth);
    } else if (Array.isArray(old) && Array.isArray(now) && depth < DEPTH_MAX) {
      const oldRows: readonly JsonValue[] = old;
      const newRows: readonly JsonValue[] = now;
      const length = Math.max(oldRows.length, newRows.length);
      for (let at = 0; at < length; at += 1) element(oldRows, newRows, at, path, depth);
    } else if (jsonText(old) !== jsonText(now)) {
      add({ kind: "changed", path: path === "" ? "/" : path, before: old, after: now });
    }
  }

  function member(
    old: { readonly [name: string]: JsonValue },
    now: { readonly [name: string]: JsonValue },
    name: string,
    path: string,
    depth: number,
  ): void {
    const place = `${path}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    const before = Object.hasOwn(old, name) ? old[name] : undefined;
    const after = Object.hasOwn(now, name) ? now[name] : undefined;
    pair(before, after, place, depth);
  }

  function element(
    old: readonly JsonValue[],
    now: readonly JsonValue[],
    at: number,
    path: string,
    depth: number,
  ): void {
    pair(old[at], now[at], `${path}/${at}`, depth);
  }

  function pair(
    before: JsonValue | undefined,
    after: JsonValue | undefined,
    place: string,
    depth: number,
  ): void {
    if (before === undefined && after !== undefined) add({ kind: "added", path: place, after });
    else if (after === undefined && before !== undefined) {
      add({ kind: "removed", path: place, before });
    } else if (before !== undefined && after !== undefined) {
      compare(before, after, place, depth + 1);
    }
  }
}

/** Returns the item without the members that the server adds. */
export function withoutSystem(item: { readonly [name: string]: JsonValue }): {
  [name: string]: JsonValue;
} {
  const kept: { [name: string]: JsonValue } = {};
  for (const [name, value] of Object.entries(item)) {
    if (!SYSTEM.has(name)) {
      Object.defineProperty(kept, name, { value, enumerable: true, configurable: true, writable: true });
    }
  }
  return kept;
}

function isShown(name: string, depth: number): boolean {
  return depth > 0 || !SYSTEM.has(name);
}

function isObject(value: JsonValue): value is { readonly [name: string]: JsonValue } {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !isNumber(value);
}
