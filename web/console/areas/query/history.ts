/** Keeps the queries that ran and the queries that a person saved, for each container.
 *
 * Both lists are in the browser: the server has no place for a person's texts that the account's
 * clients would not see as a container of their own. Saved queries can be written to a file and read
 * from one, for other browsers and for colleagues.
 * Promises: bounded size; entries that cannot be read are left out. */

import type { ParameterText } from "./workspace.ts";

export interface HistoryEntry {
  readonly at: number;
  readonly text: string;
  readonly parameters: readonly ParameterText[];
  readonly key: readonly string[] | null;
  readonly ru: number;
  readonly ms: number;
  readonly rows: number;
  readonly failed: boolean;
}

export interface SavedQuery {
  readonly name: string;
  readonly text: string;
  readonly parameters: readonly ParameterText[];
  readonly key: readonly string[] | null;
}

const ENTRIES_MAX = 100;
const TEXT_MAX = 20_000;

function read<T>(key: string, accepts: (value: object) => boolean): T[] {
  try {
    const list: unknown = JSON.parse(localStorage.getItem(key) ?? "[]");
    if (!Array.isArray(list)) return [];
    return list.filter((entry) => typeof entry === "object" && entry !== null && accepts(entry)) as T[];
  } catch {
    return [];
  }
}

function write(key: string, list: readonly unknown[]): boolean {
  try {
    localStorage.setItem(key, JSON.stringify(list));
    return true;
  } catch {
    return false;
  }
}

function hasTexts(value: object): boolean {
  return (
    "text" in value &&
    typeof value.text === "string" &&
    "parameters" in value &&
    Array.isArray(value.parameters)
  );
}

function historyKey(database: string, container: string): string {
  return `orrery.query-history.${JSON.stringify([database, container])}`;
}

/** Returns the queries that ran, newest first. */
export function readHistory(database: string, container: string): HistoryEntry[] {
  const isEntry = (value: object): boolean =>
    hasTexts(value) && "ru" in value && typeof value.ru === "number";
  return read<HistoryEntry>(historyKey(database, container), isEntry);
}

/** Adds a query that ran; the same query moves to the front with its newest figures. */
export function addHistory(database: string, container: string, entry: HistoryEntry): void {
  const bounded = { ...entry, text: entry.text.slice(0, TEXT_MAX) };
  const others = readHistory(database, container).filter((known) => known.text !== bounded.text);
  write(historyKey(database, container), [bounded, ...others].slice(0, ENTRIES_MAX));
}

/** Forgets the queries that ran. */
export function clearHistory(database: string, container: string): void {
  write(historyKey(database, container), []);
}

function savedKey(database: string, container: string): string {
  return `orrery.query-saved.${JSON.stringify([database, container])}`;
}

function isSaved(value: object): boolean {
  return hasTexts(value) && "name" in value && typeof value.name === "string";
}

/** Returns the saved queries, sorted by name. */
export function readSaved(database: string, container: string): SavedQuery[] {
  const found = read<SavedQuery>(savedKey(database, container), isSaved);
  return found.sort((a, b) => a.name.localeCompare(b.name));
}

/** Saves queries; one with a known name replaces the other. Returns false if the browser refuses. */
export function save(database: string, container: string, queries: readonly SavedQuery[]): boolean {
  const names = new Set(queries.map((query) => query.name));
  const others = readSaved(database, container).filter((known) => !names.has(known.name));
  return write(savedKey(database, container), [...others, ...queries]);
}

/** Deletes a saved query. */
export function unsave(database: string, container: string, name: string): void {
  const others = readSaved(database, container).filter((known) => known.name !== name);
  write(savedKey(database, container), others);
}

/** Returns the saved queries of a file that `savedFile` wrote, or null if the file is another. */
export function savedOfFile(text: string): SavedQuery[] | null {
  try {
    const document: unknown = JSON.parse(text);
    if (typeof document !== "object" || document === null || !("queries" in document)) return null;
    if (!Array.isArray(document.queries)) return null;
    return document.queries.filter(
      (entry) => typeof entry === "object" && entry !== null && isSaved(entry),
    ) as SavedQuery[];
  } catch {
    return null;
  }
}

/** Returns the text of a file with saved queries. */
export function savedFile(queries: readonly SavedQuery[]): string {
  return `${JSON.stringify({ kind: "orrery-queries", queries }, null, 2)}\n`;
}
