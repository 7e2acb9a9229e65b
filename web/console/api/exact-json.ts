/** JSON whose numbers stay as they are written.
 *
 * Promises: a number that JavaScript would write with other characters is read as an `ExactNumber` and
 * written with its own characters; every other value is what `JSON.parse` returns, and a text without
 * such a number costs one search more.
 *
 * `JSON.stringify` writes the nearest number of JavaScript for an `ExactNumber`. */

import { endOfString } from "../ui/json-scan.ts";

/** Finds a place that may be such a number: a negative zero, 16 characters, a small fraction, an
 * exponent, or a zero at the end of a fraction. Places in strings are found too. */
const MAYBE = /(?:^|[[:,\s])(?:-0(?![.\d])|-?(?:[\d.]{16}|0\.0{6}|[\d.]+[eE]|\d+\.\d*0(?=[\],}\s]|$)))/;
const QUOTE_OR_NUMBER = /"|-?\d[\d.eE+-]*/g;
/** Stands before such a number in a string while a text is read or written. No text can know it. */
const MARK = `exact${Math.random()}:`;

let written = 0;
let isWriting = false;

/** A number as its text. */
export class ExactNumber {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }

  toJSON(): unknown {
    if (!isWriting) return Number(this.text);
    written += 1;
    return MARK + this.text;
  }
}

/** Returns true for a number of either kind. */
export function isNumber(value: unknown): value is number | ExactNumber {
  return typeof value === "number" || value instanceof ExactNumber;
}

/** Reads JSON; throws `SyntaxError` like `JSON.parse`. */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!MAYBE.test(text)) return value;
  const marked = withMarks(text);
  if (marked === null) return value;
  return JSON.parse(marked, (_, member: unknown) =>
    typeof member === "string" && member.startsWith(MARK) ? new ExactNumber(member.slice(MARK.length)) : member,
  );
}

/** Returns valid JSON with each such number as a marked string; null if there is none. */
function withMarks(text: string): string | null {
  const pieces: string[] = [];
  let copied = 0;
  QUOTE_OR_NUMBER.lastIndex = 0;
  for (let found = QUOTE_OR_NUMBER.exec(text); found; found = QUOTE_OR_NUMBER.exec(text)) {
    const [token] = found;
    if (token === '"') {
      QUOTE_OR_NUMBER.lastIndex = endOfString(text, found.index);
    } else if (String(Number(token)) !== token) {
      pieces.push(text.slice(copied, found.index), `"${MARK}${token}"`);
      copied = found.index + token.length;
    }
  }
  return copied === 0 ? null : pieces.join("") + text.slice(copied);
}

/** Writes a value as `JSON.stringify` does, with exact numbers. */
export function jsonText(value: unknown, indent?: number): string {
  written = 0;
  isWriting = true;
  try {
    const text = JSON.stringify(value, null, indent);
    return written === 0 ? text : text.replace(new RegExp(`"${MARK}([^"]*)"`, "g"), "$1");
  } finally {
    isWriting = false;
  }
}

/** Compares two numbers of either kind by all their digits. */
export function compareNumbers(a: number | ExactNumber, b: number | ExactNumber): number {
  const byValue = Number(a) - Number(b);
  // Two numbers beyond the largest of JavaScript have no difference.
  if (byValue || (typeof a === "number" && typeof b === "number")) return byValue;
  const [x, y] = [digitsOf(a), digitsOf(b)];
  if (x.sign !== y.sign) return x.sign - y.sign;
  const length = Math.max(x.digits.length, y.digits.length);
  const [left, right] = [x.digits.padEnd(length, "0"), y.digits.padEnd(length, "0")];
  return x.sign * (x.point - y.point || Number(left > right) - Number(left < right));
}

/** Returns the digits from the first that is not zero, and how many of them stand before the point. */
function digitsOf(number: number | ExactNumber): { sign: number; digits: string; point: number } {
  const [, minus, whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)\.?(\d*)(?:[eE](.+))?$/.exec(String(number)) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  const point = Number(exponent) + digits.length - fraction.length;
  return { sign: digits === "" ? 0 : minus ? -1 : 1, digits, point };
}
