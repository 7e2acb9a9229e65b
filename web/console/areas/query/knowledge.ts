/** Reads what the editor needs to know: the language, properties of the container's items, errors of
 * a query before it runs. */

import { asApiError, data, isAborted, manage } from "../../api/client.ts";
import { containerPath, items } from "../../api/data.ts";
import { jsonText } from "../../api/exact-json.ts";
import type { Language, LanguageFunction } from "./completion.ts";
import type { QueryParameter } from "./copy/request.ts";
import { type Mark, marksOfError } from "./diagnostics.ts";
import { type Property, propertiesOf } from "./sample.ts";

const SAMPLE_ITEMS = 50;
const KNOWN_CHECKS_MAX = 50;

/** The features of plans. A client that names all of them gets errors of the query alone, no refusal
 * of its features. */
const FEATURES = [
  "Aggregate",
  "CompositeAggregate",
  "CountIf",
  "DCount",
  "Distinct",
  "GroupBy",
  "HybridSearch",
  "HybridSearchSkipOrderByRewrite",
  "MultipleAggregates",
  "MultipleOrderBy",
  "NonStreamingOrderBy",
  "NonValueAggregate",
  "OffsetAndLimit",
  "OrderBy",
  "Top",
  "WeightedRankFusion",
];

/** The language without the server's description: the editor then colours and proposes keywords. */
export const BARE_LANGUAGE: Language = {
  keywords: (
    "AND ARRAY AS ASC BETWEEN BY CASE CROSS DESC DISTINCT ELSE END ESCAPE EXISTS FALSE FROM GROUP " +
    "HAVING IN INNER IS JOIN LIKE LIMIT NOT NULL OFFSET ON OR ORDER RANK SELECT THEN TOP TRUE UDF " +
    "UNDEFINED VALUE WHEN WHERE"
  ).split(" "),
  functions: [],
};

/** Reads the description of the query language. */
export async function readLanguage(signal: AbortSignal): Promise<Language> {
  const reply = await manage("/language", { signal });
  return languageOf(reply.json());
}

/** Returns the language of the server's description. */
export function languageOf(document: unknown): Language {
  const description = (document ?? {}) as { keywords?: unknown; functions?: unknown };
  const keywords: string[] = [];
  for (const keyword of listOf(description.keywords)) {
    if (typeof keyword === "string") keywords.push(keyword.toUpperCase());
  }
  const functions: LanguageFunction[] = [];
  for (const entry of listOf(description.functions)) {
    const found = functionOf(entry);
    if (found) functions.push(found);
  }
  return { keywords: keywords.length > 0 ? keywords : BARE_LANGUAGE.keywords, functions };
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function functionOf(entry: unknown): LanguageFunction | null {
  if (typeof entry !== "object" || entry === null) return null;
  const { name, arguments: all, minArguments, maxArguments, doc, indexUse } = entry as Record<string, unknown>;
  if (typeof name !== "string") return null;
  const names = listOf(all).map(String);
  const least = typeof minArguments === "number" ? minArguments : names.length;
  const shown = names.map((argument, at) => (at < least ? argument : `[${argument}]`));
  const rest = maxArguments === undefined && names.length > 0 ? ", …" : "";
  const help = typeof doc === "string" ? doc : "";
  const index = typeof indexUse === "string" ? (INDEX_USES[indexUse] ?? "") : "";
  return { name, signature: `(${shown.join(", ")}${rest})`, help: `${help} ${index}`.trim() };
}

const INDEX_USES: Record<string, string> = {
  seek: "A filter with the function is looked up in the index.",
  range: "A filter with the function reads a range of the index.",
  scan: "A filter with the function reads all values of the path in the index.",
  none: "A filter with the function loads the items.",
};

/** Reads the properties of some items of a container: one page of the feed, so that the size is
 * bounded and no query of the console is among the container's queries. */
export async function readProperties(
  database: string,
  container: string,
  signal: AbortSignal,
): Promise<Property[]> {
  const page = await items.page(database, container, { maxItemCount: SAMPLE_ITEMS, signal });
  return propertiesOf(page.entries);
}

/** Checks queries of one container on the server and remembers the newest answers. */
export class QueryChecker {
  private readonly known = new Map<string, string>();

  constructor(
    private readonly database: string,
    private readonly container: string,
  ) {}

  /** Returns the marks of a query at an offset of the editor; none if the check itself fails. */
  async check(
    query: string,
    offset: number,
    parameters: readonly QueryParameter[],
  ): Promise<readonly Mark[]> {
    const key = jsonText([query, parameters]);
    let message = this.known.get(key);
    if (message === undefined) {
      const found = await this.refusal(query, parameters);
      if (found === null) return [];
      message = found;
      if (this.known.size >= KNOWN_CHECKS_MAX) this.known.delete(this.known.keys().next().value ?? "");
      this.known.set(key, message);
    }
    return message === "" ? [] : marksOfError(message, query, offset);
  }

  /** Returns the server's message about the query, an empty text if the query is well formed, and
   * null if the server said nothing about the query. */
  private async refusal(query: string, parameters: readonly QueryParameter[]): Promise<string | null> {
    try {
      await data(containerPath(this.database, this.container, "docs"), {
        method: "POST",
        headers: {
          "content-type": "application/query+json",
          "x-ms-cosmos-is-query-plan-request": "True",
          "x-ms-cosmos-supported-query-features": FEATURES.join(", "),
          "x-ms-documentdb-query-enablecrosspartition": "True",
        },
        body: { query, parameters },
        poll: true,
      });
      return "";
    } catch (error) {
      if (isAborted(error)) return null;
      const problem = asApiError(error);
      return problem.status === 400 ? problem.message : null;
    }
  }
}
