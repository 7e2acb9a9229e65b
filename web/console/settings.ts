/** What a person chose for all pages; kept in this browser. */

import { createKeptStore } from "./store.ts";

export interface Settings {
  /** Items and rows on a page. */
  readonly pageSize: number;
  /** A query stops, and asks before it goes on, once its pages cost this many request units; 0 is no bound. */
  readonly queryRuLimit: number;
}

export const DEFAULT_SETTINGS: Settings = { pageSize: 100, queryRuLimit: 5_000 };
export const PAGE_SIZES = [25, 50, 100, 500, 1_000] as const;

export const settings = createKeptStore<Settings>("settings", DEFAULT_SETTINGS, isSettings);

function isSettings(value: unknown): value is Settings {
  if (value === null || typeof value !== "object") return false;
  const { pageSize, queryRuLimit } = value as Partial<Settings>;
  return isCount(pageSize) && pageSize > 0 && isCount(queryRuLimit);
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
