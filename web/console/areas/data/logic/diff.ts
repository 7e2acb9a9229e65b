/** Differences of two texts by lines, for the comparison before an item is replaced.
 *
 * Promises: the rows in their order give both texts back. The work is bounded: texts that differ
 * in more than `EDITS_MAX` lines get one block of removed and one block of added lines for the
 * part between their equal beginnings and ends.
 *
 * Leaves out: differences inside of a line. */

/** A row of the comparison. Line numbers start at 1; a line of one side has no other number. */
export interface DiffRow {
  kind: "same" | "removed" | "added";
  text: string;
  before?: number;
  after?: number;
}

/** A run of equal rows that a reader may skip, or the rows of a change with their surroundings. */
export interface DiffSection {
  isFolded: boolean;
  rows: DiffRow[];
}

/** Edits up to which the shortest comparison is searched. */
const EDITS_MAX = 1_000;

/** Returns the comparison of two texts. */
export function diffLines(before: string, after: string): DiffRow[] {
  const old = before.split("\n");
  const fresh = after.split("\n");
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start += 1;
  let end = 0;
  while (
    end < old.length - start &&
    end < fresh.length - start &&
    old[old.length - 1 - end] === fresh[fresh.length - 1 - end]
  ) {
    end += 1;
  }
  const oldMiddle = old.slice(start, old.length - end);
  const freshMiddle = fresh.slice(start, fresh.length - end);
  const kinds = shortestEdit(oldMiddle, freshMiddle) ?? blockEdit(oldMiddle, freshMiddle);
  const head: Kind[] = new Array<Kind>(start).fill("same");
  const tail: Kind[] = new Array<Kind>(end).fill("same");
  return rowsOf([...head, ...kinds, ...tail], old, fresh);
}

type Kind = DiffRow["kind"];

function rowsOf(kinds: Kind[], old: string[], fresh: string[]): DiffRow[] {
  const rows: DiffRow[] = [];
  let before = 0;
  let after = 0;
  for (const kind of kinds) {
    if (kind === "same") {
      rows.push({ kind, text: old[before] as string, before: before + 1, after: after + 1 });
      before += 1;
      after += 1;
    } else if (kind === "removed") {
      rows.push({ kind, text: old[before] as string, before: before + 1 });
      before += 1;
    } else {
      rows.push({ kind, text: fresh[after] as string, after: after + 1 });
      after += 1;
    }
  }
  return rows;
}

function blockEdit(old: string[], fresh: string[]): Kind[] {
  const removed: Kind[] = old.map(() => "removed");
  const added: Kind[] = fresh.map(() => "added");
  return [...removed, ...added];
}

/** Returns the shortest edit by Myers' greedy search, or null beyond the bound.
 *
 * `reach[k]` is the furthest position in `old` on the diagonal `k` (position in `old` minus
 * position in `fresh`) after a number of edits. The trace of all rounds gives the path back. */
function shortestEdit(old: string[], fresh: string[]): Kind[] | null {
  const bound = Math.min(old.length + fresh.length, EDITS_MAX);
  const offset = bound + 1;
  const reach = new Int32Array(2 * bound + 3);
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= bound; edits += 1) {
    trace.push(reach.slice(offset - edits - 1, offset + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const isDown = k === -edits || (k !== edits && at(reach, offset + k - 1) < at(reach, offset + k + 1));
      let x = isDown ? at(reach, offset + k + 1) : at(reach, offset + k - 1) + 1;
      while (x < old.length && x - k < fresh.length && old[x] === fresh[x - k]) x += 1;
      reach[offset + k] = x;
      if (x >= old.length && x - k >= fresh.length) return pathBack(trace, old.length, fresh.length);
    }
  }
  return null;
}

function at(list: Int32Array, index: number): number {
  return list[index] as number;
}

function pathBack(trace: Int32Array[], oldLength: number, freshLength: number): Kind[] {
  const kinds: Kind[] = [];
  let x = oldLength;
  let y = freshLength;
  for (let edits = trace.length - 1; edits > 0; edits -= 1) {
    // The slice of a round holds the diagonals from -edits-1 to edits+1.
    const reach = trace[edits] as Int32Array;
    const centre = edits + 1;
    const k = x - y;
    const isDown = k === -edits || (k !== edits && at(reach, centre + k - 1) < at(reach, centre + k + 1));
    const previous = isDown ? k + 1 : k - 1;
    const fromX = at(reach, centre + previous);
    const fromY = fromX - previous;
    while (x > fromX && y > fromY) {
      kinds.push("same");
      x -= 1;
      y -= 1;
    }
    kinds.push(isDown ? "added" : "removed");
    x = fromX;
    y = fromY;
  }
  while (x > 0 && y > 0) {
    kinds.push("same");
    x -= 1;
    y -= 1;
  }
  return kinds.reverse();
}

/** Divides the rows into changes with `context` equal lines around, and folded runs between. */
export function sections(rows: DiffRow[], context = 3): DiffSection[] {
  const isNear = new Uint8Array(rows.length);
  for (const [index, row] of rows.entries()) {
    if (row.kind === "same") continue;
    const first = Math.max(0, index - context);
    const last = Math.min(rows.length - 1, index + context);
    isNear.fill(1, first, last + 1);
  }
  const result: DiffSection[] = [];
  for (const [index, row] of rows.entries()) {
    const isFolded = isNear[index] === 0;
    const open = result.at(-1);
    if (open !== undefined && open.isFolded === isFolded) open.rows.push(row);
    else result.push({ isFolded, rows: [row] });
  }
  return result;
}

/** Returns the numbers of added and removed lines. */
export function countChanges(rows: DiffRow[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const row of rows) {
    if (row.kind === "added") added += 1;
    if (row.kind === "removed") removed += 1;
  }
  return { added, removed };
}
