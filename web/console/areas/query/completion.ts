/** Proposes what may follow the cursor: aliases, properties of the sampled items, functions,
 * keywords, parameters.
 *
 * Promises: proposes nothing in strings and comments; a property whose name is no identifier, or is
 * a keyword, is inserted in brackets and quotes.
 * Leaves out: which proposal is grammatical. The server underlines mistakes. */

import type { Property } from "./sample.ts";
import { isBlank, type Token, tokenize } from "./tokens.ts";

export interface LanguageFunction {
  name: string;
  signature: string;
  help: string;
}

export interface Language {
  keywords: readonly string[];
  functions: readonly LanguageFunction[];
}

export interface CompletionInput {
  language: Language;
  properties: readonly Property[];
  parameters: readonly string[];
}

export interface Proposal {
  label: string;
  /** The text to insert, if it differs from the label. */
  insert: string;
  kind: "alias" | "function" | "keyword" | "parameter" | "property";
  detail: string;
  help: string;
}

export interface Proposals {
  /** Start of the text that a proposal replaces. */
  from: number;
  list: Proposal[];
}

/** Returns the proposals at a position of a query, or null if there are none. `asked` is true if the
 * person asked for them; otherwise an empty word has no proposals. */
export function propose(
  query: string,
  position: number,
  input: CompletionInput,
  asked: boolean,
): Proposals | null {
  const tokens = tokenize(query);
  const index = tokens.findIndex((token) => token.start < position && position <= token.end);
  const token = tokens[index];
  if (token && isClosed(token, position)) return null;

  if (token?.kind === "parameter" || token?.text === "@") {
    return { from: token.start, list: parameters(input) };
  }
  const word = token?.kind === "word" ? token : null;
  const before = tokens.slice(0, word ? index : index + 1);
  if (!token) before.length = 0;

  const last = before.at(-1);
  if (last?.text === ".") {
    const base = basePath(before.slice(0, -1), aliases(tokens));
    if (!base) return null;
    return { from: last.start, list: properties(base, input) };
  }
  if (!word && !asked) return null;
  const from = word ? word.start : position;
  return { from, list: names(tokens, input) };
}

/** Returns true inside a string, a comment or a number, where nothing is proposed. */
function isClosed(token: Token, position: number): boolean {
  if (token.kind === "number" || token.kind === "comment") return true;
  if (token.kind !== "string") return false;
  const isComplete = token.text.length > 1 && token.text.endsWith(token.text.charAt(0));
  return position < token.end || !isComplete;
}

function parameters(input: CompletionInput): Proposal[] {
  return input.parameters.map((name) => ({
    label: name,
    insert: name,
    kind: "parameter",
    detail: "parameter",
    help: "",
  }));
}

/** Returns the aliases of FROM and JOIN with the paths that the aliases stand for. */
export function aliases(tokens: readonly Token[]): Map<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  const solid = tokens.filter((token) => !isBlank(token));
  for (const [index, token] of solid.entries()) {
    const word = token.kind === "word" ? token.text.toUpperCase() : "";
    if (word !== "FROM" && word !== "JOIN") continue;
    const first = solid[index + 1];
    if (first?.kind !== "word") continue;
    const second = solid[index + 2]?.text.toUpperCase();
    if (second === "IN") {
      const source = readPath(solid, index + 3, found);
      if (source) found.set(first.text, [...source.path, "[]"]);
      continue;
    }
    const source = readPath(solid, index + 1, found) ?? { path: [], next: index + 2 };
    found.set(aliasAfter(solid, source.next) ?? first.text, source.path);
  }
  return found;
}

/** Returns the alias that follows the source of FROM, with or without AS. */
function aliasAfter(solid: readonly Token[], index: number): string | null {
  const token = solid[index];
  if (token?.kind !== "word") return null;
  if (token.text.toUpperCase() === "AS") return solid[index + 1]?.text ?? null;
  return isClauseWord(token.text) ? null : token.text;
}

function isClauseWord(text: string): boolean {
  return /^(where|order|group|join|offset|in|having|select)$/i.test(text);
}

/** Reads `alias.name["name"][0]` at an index of the tokens. The first word of a FROM names the
 * container whatever the word is. */
function readPath(
  solid: readonly Token[],
  index: number,
  known: ReadonlyMap<string, readonly string[]>,
): { path: string[]; next: number } | null {
  const first = solid[index];
  if (first?.kind !== "word") return null;
  const path: string[] = [...(known.get(first.text) ?? [])];
  let next = index + 1;
  for (;;) {
    const token = solid[next];
    const following = solid[next + 1];
    if (token?.text === "." && following?.kind === "word") {
      path.push(following.text);
      next += 2;
    } else if (token?.text === "[" && following && solid[next + 2]?.text === "]") {
      path.push(following.kind === "string" ? unquoted(following.text) : "[]");
      next += 3;
    } else {
      return { path, next };
    }
  }
}

function unquoted(text: string): string {
  return text.slice(1, -1).replace(/\\(.)/g, "$1");
}

/** Returns the path that ends at the last of these tokens, or null if the tokens end with no path. */
export function basePath(
  before: readonly Token[],
  known: ReadonlyMap<string, readonly string[]>,
): readonly string[] | null {
  const solid = before.filter((token) => !isBlank(token));
  let start = solid.length - 1;
  for (;;) {
    const token = solid[start];
    if (token?.text === "]") start -= 3;
    else if (token?.kind === "word" && solid[start - 1]?.text === ".") start -= 2;
    else break;
  }
  const first = solid[start];
  if (first?.kind !== "word" || !known.has(first.text)) return null;
  return readPath(solid, start, known)?.path ?? null;
}

function properties(base: readonly string[], input: CompletionInput): Proposal[] {
  const list: Proposal[] = [];
  for (const property of input.properties) {
    if (property.path.length !== base.length + 1) continue;
    if (!base.every((name, index) => property.path[index] === name)) continue;
    const name = property.path[base.length];
    if (name === undefined) continue;
    const share = Math.round(property.frequency * 100);
    list.push({
      label: name === "[]" ? "[0]" : name,
      insert: member(name, input.language),
      kind: "property",
      detail: `${property.types.join(" | ")} · ${share} %`,
      help: `In ${share} % of the sampled items.`,
    });
  }
  return list;
}

/** Returns the text that follows a path and names its member. */
export function member(name: string, language: Language): string {
  if (name === "[]") return "[0]";
  const isKeyword = language.keywords.includes(name.toUpperCase());
  if (/^[A-Za-z_]\w*$/.test(name) && !isKeyword) return `.${name}`;
  return `[${JSON.stringify(name)}]`;
}

function names(tokens: readonly Token[], input: CompletionInput): Proposal[] {
  const list: Proposal[] = [];
  for (const [alias, path] of aliases(tokens)) {
    const detail = path.length === 0 ? "item" : `/${path.join("/")}`;
    list.push({ label: alias, insert: alias, kind: "alias", detail, help: "" });
  }
  for (const found of input.language.functions) {
    list.push({
      label: found.name,
      insert: `${found.name}(`,
      kind: "function",
      detail: found.signature,
      help: found.help,
    });
  }
  for (const keyword of input.language.keywords) {
    list.push({ label: keyword, insert: keyword, kind: "keyword", detail: "", help: "" });
  }
  return list;
}
