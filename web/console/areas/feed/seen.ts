/** The versions of items that the feed showed, so that a later version can be compared with them.
 *
 * Promises: at most `bytesMax` bytes of text are kept; the versions that were shown least recently
 * are dropped first. */

import { jsonText, parseJson } from "../../api/exact-json.ts";
import type { FeedObject } from "./follower.ts";

export class SeenVersions {
  private readonly texts = new Map<string, string>();
  private bytes = 0;

  constructor(private readonly bytesMax = 32 * 1024 * 1024) {}

  /** Stores a version and returns the one that was stored before, or null. A deletion is `null`. */
  replace(rid: string, item: FeedObject | null): FeedObject | null {
    const before = this.texts.get(rid);
    if (before !== undefined) {
      this.texts.delete(rid);
      this.bytes -= before.length * 2;
    }
    if (item !== null) this.keep(rid, jsonText(item));
    return before === undefined ? null : (parseJson(before) as FeedObject);
  }

  /** Number of versions that are kept. */
  get size(): number {
    return this.texts.size;
  }

  private keep(rid: string, text: string): void {
    this.texts.set(rid, text);
    this.bytes += text.length * 2;
    for (const [oldest, old] of this.texts) {
      if (this.bytes <= this.bytesMax) break;
      this.texts.delete(oldest);
      this.bytes -= old.length * 2;
    }
  }
}
