/** Runs a query page by page, within the bounds that a person set.
 *
 * Promises: rows stay in the order of the pages; a stop by a person, a bound or an error keeps the
 * rows and the place, so that the next page can be loaded later; stopping aborts the request, which
 * cancels the page on the server; a run that is replaced changes nothing any more. */

import { ApiError, asApiError } from "../../api/client.ts";
import type { Json } from "../../api/data.ts";
import { queryPage } from "../../api/query.ts";
import { createStore, type Store } from "../../store.ts";
import {
  type ChargePart,
  type Explanation,
  type IndexUse,
  type Metrics,
  parseChargeParts,
  parseExplanation,
  parseIndexUse,
  parseMetrics,
} from "./answers.ts";
import type { KeyValue, QueryParameter } from "./copy/request.ts";
import { ColumnSet } from "./table.ts";

/** Rows that a run keeps at most; a browser needs memory for each. */
export const ROWS_MAX = 250_000;
/** Items of a page while everything is loaded. */
const ALL_PAGE_SIZE = 1_000;

export interface RunRequest {
  readonly database: string;
  readonly container: string;
  readonly query: string;
  readonly parameters: readonly QueryParameter[];
  readonly partitionKey: readonly KeyValue[] | null;
  readonly pageSize: number | null;
  /** Request units after which no further page is loaded; null without a bound. */
  readonly ruLimit: number | null;
  /** Milliseconds after which a page is cancelled; null without a bound. */
  readonly timeoutMs: number | null;
  /** Further request headers. */
  readonly headers: Readonly<Record<string, string>>;
}

/** What is known about one page. */
export interface PageFacts {
  readonly number: number;
  readonly rows: number;
  readonly bytes: number;
  readonly ru: number;
  /** Time as the browser saw it, and as the server measured it, in milliseconds. */
  readonly ms: number;
  readonly serverMs: number | null;
  readonly activityId: string | null;
  readonly metrics: Metrics | null;
  readonly explanation: Explanation | null;
  readonly parts: readonly ChargePart[];
  readonly indexes: readonly IndexUse[];
}

/** The reason why a run that is not finished loads no further page. */
export type Stop = "cancelled" | "page" | "rows" | "ru-limit" | "timeout";

export interface RunState {
  readonly request: RunRequest;
  readonly status: "done" | "failed" | "running" | "stopped";
  readonly rows: readonly Json[];
  readonly columns: ColumnSet;
  readonly pages: readonly PageFacts[];
  readonly continuation: string | null;
  readonly stop: Stop | null;
  readonly error: ApiError | null;
  readonly startedAt: number;
}

/** The state before the first run. */
export const NO_RUN: Store<RunState | null> = createStore<RunState | null>(null);

export interface RunTotals {
  readonly ru: number;
  readonly ms: number;
  readonly serverMs: number;
  readonly rows: number;
  readonly metrics: Metrics;
  readonly parts: readonly ChargePart[];
}

let runs = 0;

/** A query that is run once; its state is a store. */
export class QueryRun {
  readonly state: Store<RunState>;
  /** Tells this run from others. */
  readonly id = (runs += 1);
  private aborter: AbortController | null = null;
  private isTimeout = false;

  constructor(request: RunRequest) {
    this.state = createStore<RunState>({
      request,
      status: "running",
      rows: [],
      columns: new ColumnSet(),
      pages: [],
      continuation: null,
      stop: null,
      error: null,
      startedAt: Date.now(),
    });
  }

  /** Loads the next page, the first one included. */
  async loadPage(): Promise<void> {
    await this.load(1, this.state.get().request.pageSize);
  }

  /** Loads pages until the query ends or a bound is met. */
  async loadAll(): Promise<void> {
    const { pageSize } = this.state.get().request;
    await this.load(Infinity, Math.max(pageSize ?? ALL_PAGE_SIZE, ALL_PAGE_SIZE));
  }

  /** Aborts the request that is under way. The rows stay. */
  cancel(): void {
    this.aborter?.abort();
  }

  private async load(pages: number, pageSize: number | null): Promise<void> {
    if (this.aborter) return;
    this.aborter = new AbortController();
    this.change({ status: "running", stop: null, error: null });
    try {
      await this.loadPages(pages, pageSize, this.aborter.signal);
    } catch (error) {
      this.fail(error, this.aborter.signal);
    } finally {
      this.aborter = null;
    }
  }

  private async loadPages(pages: number, pageSize: number | null, signal: AbortSignal): Promise<void> {
    const budget = this.state.get().request.ruLimit;
    // A person who loads on after the bound allows the same amount again.
    const before = this.ru();
    for (let loaded = 0; loaded < pages; loaded += 1) {
      await this.onePage(pageSize, signal);
      const { continuation, rows } = this.state.get();
      if (continuation === null) return this.change({ status: "done" });
      if (rows.length >= ROWS_MAX) return this.change({ status: "stopped", stop: "rows" });
      const isSpent = budget !== null && this.ru() - before >= budget;
      if (isSpent) return this.change({ status: "stopped", stop: "ru-limit" });
    }
    this.change({ status: "stopped", stop: "page" });
  }

  private async onePage(pageSize: number | null, signal: AbortSignal): Promise<void> {
    const { request, continuation } = this.state.get();
    const timer = this.startTimer(request.timeoutMs);
    try {
      const parameters = request.parameters as readonly { name: string; value: Json }[];
      const page = await queryPage(request.database, request.container, request.query, parameters, {
        maxItemCount: pageSize ?? undefined,
        continuation,
        partitionKey: (request.partitionKey ?? undefined) as readonly Json[] | undefined,
        explain: true,
        indexMetrics: true,
        exactNumbers: true,
        headers: { ...request.headers, "x-orrery-explain-charge": "true" },
        signal,
      });
      const { rows, columns, pages } = this.state.get();
      columns.add(page.rows);
      const { headers } = page;
      const facts: PageFacts = {
        number: pages.length + 1,
        rows: page.rows.length,
        bytes: page.text.length,
        ru: page.charge,
        ms: page.ms,
        serverMs: page.serverMs,
        activityId: page.activityId,
        metrics: parseMetrics(headers.get("x-ms-documentdb-query-metrics")),
        explanation: parseExplanation(headers.get("x-orrery-explanation")),
        parts: parseChargeParts(headers.get("x-orrery-charge-parts")),
        indexes: parseIndexUse(headers.get("x-ms-cosmos-index-utilization")),
      };
      this.change({
        rows: rows.length === 0 ? page.rows : [...rows, ...page.rows],
        pages: [...pages, facts],
        continuation: page.continuation,
      });
    } finally {
      clearTimeout(timer);
    }
  }

  private startTimer(ms: number | null): ReturnType<typeof setTimeout> | undefined {
    this.isTimeout = false;
    if (ms === null) return undefined;
    return setTimeout(() => {
      this.isTimeout = true;
      this.cancel();
    }, ms);
  }

  private fail(error: unknown, signal: AbortSignal): void {
    if (signal.aborted) {
      this.change({ status: "stopped", stop: this.isTimeout ? "timeout" : "cancelled" });
    } else {
      this.change({ status: "failed", error: asApiError(error) });
    }
  }

  private ru(): number {
    return this.state.get().pages.reduce((sum, page) => sum + page.ru, 0);
  }

  private change(part: Partial<RunState>): void {
    this.state.set({ ...this.state.get(), ...part });
  }
}

/** Returns the sums over the pages of a run. */
export function totalsOf(pages: readonly PageFacts[]): RunTotals {
  let ru = 0;
  let ms = 0;
  let serverMs = 0;
  let rows = 0;
  for (const page of pages) {
    ru += page.ru;
    ms += page.ms;
    serverMs += page.serverMs ?? 0;
    rows += page.rows;
  }
  return { ru, ms, serverMs, rows, metrics: sumOfMetrics(pages), parts: sumOfParts(pages) };
}

function sumOfMetrics(pages: readonly PageFacts[]): Metrics {
  let retrievedCount = 0;
  let retrievedBytes = 0;
  let outputCount = 0;
  let outputBytes = 0;
  let totalMs = 0;
  const times = new Map<string, number>();
  for (const { metrics } of pages) {
    if (!metrics) continue;
    retrievedCount += metrics.retrievedCount;
    retrievedBytes += metrics.retrievedBytes;
    outputCount += metrics.outputCount;
    outputBytes += metrics.outputBytes;
    totalMs += metrics.totalMs;
    for (const [name, time] of metrics.times) times.set(name, (times.get(name) ?? 0) + time);
  }
  const ratio = retrievedCount === 0 ? 1 : Math.min(outputCount / retrievedCount, 1);
  return { retrievedCount, retrievedBytes, outputCount, outputBytes, indexHitRatio: ratio, totalMs, times };
}

function sumOfParts(pages: readonly PageFacts[]): ChargePart[] {
  const sums = new Map<string, ChargePart>();
  for (const { parts } of pages) {
    for (const part of parts) {
      const sum = sums.get(part.what) ?? { what: part.what, count: 0, ru: 0 };
      sums.set(part.what, { what: part.what, count: sum.count + part.count, ru: sum.ru + part.ru });
    }
  }
  return [...sums.values()].sort((a, b) => b.ru - a.ru);
}
