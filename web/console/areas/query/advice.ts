/** Turns the indexes that a query could use into a new indexing policy of the container.
 *
 * Promises: the policy that comes in is not changed; everything in the policy that the advice does
 * not name stays; an index that the policy has already is not added again. */

import type { IndexUse } from "./answers.ts";

export interface PathEntry {
  path: string;
  [member: string]: unknown;
}

export interface CompositePath {
  path: string;
  order?: string;
}

/** The members of an indexing policy that advice changes. */
export interface IndexingPolicy {
  indexingMode?: string;
  automatic?: boolean;
  includedPaths?: PathEntry[];
  excludedPaths?: PathEntry[];
  compositeIndexes?: CompositePath[][];
  [member: string]: unknown;
}

/** Returns the name of an index: its path, or the paths of a composite index with their order. */
export function indexName(use: IndexUse): string {
  return use.isComposite ? `(${use.paths.join(", ")})` : use.paths.join(", ");
}

/** Merges the index uses of several pages; an index that any page used counts as used. */
export function mergedUses(pages: readonly (readonly IndexUse[])[]): IndexUse[] {
  const found = new Map<string, IndexUse>();
  for (const page of pages) {
    for (const use of page) {
      const name = indexName(use);
      const known = found.get(name);
      if (!known || (use.isUsed && !known.isUsed)) found.set(name, use);
    }
  }
  return [...found.values()];
}

/** Returns the policy with the chosen indexes. */
export function withIndexes(policy: IndexingPolicy, chosen: readonly IndexUse[]): IndexingPolicy {
  const result: IndexingPolicy = structuredClone(policy);
  for (const use of chosen) {
    if (use.isComposite) addComposite(result, use);
    else addPath(result, use.paths[0] ?? "");
  }
  if (chosen.length > 0 && result.indexingMode === "none") {
    result.indexingMode = "consistent";
    result.automatic = true;
  }
  return result;
}

function addPath(policy: IndexingPolicy, path: string): void {
  if (path === "") return;
  const stem = path.replace(/\/[?*]$/, "");
  const isSame = (entry: PathEntry): boolean => entry.path.replace(/\/[?*]$/, "") === stem;
  // An exclusion of the same path would make the policy contradict itself.
  const excluded = policy.excludedPaths ?? [];
  const wholeBelow = excluded.some((entry) => isSame(entry) && entry.path.endsWith("/*"));
  policy.excludedPaths = excluded.filter((entry) => !(isSame(entry) && !entry.path.endsWith("/*")));
  const included = policy.includedPaths ?? [];
  const covers = included.some((entry) => entry.path === path || (isSame(entry) && !wholeBelow));
  if (!covers) policy.includedPaths = [...included, { path }];
}

function addComposite(policy: IndexingPolicy, use: IndexUse): void {
  const composite = use.paths.map((spec) => {
    const space = spec.lastIndexOf(" ");
    const order = spec.slice(space + 1) === "DESC" ? "descending" : "ascending";
    return { path: spec.slice(0, space), order };
  });
  const known = policy.compositeIndexes ?? [];
  const text = compositeText(composite);
  if (known.some((other) => compositeText(other) === text)) return;
  policy.compositeIndexes = [...known, composite];
}

function compositeText(paths: readonly CompositePath[]): string {
  return paths.map(({ path, order }) => `${path} ${order ?? "ascending"}`).join(",");
}

export interface DiffLine {
  /** `gap` stands for unchanged lines that are left out. */
  kind: "added" | "gap" | "removed" | "same";
  text: string;
}

/** Returns the differences of two JSON documents, line by line. */
export function jsonDiff(before: unknown, after: unknown): DiffLine[] {
  return lineDiff(
    JSON.stringify(before, null, 2).split("\n"),
    JSON.stringify(after, null, 2).split("\n"),
  );
}

/** Returns the differences of two lists of lines by their longest common subsequence. */
export function lineDiff(before: readonly string[], after: readonly string[]): DiffLine[] {
  const width = after.length + 1;
  const lengths = new Uint32Array((before.length + 1) * width);
  const at = (i: number, j: number): number => lengths[i * width + j] ?? 0;
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    const old = before[i];
    const added = after[j];
    if (old !== undefined && old === added) {
      lines.push({ kind: "same", text: old });
      i += 1;
      j += 1;
    } else if (old !== undefined && (added === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ kind: "removed", text: old });
      i += 1;
    } else {
      lines.push({ kind: "added", text: added ?? "" });
      j += 1;
    }
  }
  return lines;
}

/** Returns the lines with changes, each with some unchanged lines around it. */
export function withContext(lines: readonly DiffLine[], around: number): DiffLine[] {
  const near = (at: number): boolean =>
    lines.slice(Math.max(0, at - around), at + around + 1).some(({ kind }) => kind !== "same");
  const shown: DiffLine[] = [];
  for (const [at, line] of lines.entries()) {
    if (near(at)) shown.push(line);
    else if (shown.at(-1)?.kind !== "gap") shown.push({ kind: "gap", text: "…" });
  }
  return shown;
}
