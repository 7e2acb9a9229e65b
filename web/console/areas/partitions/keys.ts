/** Logical partition keys as text, and the query for the items of a key.
 *
 * Promises: a value of a key stands in the query as a literal of its own, with all characters
 * escaped, so no value changes the query. */

/** Returns the values of a key in the form of `x-ms-documentdb-partitionkey` as short text. */
export function keyText(header: string): string {
  const values = valuesOf(header);
  if (values === null) return header;
  return values.map((value) => (typeof value === "string" ? value || '""' : literal(value))).join(" / ");
}

/** Returns a query for the items of a key; null if the key cannot be stated in a query. */
export function keyQuery(header: string, paths: readonly string[]): string | null {
  const values = valuesOf(header);
  if (values === null || values.length === 0 || values.length > paths.length) return null;
  const conditions: string[] = [];
  for (const [at, value] of values.entries()) {
    const member = memberOf(paths[at] ?? "");
    if (isUndefined(value)) conditions.push(`NOT IS_DEFINED(${member})`);
    else conditions.push(`${member} = ${literal(value)}`);
  }
  return `SELECT * FROM c\nWHERE ${conditions.join("\n  AND ")}`;
}

function valuesOf(header: string): readonly unknown[] | null {
  try {
    const values: unknown = JSON.parse(header);
    return Array.isArray(values) ? (values as unknown[]) : null;
  } catch {
    return null;
  }
}

/** A missing value is written as an empty object. */
function isUndefined(value: unknown): boolean {
  return value !== null && typeof value === "object" && Object.keys(value).length === 0;
}

function literal(value: unknown): string {
  return isUndefined(value) ? "(none)" : JSON.stringify(value);
}

/** Returns a path such as `/a/"b c"` as a member of `c`. */
function memberOf(path: string): string {
  let member = "c";
  for (const [, quoted, plain] of path.matchAll(/\/(?:"((?:[^"\\]|\\.)*)"|([^/]*))/g)) {
    member += `[${quoted === undefined ? JSON.stringify(plain ?? "") : `"${quoted}"`}]`;
  }
  return member.replace(/\["([A-Za-z_][A-Za-z0-9_]*)"\]/g, ".$1");
}
