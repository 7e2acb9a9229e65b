/** The rows as a tree that opens member by member.
 *
 * Promises: draws only what is open, and a bounded number of members at a time, so that large values
 * stay fast; values are text, never markup. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Json } from "../../api/data.ts";
import { isNumber } from "../../api/exact-json.ts";
import { Button } from "../../ui/button.tsx";
import { count, plural } from "../../ui/format.ts";

const MEMBERS_SHOWN = 100;
const TEXT_SHOWN = 500;

/** Draws the rows. */
export function TreeView({ rows }: { readonly rows: readonly Json[] }): JSX.Element {
  const entries: Entry[] = rows.map((row, index) => [String(index + 1), row]);
  return (
    <div class="query-tree">
      <Members entries={entries} />
    </div>
  );
}

type Entry = readonly [name: string, value: Json];

function Members({ entries }: { readonly entries: readonly Entry[] }): JSX.Element {
  const [shown, setShown] = useState(MEMBERS_SHOWN);
  return (
    <ul>
      {entries.slice(0, shown).map(([name, value]) => (
        <Node key={name} name={name} value={value} />
      ))}
      {entries.length > shown && (
        <li>
          <Button kind="quiet" onClick={() => setShown(shown + MEMBERS_SHOWN)}>
            Show {count(Math.min(MEMBERS_SHOWN, entries.length - shown))} more of {count(entries.length)}
          </Button>
        </li>
      )}
    </ul>
  );
}

function Node({ name, value }: { readonly name: string; readonly value: Json }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const entries = entriesOf(value);
  if (!entries) {
    return (
      <li class="query-leaf">
        <span class="query-name">{name}</span>
        <Leaf value={value} />
      </li>
    );
  }
  return (
    <li>
      <button
        type="button"
        class="query-node"
        aria-expanded={isOpen}
        disabled={entries.length === 0}
        onClick={() => setOpen(!isOpen)}
      >
        <span class="query-name">{name}</span>
        <span class="soft">{summary(value, entries.length)}</span>
      </button>
      {isOpen && <Members entries={entries} />}
    </li>
  );
}

function summary(value: Json, members: number): string {
  return Array.isArray(value) ? `[${plural(members, "element")}]` : `{${plural(members, "member")}}`;
}

function entriesOf(value: Json): Entry[] | null {
  if (typeof value !== "object" || value === null || isNumber(value)) return null;
  if (Array.isArray(value)) return value.map((element: Json, index) => [String(index), element]);
  return Object.entries(value);
}

function Leaf({ value }: { readonly value: Json }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  const isLong = text.length > TEXT_SHOWN && !isWhole;
  return (
    <>
      <span class={`query-${value === null ? "null" : isNumber(value) ? "number" : typeof value}`}>
        {isLong ? `${text.slice(0, TEXT_SHOWN)}…` : text}
      </span>
      {isLong && (
        <Button kind="quiet" onClick={() => setWhole(true)}>
          Show {plural(text.length, "character")}
        </Button>
      )}
    </>
  );
}
