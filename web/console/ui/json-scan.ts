/** JSON as text, place by place: strings, brackets, and where a text stops being JSON.
 *
 * Promises: no function recurses or tries a regular expression on a whole string, so values of any
 * length and depth are read. Leaves out: the values themselves (`JSON.parse` has them). */

const QUOTE = 34;
const BACKSLASH = 92;

/** Returns the position after the string that starts at `start`, or -1 if the string has no end. */
export function endOfString(text: string, start: number): number {
  let at = start + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return -1;
    let slashes = 0;
    while (text.charCodeAt(quote - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

/** Returns true for blank, tab and the two line breaks of JSON. */
export function isBlank(code: number): boolean {
  return code === 32 || code === 9 || code === 10 || code === 13;
}

/** Returns the position of the first character at or after `at` that is not blank. */
export function skipBlanks(text: string, at: number): number {
  let next = at;
  while (isBlank(text.charCodeAt(next))) next += 1;
  return next;
}

const WORD = /[^\s,:{}[\]"]+/y;
const LITERAL = /^(?:true|false|null)$/;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Returns what a word outside of strings is. */
export function kindOfWord(word: string): "atom" | "number" | "invalid" {
  if (LITERAL.test(word)) return "atom";
  return NUMBER.test(word) ? "number" : "invalid";
}

/** Calls `visit` with 1 or -1 for each bracket of a line outside of strings, until it returns true. */
function eachBracket(line: string, visit: (change: 1 | -1, at: number) => boolean): boolean {
  for (let at = 0; at < line.length; at += 1) {
    const code = line.charCodeAt(at);
    if (code === QUOTE) {
      const end = endOfString(line, at);
      if (end < 0) return false;
      at = end - 1;
    } else if (code === 123 || code === 91) {
      if (visit(1, at)) return true;
    } else if ((code === 125 || code === 93) && visit(-1, at)) {
      return true;
    }
  }
  return false;
}

/** Returns the positions of the brackets that a line opens and does not close. */
export function openedIn(line: string): number[] {
  const opened: number[] = [];
  eachBracket(line, (change, at) => {
    if (change === 1) opened.push(at);
    else opened.pop();
    return false;
  });
  return opened;
}

/** A place behind an opening bracket: the line, counted from 0, and the column of its closing one. */
export interface Closing {
  readonly line: number;
  readonly column: number;
}

/** Returns where `depth` open brackets are closed in these lines; null if not in `characters`. */
export function closingIn(lines: Iterable<string>, depth: number, characters: number): Closing | null {
  let left = characters;
  let open = depth;
  let number = 0;
  for (const line of lines) {
    left -= line.length + 1;
    if (left < 0) return null;
    let column = 0;
    const isClosed = eachBracket(line, (change, at) => {
      open += change;
      column = at;
      return open === 0;
    });
    if (isClosed) return { line: number, column };
    number += 1;
  }
  return null;
}

/** Returns how many levels the line `next` is deeper than the line above: -1, 0 or 1. */
export function levelsAfter(above: string, next: string): number {
  const opens = openedIn(above).length > 0 ? 1 : 0;
  return opens - (/^\s*[}\]]/.test(next) ? 1 : 0);
}

/** A place at which a text stops being JSON, and what belongs there. */
export interface Fault {
  readonly from: number;
  readonly to: number;
  readonly message: string;
}

/** What may come next, in words. `element` and `member` are the first ones after a bracket. */
const WANTED = {
  value: "a value",
  element: "a value or ]",
  name: "the name of a property in quotation marks",
  member: "the name of a property in quotation marks or }",
  colon: "a colon",
  next: "a comma or the closing bracket",
};

/** Returns the first place at which a text is not JSON; null for a valid text. */
export function faultOf(text: string): Fault | null {
  const open: ("{" | "[")[] = [];
  let wants = "value" as keyof typeof WANTED;
  let at = skipBlanks(text, 0);
  for (; at < text.length; at = skipBlanks(text, at)) {
    const sign = text[at] as string;
    const top = open.at(-1);
    if (sign === '"' && wants !== "colon" && wants !== "next") {
      const end = endOfString(text, at);
      const bad = faultOfString(text, at, end);
      if (bad !== null) return bad;
      at = end;
      wants = wants === "name" || wants === "member" ? "colon" : "next";
      continue;
    }
    const isClosing = (sign === "}" && top === "{") || (sign === "]" && top === "[");
    if (isClosing && (wants === "next" || wants === "element" || wants === "member")) {
      open.pop();
      wants = "next";
    } else if (wants === "next" && sign === "," && top !== undefined) {
      wants = top === "{" ? "name" : "value";
    } else if (wants === "colon" && sign === ":") {
      wants = "value";
    } else if (wants !== "value" && wants !== "element") {
      break;
    } else if (sign === "{" || sign === "[") {
      open.push(sign);
      wants = sign === "{" ? "member" : "element";
    } else {
      const word = wordAt(text, at);
      if (kindOfWord(word) === "invalid") break;
      at += word.length - 1;
      wants = "next";
    }
    at += 1;
  }
  const isOver = at >= text.length;
  if (isOver && wants === "next" && open.length === 0) return null;
  const wanted = wants === "next" && open.length === 0 ? "the end of the text" : WANTED[wants];
  const end = text[at] === '"' ? endOfString(text, at) : at + wordAt(text, at).length;
  const to = isOver ? at : Math.max(at + 1, end);
  return { from: at, to, message: `${isOver ? "The text ends here. " : ""}JSON needs ${wanted} here.` };
}

function wordAt(text: string, at: number): string {
  WORD.lastIndex = at;
  return WORD.exec(text)?.[0] ?? "";
}

function faultOfString(text: string, start: number, end: number): Fault | null {
  // A string without an end takes the rest of its line.
  const line = text.indexOf("\n", start);
  if (end < 0 || (line >= 0 && line < end)) {
    return { from: start, to: line < 0 ? text.length : line, message: "The string has no end." };
  }
  // A pair of a backslash and its character is one match.
  for (const { 0: part, index } of text.slice(start, end).matchAll(/[\0-\x1f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4})?/g)) {
    if (part.length > 1) continue;
    const from = start + index;
    const message = part === "\\" ? "JSON has no such escape." : "A control character needs an escape.";
    return { from, to: from + part.length, message };
  }
  return null;
}
