/** An estimate of the monthly cost of throughput.
 *
 * Promises: the price is a figure that the user sets; the start value is a usual list price for
 * one region. A text beside the figure calls the result an estimate.
 *
 * Leaves out: storage, regions, reservations, free tiers and taxes. */

/** Price of 100 RU/s for one hour, in the user's currency. */
export const PRICE_DEFAULT = 0.008;

/** Autoscale is charged at one and a half times the price of manual throughput. */
const AUTOSCALE_FACTOR = 1.5;

/** Hours of a month of 365 / 12 days. */
const HOURS_PER_MONTH = 730;

/** The lowest and highest cost of a month; equal for manual throughput. */
export interface MonthlyCost {
  low: number;
  high: number;
}

/** Returns the cost of a month. Autoscale runs between a tenth of its maximum and the maximum. */
export function monthlyCost(mode: "manual" | "autoscale", ru: number, price: number): MonthlyCost {
  const full = (ru / 100) * price * HOURS_PER_MONTH;
  if (mode === "manual") return { low: full, high: full };
  return { low: (full / 10) * AUTOSCALE_FACTOR, high: full * AUTOSCALE_FACTOR };
}

/** Returns the price that a user typed, or null for a text that is no price. */
export function typedPrice(text: string): number | null {
  const price = Number(text.trim().replace(",", "."));
  return text.trim() !== "" && Number.isFinite(price) && price >= 0 ? price : null;
}
