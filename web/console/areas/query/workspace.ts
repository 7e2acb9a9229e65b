/** Keeps the query tabs of a container in the browser, so that nothing typed is lost.
 *
 * Promises: what is stored has bounded size and is checked when it is read; a browser without storage
 * keeps the tabs until the page closes; an address with a query opens that query. */

import { isNumber, parseJson } from "../../api/exact-json.ts";
import type { KeyValue } from "./copy/request.ts";

export interface ParameterText {
  readonly name: string;
  /** The value as JSON text. */
  readonly text: string;
}

export interface QueryTab {
  readonly id: string;
  readonly name: string;
  readonly text: string;
  readonly parameters: readonly ParameterText[];
  /** The values of the partition key as JSON text, one for each level; null for all partitions. */
  readonly key: readonly string[] | null;
}

export interface Workspace {
  readonly tabs: readonly QueryTab[];
  readonly current: string;
}

/** The longest query that an address holds; longer ones stay in the browser's storage only. */
export const ADDRESS_QUERY_MAX = 4_000;
const TABS_MAX = 20;
const TEXT_MAX = 200_000;
export const FIRST_QUERY = "SELECT *\nFROM c";

let numbers = 0;

/** Returns a new tab with a name that no tab of the workspace has. */
export function newTab(tabs: readonly QueryTab[], text: string): QueryTab {
  let number = 1;
  while (tabs.some((tab) => tab.name === `Query ${number}`)) number += 1;
  numbers += 1;
  const id = `${Date.now().toString(36)}-${numbers}`;
  return { id, name: `Query ${number}`, text, parameters: [], key: null };
}

/** Returns the workspace that the browser keeps, or one with a first query. */
export function readWorkspace(database: string, container: string): Workspace {
  let tabs: QueryTab[] = [];
  let current = "";
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(keyOf(database, container)) ?? "null");
    if (typeof kept === "object" && kept !== null && "tabs" in kept && Array.isArray(kept.tabs)) {
      tabs = kept.tabs.filter(isTab).slice(0, TABS_MAX);
      if ("current" in kept && typeof kept.current === "string") current = kept.current;
    }
  } catch {
    // Unreadable storage is like an empty one.
  }
  const first = tabs[0];
  if (!first) {
    const tab = newTab([], FIRST_QUERY);
    return { tabs: [tab], current: tab.id };
  }
  return { tabs, current: tabs.some((tab) => tab.id === current) ? current : first.id };
}

/** Stores the workspace; returns false if the browser refuses. */
export function keepWorkspace(database: string, container: string, workspace: Workspace): boolean {
  const tabs = workspace.tabs.map((tab) => ({ ...tab, text: tab.text.slice(0, TEXT_MAX) }));
  try {
    localStorage.setItem(keyOf(database, container), JSON.stringify({ ...workspace, tabs }));
    return true;
  } catch {
    return false;
  }
}

function keyOf(database: string, container: string): string {
  return `orrery.query.${JSON.stringify([database, container])}`;
}

function isTab(value: unknown): value is QueryTab {
  if (typeof value !== "object" || value === null) return false;
  const tab = value as Partial<Record<keyof QueryTab, unknown>>;
  const isText = (member: unknown): boolean => typeof member === "string";
  const isParameter = (entry: unknown): boolean => {
    const parameter = entry as Partial<ParameterText> | null;
    return isText(parameter?.name) && isText(parameter?.text);
  };
  return (
    isText(tab.id) &&
    isText(tab.name) &&
    isText(tab.text) &&
    Array.isArray(tab.parameters) &&
    tab.parameters.every(isParameter) &&
    (tab.key === null || (Array.isArray(tab.key) && tab.key.every(isText)))
  );
}

/** Returns the workspace with the query of an address in a tab of its own, or as it is if the query
 * is there already. */
export function withAddress(
  workspace: Workspace,
  text: string,
  parameters: readonly ParameterText[],
  key: readonly string[] | null,
): Workspace {
  const sameKey = (tab: QueryTab): boolean => JSON.stringify(tab.key) === JSON.stringify(key);
  const known = workspace.tabs.find((tab) => tab.text === text && sameKey(tab));
  if (known) return { ...workspace, current: known.id };
  const untouched = workspace.tabs.find((tab) => tab.text === FIRST_QUERY && tab.parameters.length === 0);
  const tab = { ...(untouched ?? newTab(workspace.tabs, text)), text, parameters, key };
  const others = workspace.tabs.filter((other) => other.id !== tab.id);
  return { tabs: [...others, tab].slice(-TABS_MAX), current: tab.id };
}

/** Reads JSON text; `error` says what is wrong with it. */
export function parsedValue(text: string): { value: unknown; error: string | null } {
  try {
    return { value: parseJson(text), error: null };
  } catch {
    const error = 'This is no JSON. Write "text" in quotes, or 12, true, null, [1, 2].';
    return { value: undefined, error };
  }
}

/** Reads a value of a partition key. A text that is no JSON stands for itself. */
export function keyValueOf(text: string): KeyValue {
  const { value } = parsedValue(text);
  if (value === null || isNumber(value) || ["string", "boolean"].includes(typeof value)) return value as KeyValue;
  return text;
}
