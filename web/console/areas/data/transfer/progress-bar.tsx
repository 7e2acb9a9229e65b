/** A bar with its share, for work whose end is known. */

import type { JSX } from "preact";
import { percent } from "../../../ui/format.ts";

/** Draws the bar; screen readers get the share. */
export function ProgressBar(props: {
  readonly label: string;
  readonly done: number;
  readonly total: number;
}): JSX.Element {
  const share = props.total > 0 ? Math.min(1, props.done / props.total) : 0;
  return (
    <div class="data-progress">
      <progress aria-label={props.label} value={share} max={1} />
      <span class="number">{percent(share)}</span>
    </div>
  );
}
