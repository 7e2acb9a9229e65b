/** Query forms: the figures that a page shows, and the facts for advice.
 *
 * A form is the text of a query without its strings and numbers; the server counts its pages,
 * charges and partitions. */

import type { QueryFacts } from "../../advice/query-rules.ts";

export interface QueryForm {
  text: string;
  /** Pages. */
  count: number;
  ru: number;
  ruP50: number;
  ruP95: number;
  microsecondsP50: number;
  microsecondsP99: number;
  /** Physical partitions read, summed over all pages. */
  partitions: number;
  retrieved: number;
  output: number;
  crossPartition: boolean;
  /** Index metrics of a recent page as JSON. */
  indexAdvice?: string;
  /** Seconds since 1970. */
  last: number;
}

export interface IndexMetrics {
  used: string[];
  potential: string[];
  potentialComposite: string[];
}

/** Returns physical partitions for each page. */
export function fanOut(form: QueryForm): number {
  return form.count === 0 ? 0 : form.partitions / form.count;
}

/** Returns items loaded for each row; null if no row was returned and none was loaded. */
export function readRatio(form: QueryForm): number | null {
  if (form.output > 0) return form.retrieved / form.output;
  return form.retrieved > 0 ? Infinity : null;
}

/** Reads the index metrics of a form. */
export function indexMetrics(form: QueryForm): IndexMetrics {
  const metrics: IndexMetrics = { used: [], potential: [], potentialComposite: [] };
  if (form.indexAdvice === undefined) return metrics;
  let json: unknown;
  try {
    json = JSON.parse(form.indexAdvice);
  } catch {
    return metrics;
  }
  metrics.used = [...specs(json, "UtilizedSingleIndexes"), ...specs(json, "UtilizedCompositeIndexes")];
  metrics.potential = specs(json, "PotentialSingleIndexes");
  metrics.potentialComposite = specs(json, "PotentialCompositeIndexes");
  return metrics;
}

/** Returns what the rules of queries look at. */
export function factsOf(form: QueryForm, keyPaths: readonly string[], all: number): QueryFacts {
  const { potential, potentialComposite } = indexMetrics(form);
  return {
    text: form.text,
    keyPaths,
    asked: fanOut(form),
    all,
    isSinglePartition: !form.crossPartition,
    retrieved: form.retrieved,
    rows: form.output,
    rowBytes: 0,
    ru: form.ruP50,
    parts: [],
    access: null,
    missing: potential,
    missingComposite: potentialComposite,
  };
}

/** Reads the index specifications of one list. */
function specs(json: unknown, name: string): string[] {
  if (json === null || typeof json !== "object" || Array.isArray(json)) return [];
  const list: unknown = (json as Record<string, unknown>)[name];
  if (!Array.isArray(list)) return [];
  const found: string[] = [];
  for (const entry of list as unknown[]) {
    if (entry === null || typeof entry !== "object") continue;
    const { IndexSpec: one, IndexSpecs: several } = entry as Record<string, unknown>;
    if (typeof one === "string") found.push(one);
    if (Array.isArray(several)) found.push(several.join(", "));
  }
  return found;
}
