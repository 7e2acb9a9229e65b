/** Lays a query out: a clause per line, conditions of WHERE below each other.
 *
 * Promises: only spaces and ends of lines change, and the case of keywords; strings, comments and
 * names stay, so the query means the same; formatting twice changes nothing more. */

import { type Token, tokenize } from "./tokens.ts";

/** Words that begin a line at the outermost level of a query. */
const CLAUSES = new Set(["SELECT", "FROM", "WHERE", "GROUP", "ORDER", "OFFSET", "JOIN", "HAVING"]);
/** Words that begin an indented line below WHERE. */
const CONNECTIVES = new Set(["AND", "OR"]);
/** Symbols without a space before them. */
const TIGHT_BEFORE = new Set([",", ")", "]", ".", ";", ":", "}"]);
/** Symbols without a space after them. */
const TIGHT_AFTER = new Set(["(", "[", ".", "{"]);

/** Returns the query with a clause per line. `keywords` are the words to write in capitals. */
export function formatSql(text: string, keywords: ReadonlySet<string>): string {
  const tokens = tokenize(text).filter((t) => t.kind !== "space" && t.kind !== "newline");
  const out = new Writer();
  let depth = 0;
  let isBetween = false;
  let before: Token | null = null;
  for (const token of tokens) {
    const isMember: boolean = before?.text === ".";
    const word = token.kind === "word" && !isMember ? token.text.toUpperCase() : "";
    const isKeyword = keywords.has(word);
    const shown = isKeyword ? word : token.text;
    if (token.text === ")" || token.text === "]" || token.text === "}") depth -= 1;

    if (word === "BETWEEN") isBetween = true;
    const joinsRange = word === "AND" && isBetween;
    if (joinsRange) isBetween = false;

    if (isKeyword && depth === 0 && CLAUSES.has(word)) {
      out.line("");
    } else if (isKeyword && depth === 0 && CONNECTIVES.has(word) && !joinsRange) {
      out.line("  ");
    } else if (!isTight(before, token, keywords)) {
      out.space();
    }
    out.write(shown);
    if (token.kind === "comment" && token.text.startsWith("--")) out.line("");
    if (token.text === ";") out.line("");

    if (token.text === "(" || token.text === "[" || token.text === "{") depth += 1;
    before = token;
  }
  return out.text();
}

function isTight(before: Token | null, token: Token, keywords: ReadonlySet<string>): boolean {
  if (before === null) return true;
  if (before.kind === "symbol" && TIGHT_AFTER.has(before.text)) return true;
  if (token.kind !== "symbol") return false;
  if (TIGHT_BEFORE.has(token.text)) return true;
  // A call or an index, but not `IN (`.
  const isOpening = token.text === "(" || token.text === "[";
  const isName = before.kind === "word" && !keywords.has(before.text.toUpperCase());
  const isEnd = before.text === "]" || before.text === ")";
  return isOpening && (isName || (isEnd && token.text === "["));
}

/** Collects lines; a space or an end of line is written only before the next text. */
class Writer {
  private readonly lines: string[] = [];
  private current = "";

  line(indent: string): void {
    if (this.current.trim() !== "") this.lines.push(this.current.trimEnd());
    this.current = indent;
  }

  space(): void {
    if (this.current.trim() !== "" && !this.current.endsWith(" ")) this.current += " ";
  }

  write(text: string): void {
    this.current += text;
  }

  text(): string {
    this.line("");
    return this.lines.join("\n");
  }
}
