/** The rows of the tree of databases and containers, without markup.
 *
 * Promises: the rows are a function of the loaded lists, the open nodes, the filter and the
 * favourites. A tree of 10,000 containers gives its rows in a few milliseconds, because closed
 * nodes are not visited.
 *
 * Leaves out: requests, which the component makes, and the drawing of rows. */

/** A list of a node: as many names as were loaded. */
export interface NodeList {
  names: string[];
  /** True if the server has further names. */
  hasMore: boolean;
  isLoading: boolean;
  /** Words of the last failure, if the list could not be loaded. */
  error?: string;
}

/** Kinds of rows. */
export type RowKind =
  | "database"
  | "container"
  | "tab"
  | "script-group"
  | "script"
  | "users"
  | "user"
  | "more"
  | "loading"
  | "error"
  | "favourite";

/** A visible row of the tree. */
export interface TreeRow {
  /** Key of the node: names joined by a slash, each percent-encoded. Rows that are no database or
   * container begin with a word after `@`, which no encoded name contains. */
  key: string;
  kind: RowKind;
  label: string;
  level: number;
  isOpen: boolean;
  canOpen: boolean;
  /** Position among the rows of the same parent, from 1, and their number. */
  position: number;
  size: number;
  /** Names of the resource: database, container, and further ones. */
  path: string[];
}

/** What the rows depend on. */
export interface TreeState {
  databases: NodeList;
  /** Lists by the key of their node. */
  lists: Map<string, NodeList>;
  open: Set<string>;
  filter: string;
  /** Keys of pinned containers. */
  favourites: string[];
}

/** The fixed rows of a container, in their order. */
export const CONTAINER_TABS: { tab: string; label: string }[] = [
  { tab: "items", label: "Items" },
  { tab: "settings", label: "Scale & settings" },
];

/** The groups of scripts of a container, in their order. */
export const SCRIPT_GROUPS: { kind: string; label: string }[] = [
  { kind: "sprocs", label: "Stored procedures" },
  { kind: "triggers", label: "Triggers" },
  { kind: "udfs", label: "User-defined functions" },
];

/** Returns the key of a node. */
export function nodeKey(path: string[]): string {
  return path.map(encodeURIComponent).join("/");
}

/** Returns the names of a key. */
export function keyPath(key: string): string[] {
  return key.split("/").map(decodeURIComponent);
}

/** Returns true if a name passes the filter. Case does not matter. */
export function passes(name: string, filter: string): boolean {
  return filter === "" || name.toLowerCase().includes(filter.toLowerCase());
}

type Draft = Omit<TreeRow, "position" | "size">;

class Rows {
  readonly rows: TreeRow[] = [];
  private readonly state: TreeState;

  constructor(state: TreeState) {
    this.state = state;
  }

  /** Adds the rows of one parent, each followed by its own children. */
  siblings(drafts: Draft[], children: (draft: Draft) => void): void {
    for (const [index, draft] of drafts.entries()) {
      this.rows.push({ ...draft, position: index + 1, size: drafts.length });
      if (draft.isOpen) children(draft);
    }
  }

  favourites(): void {
    const drafts: Draft[] = [];
    for (const key of this.state.favourites) {
      const path = keyPath(key);
      const label = path.join(" / ");
      if (!passes(label, this.state.filter)) continue;
      drafts.push(leaf(`@favourite/${key}`, "favourite", label, 1, path));
    }
    this.siblings(drafts, () => {});
  }

  databases(): void {
    const { databases, filter, lists } = this.state;
    const drafts: Draft[] = [];
    for (const name of databases.names) {
      const key = nodeKey([name]);
      const isMatch = passes(name, filter);
      const containers = lists.get(key);
      const hasMatch = containers?.names.some((container) => passes(container, filter)) ?? false;
      if (!isMatch && !hasMatch && !this.mayHoldMatches(key)) continue;
      drafts.push(this.branch(key, "database", name, 1, [name]));
    }
    drafts.push(...ends(databases, "", 1, []));
    this.siblings(drafts, (draft) => this.database(draft));
  }

  /** Returns true for an open database whose list is not complete: the filter may still find. */
  private mayHoldMatches(key: string): boolean {
    const list = this.state.lists.get(key);
    return this.state.open.has(key) && (list === undefined || list.hasMore || list.isLoading);
  }

  private branch(key: string, kind: RowKind, label: string, level: number, path: string[]): Draft {
    const isOpen = this.state.open.has(key);
    return { key, kind, label, level, path, isOpen, canOpen: true };
  }

  private database(draft: Draft): void {
    const list = this.state.lists.get(draft.key);
    const { filter } = this.state;
    // All containers are shown under a database that the filter found by its own name.
    const inner = filter !== "" && passes(draft.label, filter) ? "" : filter;
    const drafts: Draft[] = [];
    for (const name of list?.names ?? []) {
      if (!passes(name, inner)) continue;
      const path = [...draft.path, name];
      drafts.push(this.branch(nodeKey(path), "container", name, 2, path));
    }
    drafts.push(...ends(list, draft.key, 2, draft.path));
    if (filter === "") {
      const key = `@users/${draft.key}`;
      drafts.push(this.branch(key, "users", "Users", 2, draft.path));
    }
    this.siblings(drafts, (row) => {
      if (row.kind === "container") this.container(row);
      if (row.kind === "users") this.named(row, "user", 3);
    });
  }

  private container(draft: Draft): void {
    const drafts: Draft[] = [];
    for (const { tab, label } of CONTAINER_TABS) {
      drafts.push(leaf(`@tab/${tab}/${draft.key}`, "tab", label, 3, [...draft.path, tab]));
    }
    for (const { kind, label } of SCRIPT_GROUPS) {
      const path = [...draft.path, kind];
      drafts.push(this.branch(`@${kind}/${draft.key}`, "script-group", label, 3, path));
    }
    const conflicts = [...draft.path, "conflicts"];
    drafts.push(leaf(`@tab/conflicts/${draft.key}`, "tab", "Conflicts", 3, conflicts));
    this.siblings(drafts, (row) => this.named(row, "script", 4));
  }

  /** Adds the rows of a plain list of names. */
  private named(parent: Draft, kind: RowKind, level: number): void {
    const list = this.state.lists.get(parent.key);
    const drafts: Draft[] = [];
    for (const name of list?.names ?? []) {
      const key = `${parent.key}/${encodeURIComponent(name)}`;
      drafts.push(leaf(key, kind, name, level, [...parent.path, name]));
    }
    drafts.push(...ends(list, parent.key, level, parent.path));
    this.siblings(drafts, () => {});
  }
}

function leaf(key: string, kind: RowKind, label: string, level: number, path: string[]): Draft {
  return { key, kind, label, level, path, isOpen: false, canOpen: false };
}

/** Returns the row at the end of a list: loading, an error, or the next page. */
function ends(list: NodeList | undefined, key: string, level: number, path: string[]): Draft[] {
  if (list === undefined || list.isLoading) {
    return [leaf(`@loading/${key}`, "loading", "Loading", level, path)];
  }
  if (list.error !== undefined) return [leaf(`@error/${key}`, "error", list.error, level, path)];
  if (list.hasMore) {
    return [leaf(`@more/${key}`, "more", `Load more (${list.names.length} loaded)`, level, path)];
  }
  return [];
}

/** Returns the visible rows of a tree. */
export function treeRows(state: TreeState): TreeRow[] {
  const rows = new Rows(state);
  rows.favourites();
  rows.databases();
  return rows.rows;
}

/** What a key does in the tree. */
export type TreeMove = { focus: number } | { open: string } | { close: string } | { choose: number };

/** Returns what a key does, by the rules of WAI-ARIA for trees; null for a key without effect. */
export function moveOf(key: string, rows: TreeRow[], focus: number): TreeMove | null {
  const row = rows[focus];
  if (row === undefined) return rows.length > 0 ? { focus: 0 } : null;
  switch (key) {
    case "ArrowDown":
      return { focus: Math.min(focus + 1, rows.length - 1) };
    case "ArrowUp":
      return { focus: Math.max(focus - 1, 0) };
    case "Home":
      return { focus: 0 };
    case "End":
      return { focus: rows.length - 1 };
    case "ArrowRight":
      if (!row.canOpen) return null;
      return row.isOpen ? { focus: Math.min(focus + 1, rows.length - 1) } : { open: row.key };
    case "ArrowLeft":
      if (row.isOpen) return { close: row.key };
      return { focus: parentOf(rows, focus) };
    case "Enter":
    case " ":
      return { choose: focus };
    default:
      return key.length === 1 ? typeAhead(key, rows, focus) : null;
  }
}

function parentOf(rows: TreeRow[], focus: number): number {
  const level = rows[focus]?.level ?? 1;
  for (let index = focus - 1; index >= 0; index -= 1) {
    if ((rows[index]?.level ?? 0) < level) return index;
  }
  return focus;
}

function typeAhead(key: string, rows: TreeRow[], focus: number): TreeMove | null {
  const wanted = key.toLowerCase();
  for (let step = 1; step <= rows.length; step += 1) {
    const index = (focus + step) % rows.length;
    if (rows[index]?.label.toLowerCase().startsWith(wanted)) return { focus: index };
  }
  return null;
}
