/** The comparison of two texts: changed lines with their surroundings, equal runs folded.
 *
 * Promises: at most `ROWS_MAX` lines and `LINE_MAX` characters of a line are drawn, so that an item
 * of 2 MB does not stop the page. Each line says by a sign, and to screen readers by a word, to
 * which side it belongs. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Button } from "../../../ui/button.tsx";
import { plural } from "../../../ui/format.ts";
import { countChanges, diffLines, sections, type DiffRow, type DiffSection } from "../logic/diff.ts";

const ROWS_MAX = 1_000;
const LINE_MAX = 1_000;

export interface DiffViewProps {
  readonly before: string;
  readonly after: string;
  /** Names of the two sides, such as `Saved` and `Yours`. */
  readonly names: readonly [before: string, after: string];
}

/** Draws the comparison. */
export function DiffView({ before, after, names }: DiffViewProps): JSX.Element {
  const rows = useMemo(() => diffLines(before, after), [before, after]);
  const parts = useMemo(() => sections(rows), [rows]);
  const { added, removed } = countChanges(rows);
  if (added + removed === 0) return <p class="soft">Both texts are equal.</p>;
  let left = ROWS_MAX;
  return (
    <div class="data-diff-block">
      <p class="soft">
        <span class="data-diff-name removed">− {names[0]}</span>{" "}
        <span class="data-diff-name added">+ {names[1]}</span>: {plural(removed, "line")} removed,{" "}
        {plural(added, "line")} added
      </p>
      <div class="data-diff" role="region" aria-label="Comparison" tabIndex={0}>
        {parts.map((part, index) => {
          const most = left;
          if (!part.isFolded) left -= part.rows.length;
          if (most <= 0) return null;
          return part.isFolded ? (
            <Folded key={index} part={part} />
          ) : (
            <Lines key={index} rows={part.rows.slice(0, most)} />
          );
        })}
      </div>
      {left < 0 && <p class="soft">{plural(-left, "further line")} with changes are not shown.</p>}
    </div>
  );
}

const SIGNS = { same: " ", removed: "−", added: "+" } as const;
const WORDS = { same: "", removed: "Removed: ", added: "Added: " } as const;

function Lines({ rows }: { readonly rows: readonly DiffRow[] }): JSX.Element {
  return (
    <>
      {rows.map((row, index) => (
        <div key={index} class={`data-diff-line ${row.kind}`}>
          <span class="data-diff-number" aria-hidden="true">
            {row.before ?? ""}
          </span>
          <span class="data-diff-number" aria-hidden="true">
            {row.after ?? ""}
          </span>
          <span class="data-diff-sign" aria-hidden="true">
            {SIGNS[row.kind]}
          </span>
          <code>
            {row.kind !== "same" && <span class="visually-hidden">{WORDS[row.kind]}</span>}
            {row.text.length > LINE_MAX ? `${row.text.slice(0, LINE_MAX)}… (${row.text.length} characters)` : row.text}
          </code>
        </div>
      ))}
    </>
  );
}

const FOLD_MAX = 400;

function Folded({ part }: { readonly part: DiffSection }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  if (isOpen) return <Lines rows={part.rows.slice(0, FOLD_MAX)} />;
  return (
    <div class="data-diff-fold">
      <Button kind="quiet" icon="down" onClick={() => setOpen(true)}>
        {plural(part.rows.length, "equal line")}
      </Button>
    </div>
  );
}
