/** The colours of the heat map: viridis over a logarithm of the value.
 *
 * Viridis is even to the eye and keeps its order in grey and for colour-blind eyes. The table holds
 * its values at 16 places; colours between them are mixed.
 *
 * Promises: 0 has no colour of the scale (`null`), so the page's own colour shows; a larger value
 * never has a darker step than a smaller one. */

/** Red, green and blue from 0 to 255. */
export type Rgb = readonly [number, number, number];

/** Number of colours of the scale. */
export const STEPS = 256;

const VIRIDIS: readonly Rgb[] = [
  [68, 1, 84],
  [72, 26, 108],
  [71, 47, 125],
  [65, 68, 135],
  [57, 86, 140],
  [49, 104, 142],
  [42, 120, 142],
  [35, 136, 142],
  [31, 152, 139],
  [34, 168, 132],
  [53, 183, 121],
  [84, 197, 104],
  [122, 209, 81],
  [165, 219, 54],
  [210, 226, 27],
  [253, 231, 37],
];

const COLOURS: readonly Rgb[] = mixed();

/** Returns the colour of a step from 0 to `STEPS - 1`. */
export function colourOf(step: number): Rgb {
  const index = Math.max(0, Math.min(STEPS - 1, Math.round(step)));
  return COLOURS[index] ?? [0, 0, 0];
}

/** Returns the colour of a step as a CSS colour. */
export function cssOf(step: number): string {
  const [red, green, blue] = colourOf(step);
  return `rgb(${red} ${green} ${blue})`;
}

/** Returns the step of a value, or null for 0. `max` has the last step; `brightness` above 1 lifts
 * small values. */
export function stepOf(value: number, max: number, brightness: number): number | null {
  if (!(value > 0) || !(max > 0)) return null;
  const spread = 1000 * brightness;
  const share = Math.log1p((spread * Math.min(value, max)) / max) / Math.log1p(spread);
  return share * (STEPS - 1);
}

/** Returns the value of a step: the inverse of `stepOf`, for the labels of the legend. */
export function valueOf(step: number, max: number, brightness: number): number {
  const spread = 1000 * brightness;
  return (Math.expm1((step / (STEPS - 1)) * Math.log1p(spread)) * max) / spread;
}

function mixed(): Rgb[] {
  const colours: Rgb[] = [];
  for (let step = 0; step < STEPS; step += 1) {
    const place = (step / (STEPS - 1)) * (VIRIDIS.length - 1);
    const low = VIRIDIS[Math.floor(place)] ?? [0, 0, 0];
    const high = VIRIDIS[Math.ceil(place)] ?? low;
    const part = place - Math.floor(place);
    colours.push([
      Math.round(low[0] + (high[0] - low[0]) * part),
      Math.round(low[1] + (high[1] - low[1]) * part),
      Math.round(low[2] + (high[2] - low[2]) * part),
    ]);
  }
  return colours;
}
