/** A line without axes, beside the figure that it belongs to. */

import type { JSX } from "preact";

const WIDTH = 64;
const HEIGHT = 18;

/** Draws values from the left to the right, from zero to the highest. */
export function Sparkline({ values }: { readonly values: readonly number[] }): JSX.Element {
  let max = 0;
  for (const value of values) max = Math.max(max, value);
  const step = WIDTH / Math.max(1, values.length - 1);
  const points: string[] = [];
  for (const [at, value] of values.entries()) {
    const height = max === 0 ? 0 : (value / max) * (HEIGHT - 2);
    points.push(`${(at * step).toFixed(1)},${(HEIGHT - 1 - height).toFixed(1)}`);
  }
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true" focusable="false">
      <polyline points={points.join(" ")} />
    </svg>
  );
}
