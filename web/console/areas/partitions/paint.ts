/** Draws the heat map on a canvas.
 *
 * The cells are written as one image with a pixel for each cell and scaled to the canvas without
 * smoothing, so a frame costs one pass over the cells. Cells without load stay transparent.
 *
 * Promises: 256 × 600 cells are drawn within a frame of 16 ms.
 * Leaves out: axes, brackets and tooltips, which are elements of the page. */

import type { HeatGrid } from "./heat.ts";
import { STEPS, colourOf, stepOf } from "./scale.ts";

/** Colours as the four bytes of a pixel, by step; index 0 is "no load". */
const PIXELS = pixels();

/** A cell of the grid. */
export interface Cell {
  pixel: number;
  part: number;
}

/** Writes the grid as pixels: `grid.width` columns, `grid.parts` rows, part 0 at the top. */
export function cellPixels(grid: HeatGrid, brightness: number, target: Uint32Array): void {
  const { width, parts, values, max } = grid;
  // Steps are looked up in a table over the square root of the value: the logarithm is slow.
  const lookup = stepTable(max, brightness);
  const scale = max > 0 ? (lookup.length - 1) / Math.sqrt(max) : 0;
  for (let pixel = 0; pixel < width; pixel += 1) {
    const column = pixel * parts;
    for (let part = 0; part < parts; part += 1) {
      const value = values[column + part] ?? 0;
      const index = value > 0 ? (lookup[Math.ceil(Math.sqrt(value) * scale)] ?? 0) : 0;
      target[part * width + pixel] = PIXELS[index] ?? 0;
    }
  }
}

/** Draws grids on one canvas; keeps the image between frames. */
export class HeatPainter {
  private readonly context: CanvasRenderingContext2D;
  private readonly cells = document.createElement("canvas");
  private image: ImageData | null = null;

  constructor(private readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("This browser draws no canvas. Use another browser.");
    this.context = context;
  }

  /** Draws the grid over the whole canvas. */
  draw(grid: HeatGrid, brightness: number): void {
    const { width, parts } = grid;
    if (this.image === null || this.image.width !== width || this.image.height !== parts) {
      this.cells.width = width;
      this.cells.height = parts;
      this.image = new ImageData(width, parts);
    }
    cellPixels(grid, brightness, new Uint32Array(this.image.data.buffer));
    this.cells.getContext("2d")?.putImageData(this.image, 0, 0);
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(this.cells, 0, 0, this.canvas.width, this.canvas.height);
  }
}

/** Returns the index into `PIXELS` for square roots of values, evenly spaced up to the greatest. */
function stepTable(max: number, brightness: number): Uint16Array {
  const table = new Uint16Array(1024);
  for (let at = 1; at < table.length; at += 1) {
    const root = (at / (table.length - 1)) * Math.sqrt(max);
    const step = stepOf(root * root, max, brightness);
    table[at] = step === null ? 0 : Math.round(step) + 1;
  }
  return table;
}

function pixels(): Uint32Array {
  const bytes = new Uint8Array((STEPS + 1) * 4);
  for (let step = 0; step < STEPS; step += 1) {
    const [red, green, blue] = colourOf(step);
    bytes.set([red, green, blue, 255], (step + 1) * 4);
  }
  return new Uint32Array(bytes.buffer);
}
