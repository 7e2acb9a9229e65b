/** Figures as a person reads them: request units, bytes, durations, counts, times. */

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** Returns a charge with its unit: two decimals below 100, one below 1,000, none above. */
export function ru(value: number): string {
  return `${ruNumber(value)} RU`;
}

/** Returns a charge without its unit, for columns whose heading has the unit. */
export function ruNumber(value: number): string {
  const digits = Math.abs(value) < 100 ? 2 : Math.abs(value) < 1_000 ? 1 : 0;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Returns a number with separators of thousands. */
export function count(value: number): string {
  return COUNT.format(value);
}

/** Returns a number in the space of six characters. */
export function compact(value: number): string {
  return COMPACT.format(value);
}

/** Returns a size in binary units. */
export function bytes(value: number): string {
  let amount = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(amount) < 1_024) return `${digits(amount, unit === "B")} ${unit}`;
    amount /= 1_024;
  }
  return `${digits(amount, false)} TiB`;
}

function digits(amount: number, whole: boolean): string {
  const fraction = whole || Math.abs(amount) >= 100 ? 0 : 1;
  return amount.toLocaleString("en", { maximumFractionDigits: fraction });
}

/** Returns a duration in the largest unit that keeps two digits. */
export function duration(ms: number): string {
  if (ms < 0.0995) return `${Math.round(ms * 1_000)} µs`;
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 9_950) return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 99_500) return `${Math.round(ms / 1_000)} s`;
  if (ms < 5_970_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} days`;
}

/** Returns a share as per cent. */
export function percent(share: number): string {
  return `${(share * 100).toLocaleString("en", { maximumFractionDigits: share < 0.1 ? 1 : 0 })} %`;
}

/** Returns how long ago a moment was. */
export function ago(moment: Date, now = new Date()): string {
  const seconds = Math.round((moment.getTime() - now.getTime()) / 1_000);
  const units: [Intl.RelativeTimeFormatUnit, number][] = [
    ["day", 86_400],
    ["hour", 3_600],
    ["minute", 60],
  ];
  for (const [unit, length] of units) {
    if (Math.abs(seconds) >= length) return RELATIVE.format(Math.trunc(seconds / length), unit);
  }
  return RELATIVE.format(seconds, "second");
}

/** Returns a moment in full, with the zone. */
export function moment(at: Date): string {
  return MOMENT.format(at);
}

/** Returns the time of day in the local zone. */
export function clock(at: Date): string {
  return at.toLocaleTimeString("en-GB");
}

/** Returns `1 item`, `2 items`. */
export function plural(amount: number, one: string, many = `${one}s`): string {
  return `${count(amount)} ${amount === 1 ? one : many}`;
}
