/** Points of two columns, drawn by the chart library. */

import uPlot from "uplot";
import type { ChartSeries } from "./chart_data.ts";

const HEIGHT = 260;
const FONT = "12px ui-sans-serif, system-ui, sans-serif";

function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Draws the points into an element and returns the function that removes them. */
export function drawPoints(parent: HTMLElement, { x, y }: ChartSeries): () => void {
  const width = (): number => Math.max(160, parent.clientWidth);
  const axis = {
    stroke: () => token("--ink-soft"),
    font: FONT,
    grid: { stroke: () => token("--line"), width: 1 },
  };
  const plot = new uPlot(
    {
      width: width(),
      height: HEIGHT,
      scales: { x: { time: false } },
      legend: { show: false },
      axes: [axis, { ...axis, size: 64 }],
      series: [
        {},
        {
          paths: () => null,
          points: { show: true, size: 5, fill: () => token("--accent"), stroke: () => token("--accent") },
        },
      ],
    },
    [x, y],
    parent,
  );
  const observer = new ResizeObserver(() => {
    if (width() !== plot.width) plot.setSize({ width: width(), height: HEIGHT });
  });
  observer.observe(parent);
  return () => {
    observer.disconnect();
    plot.destroy();
  };
}
