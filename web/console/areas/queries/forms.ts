/** Query forms: the figures that a page shows, and advice in words.
 *
 * A form is the text of a query without its strings and numbers; the server counts its pages,
 * charges and partitions. */

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

export interface FormAdvice {
  kind: "index" | "fan-out" | "scan" | "large" | "text";
  text: string;
}

/** Items for each row above which an index is missing. */
const SCAN_RATIO = 10;
const SCAN_ITEMS_MIN = 100;
const FAN_OUT = 1.5;
const EXPENSIVE_RU = 100;

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

/** Returns what would make a form cheaper, the most useful first. `partitionKey` names the paths of
 * the container's partition key. */
export function formAdvice(form: QueryForm, partitionKey: readonly string[]): FormAdvice[] {
  const advice: FormAdvice[] = [];
  const metrics = indexMetrics(form);
  for (const path of metrics.potential) {
    advice.push({ kind: "index", text: `Index the path ${path}: the query filters or sorts by it.` });
  }
  for (const paths of metrics.potentialComposite) {
    advice.push({ kind: "index", text: `Add the composite index (${paths}).` });
  }
  const pages = fanOut(form);
  if (form.crossPartition && pages >= FAN_OUT) {
    const key = partitionKey.length > 0 ? ` (${partitionKey.join(", ")})` : "";
    advice.push({
      kind: "fan-out",
      text:
        `A page asks ${oneDecimal(pages)} partitions. Name the partition key${key} in the query, ` +
        `or keep a copy of the items under the key that this query knows.`,
    });
  }
  const ratio = readRatio(form);
  const isScan = ratio !== null && ratio >= SCAN_RATIO && form.retrieved >= SCAN_ITEMS_MIN;
  if (isScan && metrics.potential.length === 0) {
    const rows = ratio === Infinity ? "no row" : `one row for ${Math.round(ratio)} items`;
    advice.push({
      kind: "scan",
      text: `The query loads many items and returns ${rows}. A more selective filter on an indexed path reads fewer.`,
    });
  }
  if (advice.length === 0 && form.ruP50 >= EXPENSIVE_RU) {
    advice.push({
      kind: "large",
      text: `A page costs ${Math.round(form.ruP50)} RU. Select only the members that the program needs, or ask for smaller pages.`,
    });
  }
  advice.push(...wording(form.text));
  return advice;
}

/** Returns advice that the text alone gives. */
function wording(text: string): FormAdvice[] {
  const found: FormAdvice[] = [];
  const rules: readonly [RegExp, string][] = [
    [/\b(UPPER|LOWER)\s*\(/i, "UPPER and LOWER read every value of the index. Store the text in one case, or use STRINGEQUALS with its third argument."],
    [/\bENDSWITH\s*\(/i, "ENDSWITH reads every value of the index. Store the text reversed as well and use STARTSWITH."],
    [/(?<!FULLTEXT)\bCONTAINS\s*\(/i, "CONTAINS reads every value of the index. A full-text index finds words directly."],
  ];
  for (const [pattern, advice] of rules) {
    if (pattern.test(text)) found.push({ kind: "text", text: advice });
  }
  return found;
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

function oneDecimal(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 1 });
}
