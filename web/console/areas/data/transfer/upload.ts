/** Reads files piece by piece and writes their items, as fast as the server accepts.
 *
 * Promises: a file of any size needs the memory of some pieces; every item is either stored,
 * refused with its reason, or, after a stop, counted as uncertain. Throttled requests are repeated.
 * Leaves out: the page (`upload-dialog.tsx`), pace and readers (`../logic`). */

import { items } from "../../../api/data.ts";
import { CsvItemReader, separatorOf } from "../logic/csv.ts";
import { readerFor, type ItemReader, type ReadItem } from "../logic/json-stream.ts";
import { membersOf, objectText, SYSTEM_PROPERTIES, type Member } from "../logic/json-text.ts";
import { Pace, type Attempt, type PaceFigures } from "../logic/paced.ts";
import { keyOf, type KeyComponent, type KeyDefinition } from "../logic/partition-key.ts";
import { attemptOf } from "./attempt.ts";

/** Where and how items are written. */
export interface UploadTarget {
  readonly database: string;
  readonly container: string;
  readonly definition: KeyDefinition;
  readonly isUpsert: boolean;
  /** Items without an id get a random one. */
  readonly addsIds: boolean;
}

/** An item that was not stored, and why. */
export interface Refusal {
  readonly file: string;
  readonly line: number;
  readonly reason: string;
  readonly text: string;
}

/** Figures while an upload runs and after its end. */
export interface UploadState {
  readonly bytesRead: number;
  readonly bytesTotal: number;
  readonly elapsedMs: number;
  readonly figures: PaceFigures;
  /** Items that were under way when the upload was stopped. */
  readonly uncertain: number;
  readonly refused: number;
  readonly isDone: boolean;
  readonly isStopped: boolean;
}

/** An item that is ready to be sent. */
export interface ReadyItem {
  readonly text: string;
  readonly id: string | null;
  readonly keys: readonly KeyComponent[];
}

interface Task extends ReadyItem {
  readonly file: string;
  readonly line: number;
}

/** Characters of refused items that are kept for the file of refused items. */
const REFUSED_CHARACTERS_MAX = 32 * 1024 * 1024;

/** Returns the reader for a file by its name and first characters. */
export function readerOf(name: string, beginning: string): ItemReader {
  const isCsv = /\.(csv|tsv)$/i.test(name);
  return isCsv ? new CsvItemReader(separatorOf(beginning)) : readerFor(beginning, name);
}

/** Prepares an item: without system properties, with an id if wanted. */
export function ready(item: ReadItem, definition: KeyDefinition, addsIds: boolean): ReadyItem {
  const members: Member[] = membersOf(item.text).filter(({ name }) => !SYSTEM_PROPERTIES.includes(name));
  let id = members.find(({ name }) => name === "id");
  if (id === undefined && addsIds) {
    id = { name: "id", text: JSON.stringify(crypto.randomUUID()) };
    members.unshift(id);
  }
  const isText = id?.text.startsWith('"') ?? false;
  return {
    text: objectText(members),
    id: isText && id ? (JSON.parse(id.text) as string) : null,
    keys: keyOf(members, definition),
  };
}

const PREVIEW_ITEMS = 5;
const PREVIEW_BYTES = 256 * 1024;

/** Reads the first items of a file. */
export async function previewOf(file: File): Promise<readonly ReadItem[]> {
  const beginning = await file.slice(0, PREVIEW_BYTES).text();
  const reader = readerOf(file.name, beginning);
  const found = reader.push(beginning);
  // A short file ends inside of the preview; the cut of a long one is no problem of the file.
  if (file.size <= PREVIEW_BYTES) found.push(...reader.end());
  return found.slice(0, PREVIEW_ITEMS);
}

/** One upload of some files. */
export class Upload {
  readonly refusals: Refusal[] = [];
  private readonly abort = new AbortController();
  private readonly pace: Pace<Task>;
  private readonly started = performance.now();
  private refusedCharacters = 0;
  private refusedCount = 0;
  private uncertain = 0;
  private bytesRead = 0;
  private isDone = false;
  private lastReport = 0;

  constructor(
    private readonly files: readonly File[],
    private readonly target: UploadTarget,
    private readonly report: (state: UploadState) => void,
  ) {
    this.pace = new Pace<Task>({
      signal: this.abort.signal,
      send: (task, signal) => this.send(task, signal),
      onOutcome: ({ task, isDone, message }) => {
        if (!isDone && this.abort.signal.aborted) this.uncertain += 1;
        else if (!isDone) this.refuse(task.file, task.line, message, task.text);
        this.publish(false);
      },
    });
  }

  stop(): void {
    this.abort.abort();
  }

  async run(): Promise<void> {
    // The page shows the run, and a way to stop, before the server answers the first request.
    this.publish(true);
    for (const file of this.files) {
      if (this.abort.signal.aborted) break;
      await this.readFile(file);
    }
    await this.pace.finish();
    this.isDone = true;
    this.publish(true);
  }

  private async send(task: Task, signal: AbortSignal): Promise<Attempt> {
    const { database, container, isUpsert } = this.target;
    return attemptOf(() => items.create(database, container, task.text, task.keys, { upsert: isUpsert, signal }));
  }

  private async readFile(file: File): Promise<void> {
    const pieces = file.stream().getReader();
    const decoder = new TextDecoder();
    let reader: ItemReader | null = null;
    try {
      while (!this.abort.signal.aborted) {
        const { value, done } = await pieces.read();
        const text = done ? decoder.decode() : decoder.decode(value, { stream: true });
        if (value) this.bytesRead += value.length;
        reader ??= readerOf(file.name, text);
        await this.take(file.name, reader.push(text));
        if (done) {
          await this.take(file.name, reader.end());
          return;
        }
      }
    } catch (error) {
      this.refuse(file.name, 0, `The file could not be read: ${(error as Error).message}`, "");
    } finally {
      void pieces.cancel();
    }
  }

  private async take(file: string, found: readonly ReadItem[]): Promise<void> {
    for (const item of found) {
      if (item.problem !== undefined) {
        this.refuse(file, item.line, item.problem, item.text);
        continue;
      }
      const prepared = ready(item, this.target.definition, this.target.addsIds);
      if (prepared.id === null) {
        this.refuse(file, item.line, 'The item has no id. Add a member "id" with a text.', item.text);
        continue;
      }
      const isAdded = await this.pace.add({ ...prepared, file, line: item.line });
      if (!isAdded) return;
    }
    this.publish(false);
  }

  private refuse(file: string, line: number, reason: string, text: string): void {
    this.refusedCount += 1;
    this.refusedCharacters += text.length;
    const isKept = this.refusedCharacters <= REFUSED_CHARACTERS_MAX;
    this.refusals.push({ file, line, reason, text: isKept ? text : "" });
  }

  private publish(isForced: boolean): void {
    const now = performance.now();
    if (!isForced && now - this.lastReport < 100) return;
    this.lastReport = now;
    let bytesTotal = 0;
    for (const { size } of this.files) bytesTotal += size;
    this.report({
      bytesRead: this.bytesRead,
      bytesTotal,
      elapsedMs: now - this.started,
      figures: { ...this.pace.figures },
      uncertain: this.uncertain,
      refused: this.refusedCount,
      isDone: this.isDone,
      isStopped: this.abort.signal.aborted,
    });
  }
}

/** Returns the refused items as JSON lines: file, line, reason, and the item as it was read. */
export function refusalLines(refusals: readonly Refusal[]): string {
  const lines: string[] = [];
  for (const { file, line, reason, text } of refusals) {
    lines.push(JSON.stringify({ file, line, reason, item: text }));
  }
  return `${lines.join("\n")}\n`;
}
