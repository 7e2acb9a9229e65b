/** The parts of a charge as one stacked bar; kinds of work keep their colour on the page. */

import type { JSX } from "preact";
import { ruNumber } from "../../ui/format.ts";
import { costs, type ChargePart } from "./log.ts";

const COLOURS = 5;
const kinds: string[] = [];

/** Returns the class of a kind of work: the first kinds have colours of their own. */
export function kindClass(what: string): string {
  let at = kinds.indexOf(what);
  if (at < 0) at = kinds.push(what) - 1;
  return at < COLOURS ? `reqs-kind-${at + 1}` : "reqs-kind-other";
}

export interface ChargeBarProps {
  readonly parts: readonly ChargePart[];
  /** The charge that fills the whole width. */
  readonly full: number;
}

/** Draws the bar. */
export function ChargeBar({ parts, full }: ChargeBarProps): JSX.Element {
  const shown = costs(parts);
  const text = shown.map((part) => `${part.what} ${ruNumber(part.ru)}`).join(", ");
  return (
    <span class="reqs-bar" title={text}>
      {shown.map((part) => (
        <span
          key={part.what}
          class={kindClass(part.what)}
          style={{ width: `${(part.ru / Math.max(1e-9, full)) * 100}%` }}
        />
      ))}
    </span>
  );
}
