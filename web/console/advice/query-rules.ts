/** The rules about a query. The facts are of one run, with its plan, or of a form: many runs of the same
 * text without values. */

import { percent, plural, ruNumber } from "../ui/format.ts";
import type { Finding, Rule } from "./advice.ts";

export interface QueryFacts {
  /** The text; with `?` in place of values for a form. */
  readonly text: string;
  readonly keyPaths: readonly string[];
  /** Physical partitions that a page asks, and those of the container. */
  readonly asked: number;
  readonly all: number;
  readonly isSinglePartition: boolean;
  readonly retrieved: number;
  readonly rows: number;
  readonly rowBytes: number;
  /** The charge of the run, or of the median page of a form. */
  readonly ru: number;
  /** The parts of the charge; empty for a form. */
  readonly parts: readonly { readonly what: string; readonly ru: number }[];
  /** How the run reads items; null for a form. */
  readonly access: { readonly isScan: boolean; readonly walked: number } | null;
  /** Indexes that are missing: paths, and composite ones as lists of paths. */
  readonly missing: readonly string[];
  readonly missingComposite: readonly string[];
}

/** A query that loads more items than this for each row reads too much: a run, a form. */
const LOADED_PER_ROW = 3;
const LOADED_PER_ROW_OF_FORM = 10;
const LOADED_MIN_OF_FORM = 100;
const ENTRIES_PER_ROW = 10;
const LARGE_ROWS = 1_000;
const LARGE_BYTES = 2 ** 20;
const EXPENSIVE_RU = 100;
const FAN_OUT = 1.5;
const READING = ["items loaded", "bytes loaded"];

export const QUERY_RULES: readonly Rule<QueryFacts>[] = [
  { id: "index", urgency: "warn", find: missingIndexes },
  { id: "scan", urgency: "warn", find: scan },
  { id: "order-walk", urgency: "warn", find: orderWalk },
  { id: "items", urgency: "warn", find: items },
  { id: "fan-out", urgency: "warn", find: fanOut },
  { id: "large", urgency: "warn", find: large },
  { id: "text", urgency: "info", find: wording },
];

function partsOf({ parts, ru }: QueryFacts, names: readonly string[]): string {
  let sum = 0;
  for (const part of parts) if (names.includes(part.what)) sum += part.ru;
  return sum <= 0 || ru <= 0 ? "" : `That is ${percent(sum / ru)} of the charge.`;
}

function missingIndexes({ missing, missingComposite, access }: QueryFacts): Finding[] {
  // A run has a view of its own for indexes, which measures them.
  if (access !== null) return [];
  const found: Finding[] = [];
  for (const path of missing) {
    found.push({ happened: `The path ${path} has no index.`, cost: "The query filters or sorts by it.", out: "Index the path." });
  }
  for (const paths of missingComposite) {
    found.push({ happened: `A composite index (${paths}) is missing.`, cost: "", out: "Add it to the indexing policy." });
  }
  return found;
}

function scan(facts: QueryFacts): Finding | null {
  const { access, retrieved, rows } = facts;
  if (!access?.isScan || retrieved <= rows) return null;
  return {
    happened: `No index serves the condition, so the query reads every item: ${plural(retrieved, "item")} for ${plural(rows, "row")}.`,
    cost: partsOf(facts, READING),
    out: "Index the paths of the condition, or write the condition so that an index serves it.",
  };
}

function orderWalk(facts: QueryFacts): Finding | null {
  const { access, rows } = facts;
  if (!access || access.walked <= Math.max(rows, 1) * ENTRIES_PER_ROW) return null;
  return {
    happened: `The index of ORDER BY is walked until enough items match: ${plural(access.walked, "entry", "entries")} for ${plural(rows, "row")}.`,
    cost: partsOf(facts, ["index entries passed", ...READING]),
    out: "A composite index of the paths of the condition and of ORDER BY finds the rows at once.",
  };
}

function items(facts: QueryFacts): Finding | null {
  const { access, retrieved, rows } = facts;
  const most = Math.max(rows, 1) * (access ? LOADED_PER_ROW : LOADED_PER_ROW_OF_FORM);
  if (access?.isScan || retrieved <= most) return null;
  if (!access && (retrieved < LOADED_MIN_OF_FORM || facts.missing.length > 0)) return null;
  return {
    happened: `The query loads too many candidates: ${plural(retrieved, "item")} for ${plural(rows, "row")}.`,
    cost: partsOf(facts, READING),
    out: "A more selective condition or a composite index reduces the candidates.",
  };
}

function fanOut(facts: QueryFacts): Finding | null {
  const { asked, all, isSinglePartition, keyPaths } = facts;
  if (isSinglePartition || asked < FAN_OUT) return null;
  const partitions = asked.toLocaleString("en", { maximumFractionDigits: 1 });
  const key = keyPaths.length > 0 ? ` ${keyPaths.join(", ")}` : "";
  return {
    happened: `A page asks ${partitions} of ${plural(all, "physical partition")}, and each costs a request.`,
    cost: partsOf(facts, ["requests of queries"]),
    out: `A condition of equality on the partition key${key} asks one. A copy of the items under another key helps queries that do not know it.`,
  };
}

function large(facts: QueryFacts): Finding | null {
  const { access, rows, rowBytes, ru } = facts;
  const out = "Select fewer properties, or fewer rows with TOP, OFFSET and LIMIT.";
  if (!access) {
    return ru < EXPENSIVE_RU ? null : { happened: `A page costs ${ruNumber(ru)} RU.`, cost: "", out };
  }
  if (rows < LARGE_ROWS && rowBytes < LARGE_BYTES) return null;
  return {
    happened: `The result is large: ${plural(rows, "row")}.`,
    cost: partsOf(facts, ["bytes returned", "rows returned", "rows projected", ...READING]),
    out,
  };
}

const WORDS: readonly (readonly [pattern: RegExp, name: string, out: string])[] = [
  [/\b(UPPER|LOWER)\s*\(/i, "UPPER and LOWER read", "Store the text in one case, or use STRINGEQUALS with its third argument."],
  [/\bENDSWITH\s*\(/i, "ENDSWITH reads", "Store the text reversed as well and use STARTSWITH."],
  [/(?<!FULLTEXT)\bCONTAINS\s*\(/i, "CONTAINS reads", "A full-text index finds words directly."],
];

function wording({ text, access }: QueryFacts): Finding[] {
  // The server gives hints about the text of a run.
  if (access !== null) return [];
  const found: Finding[] = [];
  for (const [pattern, name, out] of WORDS) {
    if (pattern.test(text)) found.push({ happened: `${name} every value of the index.`, cost: "", out });
  }
  return found;
}
