/** Makes the picture of a query's plan: one row for each physical partition of the container.
 *
 * Promises: the figures are sums of the pages that were loaded, as the server counted them; a
 * partition that no page asked is shown as not asked. */

import type { Explanation, PartitionExplanation } from "./answers.ts";

/** A physical partition as the feed of partition key ranges names it. */
export interface RangeOfKeys {
  id: string;
  minInclusive: string;
  maxExclusive: string;
}

export interface PlanRow {
  id: string;
  /** First and last part of the hash space, in hexadecimal digits; empty for a partition that a
   * split or merge has replaced since. */
  from: string;
  to: string;
  isAsked: boolean;
  /** The access paths of the pages, in the server's words. */
  access: readonly string[];
  /** Index entries that were read, or items for a scan without index. */
  candidates: number;
  loaded: number;
  loadedBytes: number;
  /** Rows of the result; null if a page merged rows of several partitions, whose shares the server
   * does not report. */
  returned: number | null;
  ru: number;
  pages: number;
}

export interface Plan {
  rows: readonly PlanRow[];
  asked: number;
  /** Physical partitions of the container. */
  all: number;
  /** Rows of all partitions together. */
  returned: number;
  condition: string;
  conditionIsExact: boolean;
  order: readonly string[];
  /** True if the server listed fewer partitions than the query asked. */
  isCut: boolean;
}

/** Returns the plan of the pages that have an explanation, or null if none has. */
export function planOf(
  explanations: readonly Explanation[],
  ranges: readonly RangeOfKeys[],
): Plan | null {
  const last = explanations.at(-1);
  if (!last) return null;
  const found = new Map<string, PlanRow>();
  let isCut = false;
  let returned = 0;
  for (const explanation of explanations) {
    for (const partition of explanation.partitions) {
      const rows = rowsOf(partition, explanation);
      found.set(partition.range, added(found.get(partition.range), partition, rows));
    }
    returned += explanation.rows;
    isCut ||= explanation.partitionsAsked > explanation.partitions.length;
  }
  const rows: PlanRow[] = [];
  for (const range of ranges) {
    const row = found.get(range.id) ?? { ...EMPTY, id: range.id };
    rows.push({ ...row, from: range.minInclusive, to: range.maxExclusive });
    found.delete(range.id);
  }
  // Partitions that a split or merge replaced while the pages were loaded.
  rows.push(...found.values());
  return {
    rows,
    asked: rows.filter((row) => row.isAsked).length,
    all: Math.max(ranges.length, 1),
    returned,
    condition: last.condition,
    conditionIsExact: last.conditionIsExact,
    order: last.order,
    isCut,
  };
}

const EMPTY: PlanRow = {
  id: "",
  from: "",
  to: "",
  isAsked: false,
  access: [],
  candidates: 0,
  loaded: 0,
  loadedBytes: 0,
  returned: 0,
  ru: 0,
  pages: 0,
};

/** Returns the rows of a page that came from a partition: all of them if no other partition had
 * candidates, none if the partition itself had none, otherwise null. */
function rowsOf(partition: PartitionExplanation, page: Explanation): number | null {
  if (page.rows === 0 || (page.partitions.length > 1 && !hasCandidates(partition))) return 0;
  const others = page.partitions.filter((other) => other !== partition && hasCandidates(other));
  return others.length === 0 ? page.rows : null;
}

/** Returns true if the partition read items, or values of its index. */
function hasCandidates({ work }: PartitionExplanation): boolean {
  return ["loadedItems", "scannedValues", "walkedEntries"].some((name) => (work[name] ?? 0) > 0);
}

function added(
  row: PlanRow | undefined,
  partition: PartitionExplanation,
  rows: number | null,
): PlanRow {
  const before = row ?? { ...EMPTY, id: partition.range };
  const { work } = partition;
  const loaded = work["loadedItems"] ?? 0;
  const entries = (work["scannedValues"] ?? 0) + (work["walkedEntries"] ?? 0);
  const access = before.access.includes(partition.access)
    ? before.access
    : [...before.access, partition.access];
  return {
    ...before,
    isAsked: true,
    access,
    // A look-up by equality counts no entries, so its candidates are the items that it loads.
    candidates: before.candidates + Math.max(entries, loaded),
    loaded: before.loaded + loaded,
    loadedBytes: before.loadedBytes + (work["loadedBytes"] ?? 0),
    returned: rows === null || before.returned === null ? null : before.returned + rows,
    ru: before.ru + partition.ru,
    pages: before.pages + 1,
  };
}

/** Returns the hash range of a row, shortened to its first digits. */
export function shortRange(row: PlanRow): string {
  if (row.from === "" && row.to === "") return "";
  const from = row.from === "" ? "0000" : row.from.slice(0, 6);
  const to = row.to === "FF" ? "FFFF" : row.to.slice(0, 6);
  return `${from} – ${to}`;
}

/** Returns the words for an access path of the server. */
export function accessWords(access: string): string {
  if (access === "logical partition") return "Reads the logical partition of the key";
  if (access === "full scan") return "Reads every item: no index serves the condition";
  if (access === "nothing") return "Reads nothing: no item can match";
  const rest = access.slice(access.indexOf(" ") + 1);
  if (access.startsWith("index ")) return `Index: ${rest}`;
  if (access.startsWith("order ")) return `Walks the index in order: ${rest}`;
  if (access.startsWith("values ")) return `Answers from index values: ${rest}`;
  return access;
}
