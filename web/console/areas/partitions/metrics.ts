/** The quantities of the heat map: names and figures. */

import { bytes, count, ruNumber } from "../../ui/format.ts";
import type { Metric } from "./api.ts";

export const METRICS: readonly { readonly id: Metric; readonly label: string }[] = [
  { id: "ru", label: "Request units" },
  { id: "requests", label: "Requests" },
  { id: "throttled", label: "Refused with 429" },
  { id: "bytes", label: "Bytes written" },
];

/** Returns a load per second with its unit. */
export function rate(value: number, metric: Metric): string {
  if (metric === "ru") return `${ruNumber(value)} RU/s`;
  if (metric === "bytes") return `${bytes(value)}/s`;
  const figure = value < 10 ? value.toLocaleString("en", { maximumFractionDigits: 1 }) : count(value);
  return metric === "requests" ? `${figure} requests/s` : `${figure} refused/s`;
}

/** Returns a sum with its unit. */
export function amount(value: number, metric: Metric): string {
  if (metric === "ru") return `${ruNumber(value)} RU`;
  if (metric === "bytes") return bytes(value);
  return count(value);
}
