/** The state of the tree, shared with the pages that create and delete resources.
 *
 * Promises: a list is loaded when its node opens, page by page; an answer for a list that was
 * loaded again meanwhile is dropped. Open nodes and favourites survive a reload of the page.
 * Leaves out: rows (`logic/tree-model.ts`) and their drawing (`tree.tsx`). */

import { asApiError } from "../../../api/client.ts";
import type { ScriptKind } from "../../../api/data.ts";
import { createKeptStore, createStore } from "../../../store.ts";
import { keyPath, nodeKey, type NodeList, type TreeState } from "../logic/tree-model.ts";
import { feeds, namePage } from "../requests.ts";

type KeptKeys = readonly string[];

function areKeys(value: unknown): value is KeptKeys {
  return Array.isArray(value) && value.every((key) => typeof key === "string");
}

/** Keys of pinned containers, newest last. */
export const favourites = createKeptStore<KeptKeys>("tree.favourites", [], areKeys);

const openKeys = createKeptStore<KeptKeys>("tree.open", [], areKeys);

const NOTHING: NodeList = { names: [], hasMore: false, isLoading: true };

/** Loaded lists, open nodes and the filter. */
export const tree = createStore<TreeState>({
  databases: NOTHING,
  lists: new Map(),
  open: new Set(openKeys.get()),
  filter: "",
  favourites: [...favourites.get()],
});

/** The key under which the list of databases is loaded. */
export const ROOT = "";

/** Positions after the loaded names, and the number of the newest request, by key. */
const positions = new Map<string, string | null>();
const rounds = new Map<string, number>();

/** Returns the feed of a node: of `blog`, `@users/blog` or `@sprocs/blog/posts`. */
function feedOf(key: string): string {
  if (key === ROOT) return feeds.databases;
  const [first = "", second = "", third = ""] = keyPath(key);
  if (!first.startsWith("@")) return feeds.containers(first);
  if (first === "@users") return feeds.users(second);
  return feeds.scripts(second, third, first.slice(1) as ScriptKind);
}

/** Returns true for a node that is opened without a list of its own: a container. */
function isPlain(key: string): boolean {
  return !key.startsWith("@") && key.includes("/");
}

/** Returns the database of a node. */
function databaseOf(key: string): string {
  const [first = "", second = ""] = keyPath(key);
  return first.startsWith("@") ? second : first;
}

function listOf(state: TreeState, key: string): NodeList | undefined {
  return key === ROOT ? state.databases : state.lists.get(key);
}

function setList(key: string, list: NodeList): void {
  tree.update((state) => {
    if (key === ROOT) return { ...state, databases: list };
    return { ...state, lists: new Map(state.lists).set(key, list) };
  });
}

/** Loads the next page of a list; from the first page if `isAgain`. */
export async function loadList(key: string, isAgain = false): Promise<void> {
  const round = (rounds.get(key) ?? 0) + 1;
  rounds.set(key, round);
  const before = listOf(tree.get(), key);
  const kept = before?.names ?? [];
  setList(key, { names: kept, hasMore: false, isLoading: true });
  try {
    const page = await namePage(feedOf(key), isAgain ? null : (positions.get(key) ?? null));
    if (rounds.get(key) !== round) return;
    positions.set(key, page.continuation);
    const names = isAgain ? [...page.names] : [...kept, ...page.names];
    setList(key, { names, hasMore: page.continuation !== null, isLoading: false });
  } catch (problem) {
    if (rounds.get(key) !== round) return;
    const error = asApiError(problem);
    if (error.status === 404) {
      setList(key, { names: [], hasMore: false, isLoading: false });
      return;
    }
    const words = error.message.split(/\r?\n/)[0] ?? "The list could not be read.";
    setList(key, { names: kept, hasMore: false, isLoading: false, error: words });
  }
}

/** Counts the resources that this page created and deleted; lists of pages load again. */
export const changes = createStore(0);

/** Says that a list changed; loads the list from its beginning if the tree shows the list. */
export function reloadList(key: string): void {
  changes.update((count) => count + 1);
  if (key === ROOT || tree.get().lists.has(key)) void loadList(key, true);
}

/** Loads the databases, and the lists of the nodes that were open before. */
export async function loadTree(): Promise<void> {
  await loadList(ROOT, true);
  const { databases, open } = tree.get();
  const known = new Set(databases.names);
  for (const key of open) {
    if (!isPlain(key) && known.has(databaseOf(key))) void loadList(key, true);
  }
}

/** Opens or closes a node; the list of an opened node is loaded. */
export function setOpen(key: string, isOpen: boolean): void {
  tree.update((state) => {
    const open = new Set(state.open);
    if (isOpen) open.add(key);
    else open.delete(key);
    return { ...state, open };
  });
  openKeys.set([...tree.get().open].slice(-200));
  const isLoaded = tree.get().lists.has(key);
  if (isOpen && !isPlain(key) && !isLoaded) void loadList(key);
}

/** Filters the tree; open databases are loaded to their end, so that the filter sees every name. */
export function setFilter(filter: string): void {
  tree.update((state) => ({ ...state, filter }));
  if (filter !== "") void loadRest();
}

let isLoadingRest = false;

async function loadRest(): Promise<void> {
  if (isLoadingRest) return;
  isLoadingRest = true;
  try {
    for (;;) {
      const state = tree.get();
      if (state.filter === "") return;
      const next = state.databases.hasMore ? ROOT : unfinished(state);
      if (next === undefined) return;
      await loadList(next);
    }
  } finally {
    isLoadingRest = false;
  }
}

function unfinished(state: TreeState): string | undefined {
  for (const [key, list] of state.lists) {
    if (list.hasMore && !key.includes("/")) return key;
  }
  return undefined;
}

/** Returns true if a container is pinned. */
export function isFavourite(path: readonly string[]): boolean {
  return favourites.get().includes(nodeKey([...path]));
}

/** Pins a container, or removes the pin. */
export function toggleFavourite(path: readonly string[]): void {
  const key = nodeKey([...path]);
  favourites.update((keys) =>
    keys.includes(key) ? keys.filter((other) => other !== key) : [...keys, key],
  );
  tree.update((state) => ({ ...state, favourites: [...favourites.get()] }));
}

/** Forgets the pin of a deleted container. */
export function forgetFavourite(path: readonly string[]): void {
  if (isFavourite(path)) toggleFavourite(path);
}
