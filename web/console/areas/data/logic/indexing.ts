/** Indexing policies: defaults, check, and words for the completion in the editor.
 *
 * Promises: `problemsOf` finds what the server refuses and what can be known without the server,
 * with the path of the member. A policy without problems may still be refused by the server.
 *
 * Leaves out: the rules that need the vector and full-text policies of the container; the server
 * checks these and its message appears at the same field. */

import { pathNames } from "./partition-key.ts";

/** A problem of a policy, at a path of member names and indexes such as `includedPaths/0/path`. */
export interface PolicyProblem {
  at: string;
  message: string;
}

/** Limits of the server, see core/model/src/limits.rs. */
const PATHS_MAX = 1_500;
const COMPOSITE_PATHS_MAX = 8;
const COMPOSITE_PATHS_TOTAL = 100;

/** Members of a policy, in the order in which a read shows them. */
export const POLICY_MEMBERS: Record<string, string> = {
  indexingMode: "consistent: items are indexed with their write. none: no index",
  automatic: "true: items are indexed unless a write excludes them",
  includedPaths: "paths with an index: [{\"path\": \"/*\"}]",
  excludedPaths: "paths without an index: [{\"path\": \"/body/?\"}]",
  compositeIndexes: "lists of 2 to 8 paths with an order, for ORDER BY over several properties",
  spatialIndexes: "paths with geometries: [{\"path\": \"/at/*\", \"types\": [\"Point\"]}]",
  vectorIndexes: "paths with vectors: [{\"path\": \"/v\", \"type\": \"flat\"}]",
  fullTextIndexes: "paths with texts: [{\"path\": \"/text\"}]",
};

/** Values that a member accepts, for the completion. */
export const MEMBER_VALUES: Record<string, string[]> = {
  indexingMode: ["consistent", "none"],
  automatic: ["true", "false"],
  order: ["ascending", "descending"],
  types: ["Point", "LineString", "Polygon", "MultiPolygon"],
  type: ["flat", "quantizedFlat", "diskANN"],
};

/** The policy of a container that names none. */
export const DEFAULT_POLICY = {
  indexingMode: "consistent",
  automatic: true,
  includedPaths: [{ path: "/*" }],
  excludedPaths: [{ path: '/"_etag"/?' }],
};

/** The policy of a container without an index. */
export const NO_INDEX_POLICY = {
  indexingMode: "none",
  automatic: false,
  includedPaths: [],
  excludedPaths: [],
};

type Entry = Record<string, unknown>;

function isEntry(value: unknown): value is Entry {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns true for a path of an included or excluded list: names, `[]`, and `/?` or `/*` last. */
export function isIndexPath(path: string): boolean {
  if (path === "/" || path === "/*") return true;
  const end = path.endsWith("/?") || path.endsWith("/*");
  if (!end) return false;
  // Elements of arrays are steps of a path too; a name stands in for each in this check.
  const steps = path.slice(0, -2).replace(/\/\[\](?=\/|$)/g, "/element");
  return pathNames(steps) !== null;
}

function isScalarPath(path: string): boolean {
  return pathNames(path.endsWith("/?") ? path.slice(0, -2) : path) !== null;
}

class Check {
  readonly problems: PolicyProblem[] = [];

  add(at: string, message: string): void {
    this.problems.push({ at, message });
  }

  /** Returns the entries of a list; reports a member that is no list. */
  list(policy: Entry, name: string): unknown[] {
    const value = policy[name];
    if (value === undefined || value === null) return [];
    if (Array.isArray(value)) return value as unknown[];
    this.add(name, `'${name}' is not an array. Write a list in brackets.`);
    return [];
  }

  paths(policy: Entry, name: string): Set<string> {
    const found = new Set<string>();
    const entries = this.list(policy, name);
    if (entries.length > PATHS_MAX) {
      this.add(name, `'${name}' has more than ${PATHS_MAX} paths. Remove some.`);
    }
    for (const [index, entry] of entries.entries()) {
      const path = isEntry(entry) ? entry["path"] : undefined;
      const at = `${name}/${index}`;
      if (typeof path !== "string") {
        this.add(at, `An entry of '${name}' has no 'path'. Write {"path": "/name/?"}.`);
      } else if (!isIndexPath(path)) {
        this.add(at, `The path '${path}' is malformed. A path ends with /? or /*.`);
      } else {
        found.add(path === "/" ? "/*" : path);
      }
    }
    return found;
  }

  composites(policy: Entry): void {
    let total = 0;
    for (const [index, entry] of this.list(policy, "compositeIndexes").entries()) {
      const at = `compositeIndexes/${index}`;
      if (!Array.isArray(entry)) {
        this.add(at, "A composite index is not an array. Write a list of paths with orders.");
        continue;
      }
      const parts = entry as unknown[];
      total += parts.length;
      if (parts.length < 2 || parts.length > COMPOSITE_PATHS_MAX) {
        this.add(at, `A composite index has 2 to ${COMPOSITE_PATHS_MAX} paths, not ${parts.length}.`);
      }
      this.compositeParts(parts, at);
    }
    if (total > COMPOSITE_PATHS_TOTAL) {
      const most = COMPOSITE_PATHS_TOTAL;
      this.add("compositeIndexes", `The composite indexes have more than ${most} paths in all.`);
    }
  }

  private compositeParts(parts: unknown[], at: string): void {
    const seen = new Set<string>();
    for (const [index, part] of parts.entries()) {
      const path = isEntry(part) ? part["path"] : undefined;
      const order = isEntry(part) ? (part["order"] ?? "ascending") : "ascending";
      const place = `${at}/${index}`;
      if (typeof path !== "string" || !isScalarPath(path)) {
        this.add(place, "A composite path is malformed. Write a path such as /name.");
        continue;
      }
      if (order !== "ascending" && order !== "descending") {
        this.add(place, `The order '${String(order)}' is unknown. Write ascending or descending.`);
      }
      if (seen.has(path)) this.add(place, `The composite index names '${path}' twice.`);
      seen.add(path);
    }
  }
}

/** Returns the problems of a policy; an empty list for a policy that may be sent. */
export function problemsOf(policy: unknown): PolicyProblem[] {
  const check = new Check();
  if (!isEntry(policy)) {
    check.add("", "The indexing policy is not an object. Write one object in braces.");
    return check.problems;
  }
  for (const name of Object.keys(policy)) {
    if (!(name in POLICY_MEMBERS)) check.add(name, `The member '${name}' is unknown.`);
  }
  const mode = String(policy["indexingMode"] ?? "consistent").toLowerCase();
  if (mode !== "consistent" && mode !== "none") {
    check.add("indexingMode", `The mode '${mode}' is not available. Write consistent or none.`);
  }
  if (mode === "none") return check.problems;
  const included = check.paths(policy, "includedPaths");
  const excluded = check.paths(policy, "excludedPaths");
  for (const path of included) {
    if (excluded.has(path)) {
      check.add("excludedPaths", `The path '${path}' is both included and excluded. Remove one.`);
    }
  }
  const namesRoot = included.has("/*") || excluded.has("/*");
  if (!namesRoot && included.size > 0) {
    check.add("excludedPaths", "The path '/*' must be included or excluded. Add it to one list.");
  }
  check.composites(policy);
  for (const name of ["spatialIndexes", "vectorIndexes", "fullTextIndexes"]) {
    for (const [index, entry] of check.list(policy, name).entries()) {
      const path = isEntry(entry) ? entry["path"] : undefined;
      if (typeof path === "string" && path.startsWith("/")) continue;
      check.add(`${name}/${index}`, `An entry of '${name}' has no 'path'.`);
    }
  }
  return check.problems;
}

/** A place in a JSON text for which words are offered. */
export interface CompletionPlace {
  /** The member whose value the place belongs to, or the empty text for a name. */
  member: string;
  /** True where a name of a member is written. */
  isName: boolean;
  /** Start of the word under the cursor. */
  from: number;
}

/** Finds what is written at the end of `text`: the part of a policy before the cursor. */
export function completionPlace(text: string): CompletionPlace {
  const open: { isObject: boolean; member: string }[] = [];
  let lastText = "";
  let member = "";
  let isAfterColon = false;
  let at = 0;
  let from = text.length;
  while (at < text.length) {
    const sign = text[at] as string;
    if (sign === '"') {
      const rest = /^"(?:[^"\\\n]|\\.)*"/.exec(text.slice(at));
      if (rest === null) {
        from = at + 1;
        break;
      }
      lastText = rest[0].slice(1, -1);
      at += rest[0].length;
      continue;
    }
    if (sign === "{" || sign === "[") {
      open.push({ isObject: sign === "{", member });
      isAfterColon = false;
    } else if (sign === "}" || sign === "]") {
      open.pop();
      isAfterColon = false;
    } else if (sign === ":") {
      member = lastText;
      isAfterColon = true;
    } else if (sign === ",") {
      isAfterColon = false;
    }
    at += 1;
  }
  const word = /[A-Za-z]*$/.exec(text.slice(0, from === text.length ? text.length : from));
  if (from === text.length && word !== null) from -= word[0].length;
  const inner = open.at(-1);
  const isName = inner?.isObject === true && !isAfterColon;
  const owner = isAfterColon ? member : (inner?.member ?? "");
  return { member: isName ? (inner?.member ?? "") : owner, isName, from };
}

/** Returns the paths of a sample of items, for the completion of `path` members. */
export function samplePaths(items: unknown[], most = 200): string[] {
  const paths = new Set<string>();
  const visit = (value: unknown, path: string, depth: number): void => {
    if (paths.size >= most || depth > 6) return;
    if (Array.isArray(value)) {
      for (const element of value.slice(0, 3)) visit(element, `${path}/[]`, depth + 1);
    } else if (isEntry(value)) {
      for (const [name, inner] of Object.entries(value)) {
        const step = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : JSON.stringify(name);
        visit(inner, `${path}/${step}`, depth + 1);
      }
    } else if (path !== "") {
      paths.add(`${path}/?`);
    }
  };
  for (const item of items) visit(item, "", 0);
  return [...paths].sort();
}
