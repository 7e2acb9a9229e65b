/** SQL of the items tab: paths as expressions, the query of a page, and filters to start with.
 *
 * Promises: a name of any characters becomes a valid property expression, and a value becomes a
 * literal, so that names and values of items cannot change the query.
 *
 * Leaves out: the check of the filter that a user writes; the server names its errors. */

import { pathNames } from "./partition-key.ts";
import type { KeyDefinition } from "./partition-key.ts";

const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Words that are no property names without brackets. */
const KEYWORDS = new Set(
  (
    "all and array as asc between by case cast convert cross desc distinct else end escape exists " +
    "false for from group having in inner insert into is join left let like limit not null offset " +
    "on or order outer over rank right select set then top true udf undefined update value when " +
    "where with"
  ).split(" "),
);

/** Returns the expression of a property: `c.name` where possible, else `c["odd name"]`. */
export function propertyExpression(names: string[], root = "c"): string {
  let text = root;
  for (const name of names) {
    const isPlain = PLAIN_NAME.test(name) && !KEYWORDS.has(name.toLowerCase());
    text += isPlain ? `.${name}` : `[${JSON.stringify(name)}]`;
  }
  return text;
}

/** The columns of a page of items beside id, etag and time. */
export interface PageColumns {
  /** The names of each level of the partition key. */
  keys: string[][];
  /** The names of each further column. */
  picked: string[][];
}

/** Characters of a long text that a cell of the list receives. */
export const CELL_CHARACTERS = 256;

/** Returns the query of a page of the items tab.
 *
 * Each row is an object: `id`, `etag`, `ts`, the key levels `k0`…, the picked columns `p0`…. An
 * absent property gives no member. Long texts of picked columns are cut by the server. */
export function pageQuery(columns: PageColumns, filter: string): string {
  const members = ['"id": c.id', '"etag": c._etag', '"ts": c._ts'];
  for (const [index, names] of columns.keys.entries()) {
    members.push(`"k${index}": ${propertyExpression(names)}`);
  }
  for (const [index, names] of columns.picked.entries()) {
    const property = propertyExpression(names);
    members.push(
      `"p${index}": IIF(IS_STRING(${property}), LEFT(${property}, ${CELL_CHARACTERS}), ${property})`,
    );
  }
  const query = `SELECT VALUE {${members.join(", ")}} FROM c`;
  const predicate = filter.trim();
  return predicate === "" ? query : `${query} ${asClause(predicate)}`;
}

/** Returns the query that reads whole items under a filter. */
export function itemsQuery(filter: string): string {
  const predicate = filter.trim();
  return predicate === "" ? "SELECT * FROM c" : `SELECT * FROM c ${asClause(predicate)}`;
}

/** Puts WHERE before a predicate, unless the text already begins with a clause. */
function asClause(predicate: string): string {
  return /^(where|order\s+by|join|offset)\b/i.test(predicate) ? predicate : `WHERE ${predicate}`;
}

/** Returns the names of each level of a partition key; levels with a malformed path are left out. */
export function keyNames(definition: KeyDefinition): string[][] {
  const levels: string[][] = [];
  for (const path of definition.paths) {
    const names = pathNames(path);
    if (names !== null) levels.push(names);
  }
  return levels;
}

/** Returns filters to start with, built from the partition key. */
export function defaultFilters(definition: KeyDefinition): string[] {
  const filters = ['c.id = "…"'];
  const levels = keyNames(definition);
  for (let count = levels.length; count > 0; count -= 1) {
    const parts: string[] = [];
    for (const names of levels.slice(0, count)) parts.push(`${propertyExpression(names)} = "…"`);
    const filter = parts.join(" AND ");
    if (!filters.includes(filter)) filters.push(filter);
  }
  const first = levels[0];
  if (first !== undefined) filters.push(`NOT IS_DEFINED(${propertyExpression(first)})`);
  filters.push("ORDER BY c._ts DESC");
  return filters;
}

/** Saved filters beside the newest one. */
const HISTORY_MAX = 20;

/** Returns the history of filters with the newest one in front. */
export function rememberFilter(history: string[], filter: string): string[] {
  const text = filter.trim();
  if (text === "") return history;
  return [text, ...history.filter((other) => other !== text)].slice(0, HISTORY_MAX);
}
