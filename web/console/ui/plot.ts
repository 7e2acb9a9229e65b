/** The chart library, put to the console's use: axes with units, colours of the theme, zoom by dragging.
 *
 * Promises: new values of the same series redraw in place; a change of the theme changes the colours.
 * Leaves out: the frame around the picture (`chart.tsx`). */

import uPlot from "uplot";

export interface PlotSeries {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** The name of a token, such as `--ru`. */
  readonly colour: string;
  readonly isArea?: boolean | undefined;
  /** A line that is a limit, not a measurement. */
  readonly isDashed?: boolean | undefined;
}

export type Steps = "binary" | "whole" | "any";

export interface PlotSetup {
  readonly series: readonly PlotSeries[];
  /** Values of the horizontal axis, ascending; seconds since 1970 if `isTime`. */
  readonly at: readonly number[];
  readonly isTime: boolean;
  readonly isBars: boolean;
  readonly format: (value: number) => string;
  /** Labels of the vertical axis: at powers of two, at whole numbers, or anywhere. */
  readonly steps: Steps;
  readonly height: number;
  /** Charts with the same name share the cursor. */
  readonly sync?: string | undefined;
  readonly onZoom?: ((from: number, to: number) => void) | undefined;
  readonly onCursor: (index: number | null) => void;
}

export interface Plot {
  setData(at: readonly number[], series: readonly PlotSeries[]): void;
  setCursor(index: number): void;
  destroy(): void;
}

const AXIS_FONT = "12px ui-sans-serif, system-ui, sans-serif";
const AXIS_WIDTH = 64;

function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Returns a colour with this share of opacity. */
function faded(name: string, share: number): string {
  return `color-mix(in srgb, ${token(name)} ${share * 100}%, transparent)`;
}

function aligned(at: readonly number[], series: readonly PlotSeries[]): uPlot.AlignedData {
  return [[...at], ...series.map(({ values }) => [...values])];
}

function seriesOptions(setup: PlotSetup): uPlot.Series[] {
  const options: uPlot.Series[] = [{}];
  for (const { label, colour, isArea, isDashed } of setup.series) {
    const one: uPlot.Series = {
      label,
      stroke: () => token(colour),
      width: 1.5,
      points: { show: false },
    };
    if (isDashed) one.dash = [6, 4];
    if (isArea || setup.isBars) one.fill = () => faded(colour, setup.isBars ? 0.8 : 0.14);
    if (setup.isBars && uPlot.paths.bars) one.paths = uPlot.paths.bars({ size: [0.7, 48] });
    options.push(one);
  }
  return options;
}

function axes(setup: PlotSetup): uPlot.Axis[] {
  const common = {
    stroke: () => token("--ink-soft"),
    font: AXIS_FONT,
    grid: { stroke: () => token("--line"), width: 1 },
    ticks: { show: false },
  };
  const across = { ...common, grid: { show: false }, space: 84, size: 26 };
  return [
    setup.isTime ? { ...across, values: timeLabels } : across,
    {
      ...common,
      ...(setup.steps === "any" ? {} : { incrs: increments(setup.steps) }),
      size: AXIS_WIDTH,
      space: 32,
      values: (_, splits) => splits.map((value) => (value === null ? "" : setup.format(value))),
    },
  ];
}

/** Returns the distances between labels that are allowed. */
function increments(steps: Exclude<Steps, "any">): number[] {
  const found: number[] = [];
  for (let power = 0; power < 50; power += 1) {
    if (steps === "binary") found.push(2 ** power);
    else if (power < 15) found.push(10 ** power, 2 * 10 ** power, 5 * 10 ** power);
  }
  return found;
}

/** Labels in local time: with seconds, minutes or the date, as the distance between them needs. */
function timeLabels(_: uPlot, splits: number[], __: number, ___: number, distance: number): string[] {
  const format = new Intl.DateTimeFormat("en-GB", timeParts(distance));
  return splits.map((at) => format.format(new Date(at * 1_000)));
}

function timeParts(distance: number): Intl.DateTimeFormatOptions {
  if (distance < 60) return { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  if (distance < 86_400) return { hour: "2-digit", minute: "2-digit" };
  return { day: "numeric", month: "short" };
}

/** The scale starts at zero and leaves some space above the highest value. */
function range(_: uPlot, __: number, max: number | null): [number, number] {
  return [0, max === null || max <= 0 ? 1 : max * 1.08];
}

/** Draws a plot into an element, as wide as the element. */
export function createPlot(parent: HTMLElement, setup: PlotSetup): Plot {
  const width = (): number => Math.max(160, parent.clientWidth);
  const options: uPlot.Options = {
    width: width(),
    height: setup.height,
    series: seriesOptions(setup),
    axes: axes(setup),
    scales: { x: { time: setup.isTime }, y: { range } },
    padding: [6, 12, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: setup.onZoom !== undefined, y: false, setScale: false },
      points: { size: 6 },
    },
    hooks: {
      setCursor: [(plot) => setup.onCursor(plot.cursor.idx ?? null)],
      setSelect: [(plot) => selected(plot, setup)],
    },
  };
  if (setup.sync && options.cursor) options.cursor.sync = { key: setup.sync };
  const plot = new uPlot(options, aligned(setup.at, setup.series), parent);
  const observer = new ResizeObserver(() => {
    if (width() !== plot.width) plot.setSize({ width: width(), height: setup.height });
  });
  observer.observe(parent);
  const stopTheme = onTheme(() => plot.redraw(false));
  return {
    setData: (at, series) => plot.setData(aligned(at, series)),
    setCursor: (index) => {
      const left = plot.valToPos(plot.data[0][index] ?? 0, "x");
      plot.setCursor({ left, top: 0 });
    },
    destroy: () => {
      observer.disconnect();
      stopTheme();
      plot.destroy();
    },
  };
}

function selected(plot: uPlot, setup: PlotSetup): void {
  const { left, width } = plot.select;
  if (width < 4) return;
  setup.onZoom?.(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
}

/** Calls `changed` when the colours of the page change. */
function onTheme(changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    dark.removeEventListener("change", changed);
  };
}
