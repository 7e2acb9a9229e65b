/** Finds the queries in an editor that holds several, separated by semicolons.
 *
 * Promises: a semicolon in a string or a comment separates nothing; a statement has its own comments
 * but no blank lines around it; a text without semicolons is one statement. */

import { isBlank, tokenize } from "./tokens.ts";

export interface Statement {
  /** Position of the first character that is not blank. */
  start: number;
  /** Position after the last character, without the semicolon. */
  end: number;
  text: string;
}

/** Returns the statements of a text that are more than comments, in order. */
export function statements(text: string): Statement[] {
  const found: Statement[] = [];
  let from = 0;
  let hasContent = false;
  const close = (end: number): void => {
    if (hasContent) found.push(trimmed(text, from, end));
    hasContent = false;
  };
  for (const token of tokenize(text)) {
    if (token.kind === "symbol" && token.text === ";") {
      close(token.start);
      from = token.end;
    } else if (!isBlank(token)) {
      hasContent = true;
    }
  }
  close(text.length);
  return found;
}

function trimmed(text: string, from: number, to: number): Statement {
  const part = text.slice(from, to);
  const start = from + (part.length - part.trimStart().length);
  const end = from + part.trimEnd().length;
  return { start, end, text: text.slice(start, end) };
}

/** Returns the statement at a position: the one that contains or precedes the position, or else the
 * first one. */
export function statementAt(text: string, position: number): Statement | null {
  const all = statements(text);
  let chosen: Statement | null = null;
  for (const statement of all) {
    if (statement.start <= position || chosen === null) chosen = statement;
  }
  return chosen;
}

/** Returns the text that a run sends: the selection, or else the statement at the cursor. */
export function textToRun(text: string, from: number, to: number): Statement | null {
  if (from === to) return statementAt(text, from);
  const selected = statements(text.slice(from, to))[0];
  if (!selected) return null;
  return { start: selected.start + from, end: selected.end + from, text: selected.text };
}
