/** Says in words why a query costs what it costs.
 *
 * Promises: each sentence follows from counted work of the pages that were loaded; the reason with
 * the largest part of the charge comes first.
 * Leaves out: predictions. The advice measures them. */

import type { ChargePart, Metrics } from "./answers.ts";
import type { Plan } from "./plan.ts";

export interface Reason {
  kind: "cheap" | "fan-out" | "items" | "large-result" | "order-walk" | "part" | "scan";
  text: string;
  /** What to do, if something helps. */
  advice: string;
}

export interface CostFacts {
  plan: Plan;
  metrics: Metrics;
  parts: readonly ChargePart[];
  ru: number;
  keyPaths: readonly string[];
  isSinglePartition: boolean;
}

/** Load more items than this for each row, and the query reads too much. */
const LOADED_PER_ROW_MAX = 3;
const ENTRIES_PER_ROW_MAX = 10;
const LARGE_ROWS = 1_000;
const LARGE_BYTES = 1024 * 1024;

/** Returns the reasons, most important first; one reason `cheap` if there is nothing to improve. */
export function reasonsOf(facts: CostFacts): Reason[] {
  const found = [scan(facts), orderWalk(facts), items(facts), fanOut(facts), largeResult(facts)];
  const reasons = found.filter((reason) => reason !== null);
  if (reasons.length > 0) return reasons;
  return [cheap(facts)];
}

function count(number: number, one: string, many: string): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

function share(ru: number, facts: CostFacts): string {
  if (facts.ru <= 0) return "";
  return ` (${Math.round((ru / facts.ru) * 100)} % of the charge)`;
}

function partRu(facts: CostFacts, names: readonly string[]): number {
  let ru = 0;
  for (const part of facts.parts) {
    if (names.includes(part.what)) ru += part.ru;
  }
  return ru;
}

function scan({ plan, metrics, ...facts }: CostFacts): Reason | null {
  const scanning = plan.rows.filter((row) => row.access.includes("full scan"));
  const readsTooMuch = metrics.retrievedCount > metrics.outputCount;
  if (scanning.length === 0 || !readsTooMuch) return null;
  const ru = partRu({ plan, metrics, ...facts }, ["items loaded", "bytes loaded"]);
  const loaded = count(metrics.retrievedCount, "item", "items");
  const rows = count(metrics.outputCount, "row", "rows");
  return {
    kind: "scan",
    text: `No index serves the condition, so the query reads every item: ${loaded} for ${rows}${share(ru, { plan, metrics, ...facts })}.`,
    advice: "Index the paths of the condition, or write the condition so that an index serves it.",
  };
}

function orderWalk(facts: CostFacts): Reason | null {
  const { plan, metrics } = facts;
  let walked = 0;
  for (const row of plan.rows) {
    if (row.access.some((access) => access.startsWith("order "))) walked += row.candidates;
  }
  const rows = Math.max(metrics.outputCount, 1);
  if (walked <= rows * ENTRIES_PER_ROW_MAX) return null;
  const ru = partRu(facts, ["index entries passed", "items loaded", "bytes loaded"]);
  return {
    kind: "order-walk",
    text: `The index of ORDER BY is walked until enough items match: ${count(walked, "entry", "entries")} for ${count(metrics.outputCount, "row", "rows")}${share(ru, facts)}.`,
    advice: "A composite index of the paths of the condition and of ORDER BY finds the rows at once.",
  };
}

function items(facts: CostFacts): Reason | null {
  const { plan, metrics } = facts;
  const isScan = plan.rows.some((row) => row.access.includes("full scan"));
  const rows = Math.max(metrics.outputCount, 1);
  if (isScan || metrics.retrievedCount <= rows * LOADED_PER_ROW_MAX) return null;
  const ru = partRu(facts, ["items loaded", "bytes loaded"]);
  return {
    kind: "items",
    text: `The index leaves too many candidates: ${count(metrics.retrievedCount, "item was", "items were")} loaded for ${count(metrics.outputCount, "row", "rows")}${share(ru, facts)}.`,
    advice: "A more selective condition or a composite index reduces the candidates.",
  };
}

function fanOut(facts: CostFacts): Reason | null {
  const { plan } = facts;
  if (plan.asked < 2 || facts.isSinglePartition) return null;
  const ru = partRu(facts, ["requests of queries"]);
  const key = facts.keyPaths.join(", ");
  return {
    kind: "fan-out",
    text: `The query asks ${plan.asked} of ${count(plan.all, "physical partition", "physical partitions")}, and each costs a request${share(ru, facts)}.`,
    advice: `A condition of equality on the partition key ${key} asks one.`,
  };
}

function largeResult(facts: CostFacts): Reason | null {
  const { metrics } = facts;
  if (metrics.outputCount < LARGE_ROWS && metrics.outputBytes < LARGE_BYTES) return null;
  const ru = partRu(facts, [
    "bytes returned",
    "rows returned",
    "rows projected",
    "items loaded",
    "bytes loaded",
  ]);
  return {
    kind: "large-result",
    text: `The result is large: ${count(metrics.outputCount, "row", "rows")}${share(ru, facts)}.`,
    advice: "Select fewer properties, or fewer rows with TOP, OFFSET and LIMIT.",
  };
}

function cheap(facts: CostFacts): Reason {
  const { plan, metrics } = facts;
  if (plan.asked === 0) {
    const text = "No physical partition was asked: no item can match the condition.";
    return { kind: "cheap", text, advice: "" };
  }
  const partitions = count(plan.asked, "physical partition", "physical partitions");
  const text = `Little to improve: ${partitions} asked, ${count(metrics.retrievedCount, "item", "items")} loaded for ${count(metrics.outputCount, "row", "rows")}.`;
  return { kind: "cheap", text, advice: "" };
}
