/** Arithmetic on effective partition keys, for drawing: an EPK as a fraction of the hash space.
 *
 * An EPK is text in hexadecimal digits. "" is the start of the hash space and "FF" its end.
 * Version 2 and hierarchical keys begin with a hash of 126 bits; version 1 keys begin with a marker
 * and a double in order-preserving form, which holds a hash of 32 bits.
 *
 * Promises: fractions grow with the EPK and agree with the parts of the heat map, so part `i` of
 * 256 is the range from `i / 256` to `(i + 1) / 256`.
 * Leaves out: hashing of partition keys; only the server does it. */

export type Hashing = "v1" | "v2";

/** An EPK range: `min` belongs to it, `max` does not. */
export interface EpkRange {
  min: string;
  max: string;
}

/** A range of the hash space in fractions from 0 to 1. */
export interface Span {
  start: number;
  end: number;
}

export const WHOLE: Span = { start: 0, end: 1 };

const V1_MARKER = "05C1";
const V2_BITS = 126n;
const V2_DIGITS = 32;
const V1_HASHES = 2 ** 32;
/** Bits of the fraction that a double can hold. */
const EXACT_BITS = 52n;

/** Returns the hashing of a container from the starts of the parts of its heat map. */
export function hashingOf(bucketStarts: readonly string[]): Hashing {
  const second = bucketStarts[1];
  return second !== undefined && second.startsWith(V1_MARKER) ? "v1" : "v2";
}

/** Returns the position of an EPK in the hash space, from 0 to 1. */
export function fractionOf(epk: string, hashing: Hashing): number {
  if (epk === "") return 0;
  const digits = epk.toUpperCase();
  if (digits.startsWith("FF")) return 1;
  return hashing === "v1" ? v1Fraction(digits) : v2Fraction(digits);
}

/** Returns the range of the hash space that an EPK range covers. */
export function spanOf(range: EpkRange, hashing: Hashing): Span {
  return { start: fractionOf(range.min, hashing), end: fractionOf(range.max, hashing) };
}

/** Returns the index of the heat map's part that holds an EPK. */
export function partOf(epk: string, hashing: Hashing, parts: number): number {
  return Math.min(parts - 1, Math.floor(fractionOf(epk, hashing) * parts));
}

/** Returns the EPK in the middle of a range; null for version 1, whose middle the server computes. */
export function middleOf(range: EpkRange, hashing: Hashing): string | null {
  if (hashing === "v1") return null;
  const whole = 1n << V2_BITS;
  const low = range.min === "" ? 0n : hashBits(range.min);
  const high = range.max === "FF" ? whole : hashBits(range.max);
  return ((low + high) / 2n).toString(16).toUpperCase().padStart(V2_DIGITS, "0");
}

/** Returns true if an EPK lies in the range. */
export function contains(range: EpkRange, epk: string): boolean {
  return range.min <= epk && (range.max === "FF" || epk < range.max);
}

/** Shortens an EPK to the digits that tell neighbours apart, for labels. */
export function shortEpk(epk: string): string {
  if (epk === "") return "00";
  if (epk === "FF") return "FF";
  const start = epk.startsWith(V1_MARKER) ? 4 : 0;
  const digits = epk.slice(start).replace(/0+$/, "");
  if (digits.length === 0) return "00";
  const shown = digits.slice(0, 4);
  return shown.length % 2 === 1 ? `${shown}0` : shown;
}

/** Names a range for labels and screen readers. */
export function rangeText(range: EpkRange): string {
  return `${shortEpk(range.min)}–${shortEpk(range.max)}`;
}

function v2Fraction(digits: string): number {
  const fraction = Number(hashBits(digits) >> (V2_BITS - EXACT_BITS)) / 2 ** Number(EXACT_BITS);
  return Math.min(1, fraction);
}

function hashBits(digits: string): bigint {
  return BigInt(`0x${digits.slice(0, V2_DIGITS).padEnd(V2_DIGITS, "0")}`);
}

/** Reads the double after the marker: eight bits, then seven bits in each byte; the lowest bit of
 * such a byte is 1 if another byte follows. */
function v1Fraction(digits: string): number {
  if (!digits.startsWith("05")) return 0;
  let payload = BigInt(`0x${digits.slice(2, 4).padEnd(2, "0")}`) << 56n;
  let shift = 49n;
  for (let at = 4; at + 2 <= digits.length && shift >= 0n; at += 2) {
    const byte = Number.parseInt(digits.slice(at, at + 2), 16);
    payload |= BigInt(byte >> 1) << shift;
    if ((byte & 1) === 0) break;
    shift -= 7n;
  }
  const positive = payload ^ (1n << 63n);
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, positive);
  const hash = view.getFloat64(0);
  // A boundary of version 1 is the last hash before it, as the server divides the hash space.
  return hash <= 0 ? 0 : Math.min(1, (hash + 1) / V1_HASHES);
}
