/** Reads the headers of a page of a query: charge, metrics, explanation, parts of the charge, indexes.
 *
 * Promises: a header that is missing or has another form gives no figure, never a wrong one. */

export interface Metrics {
  retrievedCount: number;
  retrievedBytes: number;
  outputCount: number;
  outputBytes: number;
  /** Share of the loaded items that became rows, 0 to 1. */
  indexHitRatio: number;
  /** The total time on the server in milliseconds. */
  totalMs: number;
  /** The times that the server measured, by the names of the service. */
  times: ReadonlyMap<string, number>;
}

export interface PartitionExplanation {
  /** Id of the physical partition. */
  range: string;
  access: string;
  work: Readonly<Record<string, number>>;
  ru: number;
}

export interface Explanation {
  condition: string;
  conditionIsExact: boolean;
  order: readonly string[];
  partitions: readonly PartitionExplanation[];
  partitionsAsked: number;
  itemsParsed: number;
  rows: number;
  /** What the query probably should say instead. */
  hints: readonly string[];
}

export interface ChargePart {
  what: string;
  count: number;
  ru: number;
}

export interface IndexUse {
  /** The paths with their order, for a composite index; one path otherwise. */
  paths: readonly string[];
  isComposite: boolean;
  isUsed: boolean;
  impact: "High" | "Low";
}

/** The times of the query metrics beside the total, with the words of the statistics panel. */
export const TIMES: readonly (readonly [string, string])[] = [
  ["indexLookupTimeInMs", "Index lookup"],
  ["documentLoadTimeInMs", "Document load"],
  ["VMExecutionTimeInMs", "Query engine"],
  ["systemFunctionExecuteTimeInMs", "System functions"],
  ["userFunctionExecuteTimeInMs", "User-defined functions"],
  ["writeOutputTimeInMs", "Write output"],
  ["queryCompileTimeInMs", "Compile"],
];

/** Returns the metrics of the header `x-ms-documentdb-query-metrics`, or null without the header. */
export function parseMetrics(header: string | null): Metrics | null {
  if (!header) return null;
  const values = new Map<string, number>();
  for (const part of header.split(";")) {
    const equals = part.indexOf("=");
    const value = Number(part.slice(equals + 1));
    if (equals > 0 && Number.isFinite(value)) values.set(part.slice(0, equals).trim(), value);
  }
  const times = new Map<string, number>();
  for (const [name, value] of values) {
    if (name.endsWith("TimeInMs")) times.set(name, value);
  }
  return {
    retrievedCount: values.get("retrievedDocumentCount") ?? 0,
    retrievedBytes: values.get("retrievedDocumentSize") ?? 0,
    outputCount: values.get("outputDocumentCount") ?? 0,
    outputBytes: values.get("outputDocumentSize") ?? 0,
    indexHitRatio: values.get("indexUtilizationRatio") ?? 0,
    totalMs: values.get("totalExecutionTimeInMs") ?? 0,
    times,
  };
}

/** Returns the JSON object of a header that is percent-encoded, or null. */
function decoded(header: string | null): Record<string, unknown> | null {
  if (!header) return null;
  try {
    return objectOf(JSON.parse(decodeURIComponent(header)));
  } catch {
    return null;
  }
}

function objectOf(value: unknown): Record<string, unknown> | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  return value as Record<string, unknown>;
}

function listOf(value: unknown): Record<string, unknown>[] {
  if (!Array.isArray(value)) return [];
  const objects: Record<string, unknown>[] = [];
  for (const element of value) {
    const object = objectOf(element);
    if (object) objects.push(object);
  }
  return objects;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function numberOf(value: unknown): number {
  const number = typeof value === "string" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : 0;
}

/** Returns the explanation of the header `x-orrery-explanation`, or null without the header. */
export function parseExplanation(header: string | null): Explanation | null {
  const document = decoded(header);
  if (!document) return null;
  const partitions: PartitionExplanation[] = [];
  for (const range of listOf(document["ranges"])) {
    const work: Record<string, number> = {};
    for (const [name, value] of Object.entries(objectOf(range["work"]) ?? {})) {
      work[name] = numberOf(value);
    }
    partitions.push({
      range: textOf(range["range"]),
      access: textOf(range["access"]),
      work,
      ru: numberOf(range["charge"]),
    });
  }
  const order = Array.isArray(document["order"]) ? document["order"].map(textOf) : [];
  return {
    condition: textOf(document["condition"]),
    conditionIsExact: document["conditionIsExact"] === true,
    order,
    partitions,
    partitionsAsked: numberOf(document["rangesAsked"]),
    itemsParsed: numberOf(document["itemsParsed"]),
    rows: numberOf(document["rows"]),
    hints: Array.isArray(document["hints"]) ? document["hints"].map(textOf) : [],
  };
}

/** Returns the hints of the pages, each once. */
export function hintsOf(explanations: readonly (Explanation | null)[]): readonly string[] {
  return [...new Set(explanations.flatMap((explanation) => explanation?.hints ?? []))];
}

/** Returns the parts of the header `x-orrery-charge-parts`, the rounding left out. */
export function parseChargeParts(header: string | null): ChargePart[] {
  const parts: ChargePart[] = [];
  for (const part of listOf(decoded(header)?.["parts"])) {
    const what = textOf(part["what"]);
    if (what === "rounding") continue;
    parts.push({ what, count: numberOf(part["count"]), ru: numberOf(part["ru"]) });
  }
  return parts;
}

/** Returns the indexes of the header `x-ms-cosmos-index-utilization`, used ones first. */
export function parseIndexUse(header: string | null): IndexUse[] {
  const document = indexDocument(header);
  if (!document) return [];
  const list: IndexUse[] = [];
  const add = (member: string, isComposite: boolean, isUsed: boolean): void => {
    for (const entry of listOf(document[member])) {
      const specs = entry["IndexSpecs"];
      const paths = Array.isArray(specs) ? specs.map(textOf) : [textOf(entry["IndexSpec"])];
      const impact = entry["IndexImpactScore"] === "High" ? "High" : "Low";
      list.push({ paths, isComposite, isUsed, impact });
    }
  };
  add("UtilizedSingleIndexes", false, true);
  add("UtilizedCompositeIndexes", true, true);
  add("PotentialSingleIndexes", false, false);
  add("PotentialCompositeIndexes", true, false);
  return list;
}

/** Returns the document of index metrics. The header is base64 of UTF-8. */
function indexDocument(header: string | null): Record<string, unknown> | null {
  if (!header) return null;
  try {
    const binary = atob(header);
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    return objectOf(JSON.parse(new TextDecoder().decode(bytes)));
  } catch {
    return null;
  }
}
