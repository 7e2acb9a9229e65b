/** Translates the server's errors of a query into marks in the editor.
 *
 * Promises: positions, which the server counts in characters, become positions of the editor, which
 * counts UTF-16 units; an error without a place marks the whole query; no position lies outside the
 * query. */

export interface Mark {
  from: number;
  to: number;
  code: string;
  message: string;
}

interface ServerError {
  severity?: string;
  location?: { start?: number; end?: number };
  code?: string | number;
  message?: string;
}

/** Returns the errors that the message of a 400 answer lists; empty if the message has another form. */
export function errorsOfMessage(message: string): ServerError[] {
  const start = message.indexOf("{");
  if (start < 0) return [];
  const end = message.lastIndexOf("}");
  let document: unknown;
  try {
    document = JSON.parse(message.slice(start, end + 1));
  } catch {
    return [];
  }
  if (typeof document !== "object" || document === null) return [];
  if ("errors" in document && Array.isArray(document.errors)) {
    return document.errors.filter(isServerError);
  }
  if ("Errors" in document && Array.isArray(document.Errors)) {
    return document.Errors.filter((text) => typeof text === "string").map((text: string) => ({
      message: text,
    }));
  }
  return [];
}

function isServerError(value: unknown): value is ServerError {
  return typeof value === "object" && value !== null;
}

/** Returns the message of an error as a person reads it, without the protocol's wrapping. */
export function plainMessage(message: string): string {
  const errors = errorsOfMessage(message);
  const texts: string[] = [];
  for (const error of errors) {
    if (error.message) texts.push(error.message);
  }
  if (texts.length > 0) return texts.join(" ");
  return message
    .replace(/^Message: /, "")
    .replace(/\r?\n?ActivityId: [\s\S]*$/, "")
    .trim();
}

/** Returns the marks of an error message. `query` is the text that was sent and `offset` its position
 * in the editor. */
export function marksOfError(message: string, query: string, offset: number): Mark[] {
  const marks: Mark[] = [];
  for (const error of errorsOfMessage(message)) {
    const code = error.code === undefined ? "" : String(error.code);
    const text = error.message ?? "The server refused the query.";
    const range = placeOf(error, query);
    marks.push({ from: range[0] + offset, to: range[1] + offset, code, message: text });
  }
  return marks;
}

/** Returns the range of an error in UTF-16 units. An empty range at the end grows to the last word,
 * so that a reader sees the mark. */
function placeOf(error: ServerError, query: string): [number, number] {
  const start = error.location?.start;
  const end = error.location?.end;
  if (start === undefined || end === undefined) return [0, query.length];
  const from = unitsOf(query, start);
  const to = unitsOf(query, end);
  if (to > from) return [from, to];
  const before = query.slice(0, from).trimEnd();
  const word = /(?:\w+|.)$/su.exec(before);
  return [word ? word.index : 0, Math.max(from, before.length)];
}

/** Returns the UTF-16 position of a position in characters. */
function unitsOf(text: string, characters: number): number {
  let units = 0;
  let left = characters;
  for (const character of text) {
    if (left <= 0) break;
    units += character.length;
    left -= 1;
  }
  return units;
}
