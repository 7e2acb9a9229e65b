/** Reads items page by page and writes them to a file.
 *
 * Promises: numbers keep their text; a throttled page is asked for again after the time that the
 * server names; the memory of one page is needed. The columns of CSV are those of the first page;
 * members that come later are in the column `(other)`.
 * Leaves out: the page (`download-dialog.tsx`), the file (`file-sink.ts`). */

import { ApiError } from "../../../api/client.ts";
import { queryPage, type QueryPage } from "../../../api/query.ts";
import { columnsOf, csvLine, itemLine } from "../logic/csv.ts";
import { feedTexts, itemParts, membersOf, objectText, type Member } from "../logic/json-text.ts";
import { pause } from "../logic/paced.ts";
import { itemsQuery } from "../logic/predicates.ts";
import type { FileSink } from "./file-sink.ts";

export type FileFormat = "json" | "jsonl" | "csv";

export interface DownloadOptions {
  readonly database: string;
  readonly container: string;
  readonly filter: string;
  readonly format: FileFormat;
  readonly hasSystem: boolean;
  /** Names that become the first columns of CSV. */
  readonly firstColumns: readonly string[];
  readonly signal: AbortSignal;
  readonly onProgress: (progress: DownloadProgress) => void;
}

export interface DownloadProgress {
  readonly items: number;
  readonly characters: number;
  readonly charge: number;
  readonly throttled: number;
  readonly elapsedMs: number;
}

const ITEMS_PER_PAGE = 1_000;

/** Writes the items of one page after the other in one format. */
class Writer {
  private columns: string[] | null = null;
  private isFirst = true;

  constructor(private readonly options: DownloadOptions) {}

  /** Returns the text of a page. */
  page(texts: readonly string[]): string {
    const found: Member[][] = [];
    for (const text of texts) {
      found.push(this.options.hasSystem ? membersOf(text) : itemParts(text).own);
    }
    if (this.options.format === "csv") return this.csv(found);
    const pieces: string[] = [];
    for (const members of found) {
      if (this.options.format === "jsonl") {
        pieces.push(objectText(members), "\n");
        continue;
      }
      pieces.push(this.isFirst ? "[\n" : ",\n", objectText(members));
      this.isFirst = false;
    }
    return pieces.join("");
  }

  /** Returns the text after the last page. */
  end(): string {
    if (this.options.format === "json") return this.isFirst ? "[]\n" : "\n]\n";
    if (this.options.format === "csv" && this.columns === null) return this.csv([]);
    return "";
  }

  private csv(found: Member[][]): string {
    const pieces: string[] = [];
    if (this.columns === null) {
      this.columns = columnsOf(found, [...this.options.firstColumns]);
      pieces.push(csvLine(this.columns));
    }
    for (const members of found) pieces.push(itemLine(members, this.columns));
    return pieces.join("");
  }
}

/** Downloads into a file. Returns false if the download was stopped. */
export async function download(options: DownloadOptions, sink: FileSink): Promise<boolean> {
  const { signal } = options;
  const started = performance.now();
  const writer = new Writer(options);
  const progress = { items: 0, characters: 0, charge: 0, throttled: 0 };
  let position: string | null = null;
  do {
    const page: QueryPage | null = await pageOf(options, position, () => {
      progress.throttled += 1;
    });
    if (page === null || signal.aborted) return false;
    const texts = feedTexts(page.text, "Documents");
    const text = writer.page(texts);
    if (text !== "") await sink.write(text);
    progress.items += texts.length;
    progress.characters += text.length;
    progress.charge += page.charge;
    options.onProgress({ ...progress, elapsedMs: performance.now() - started });
    position = page.continuation;
  } while (position !== null);
  await sink.write(writer.end());
  return true;
}

/** Reads a page; waits and reads again while the server answers 429. Null after a stop. */
async function pageOf(
  options: DownloadOptions,
  continuation: string | null,
  onThrottled: () => void,
): Promise<QueryPage | null> {
  const { database, container, filter, signal } = options;
  while (!signal.aborted) {
    try {
      return await queryPage(database, container, itemsQuery(filter), [], {
        maxItemCount: ITEMS_PER_PAGE,
        continuation,
        signal,
      });
    } catch (error) {
      if (signal.aborted) return null;
      if (!(error instanceof ApiError) || error.status !== 429) throw error;
      onThrottled();
      await pause(error.retryAfterMs ?? 1_000, signal);
    }
  }
  return null;
}
