/** Gives values to the placeholders of a query form and to parameters without a value, from the
 * sample of items.
 *
 * A query form has `?` in place of each string and number of the query that ran.
 * Promises: a `?` of the operator `a ? b : c` stays; a value comes from an item that has one at the
 * path that the placeholder is compared with, or else is a text or number that a person replaces. */

import { aliases, basePath } from "./completion.ts";
import type { Property } from "./sample.ts";
import { isBlank, type Token, tokenize } from "./tokens.ts";
import type { ParameterText } from "./workspace.ts";

export interface Filled {
  text: string;
  parameters: ParameterText[];
}

const ROWS = 10;
/** Words between a path and the value that the path is compared with. */
const COMPARING = /^(in|like|not|between|and)$/i;
/** Words after which a value can stand. */
const BEFORE_VALUE =
  /^(and|between|by|case|else|in|like|limit|not|offset|or|select|then|top|value|when|where)$/i;

/** Returns the query with parameters in place of placeholders. */
export function withoutPlaceholders(text: string, properties: readonly Property[]): Filled {
  const tokens = tokenize(text);
  const known = aliases(tokens);
  const taken = new Set(tokens.filter(({ kind }) => kind === "parameter").map((token) => token.text));
  const parameters: ParameterText[] = [];
  let result = "";
  for (const [at, token] of tokens.entries()) {
    const before = tokens.slice(0, at).filter((other) => !isBlank(other));
    if (token.text !== "?" || !isPlaceholder(before)) {
      result += token.text;
      continue;
    }
    let number = parameters.length + 1;
    while (taken.has(`@p${number}`)) number += 1;
    const name = `@p${number}`;
    taken.add(name);
    parameters.push({ name, text: valueFor(before, known, properties) });
    result += name;
  }
  const named = missingParameters(text, parameters, properties);
  return { text: result, parameters: [...parameters, ...named] };
}

/** Returns the parameters that a query names and that have no value, with values of the sample. */
export function missingParameters(
  text: string,
  parameters: readonly ParameterText[],
  properties: readonly Property[],
): ParameterText[] {
  const tokens = tokenize(text);
  const known = aliases(tokens);
  const missing: ParameterText[] = [];
  for (const [at, token] of tokens.entries()) {
    if (token.kind !== "parameter") continue;
    const isGiven = [...parameters, ...missing].some(({ name }) => name === token.text);
    if (isGiven) continue;
    const before = tokens.slice(0, at).filter((other) => !isBlank(other));
    missing.push({ name: token.text, text: valueFor(before, known, properties) });
  }
  return missing;
}

/** Returns true at the place of a value; elsewhere `?` is the operator. */
function isPlaceholder(before: readonly Token[]): boolean {
  const last = before.at(-1);
  if (!last) return false;
  if (last.kind === "word") return BEFORE_VALUE.test(last.text);
  return last.kind === "symbol" && ![")", "]", "?"].includes(last.text);
}

/** Returns the JSON of a value for the place behind these tokens. */
function valueFor(
  before: readonly Token[],
  known: ReadonlyMap<string, readonly string[]>,
  properties: readonly Property[],
): string {
  const last = before.at(-1)?.text ?? "";
  if (/^(top|limit)$/i.test(last)) return String(ROWS);
  if (/^offset$/i.test(last)) return "0";
  const path = comparedPath(before, known);
  const wanted = JSON.stringify(path);
  const property = properties.find((candidate) => JSON.stringify(candidate.path) === wanted);
  return JSON.stringify(property?.example ?? "");
}

/** Returns the path that the value behind these tokens is compared with. */
function comparedPath(
  before: readonly Token[],
  known: ReadonlyMap<string, readonly string[]>,
): readonly string[] | null {
  let end = before.length;
  for (; end > 0; end -= 1) {
    const token = before[end - 1];
    if (!token) return null;
    const isComparing = token.kind === "word" && COMPARING.test(token.text);
    const isSymbol = token.kind === "symbol" && token.text !== "]" && token.text !== ".";
    const isValue = ["string", "number", "parameter"].includes(token.kind);
    if (!isComparing && !isSymbol && !isValue) break;
  }
  return basePath(before.slice(0, end), known);
}
