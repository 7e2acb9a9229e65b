/** The charts of the live page, side by side; their cursors move together. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { perSecond, type Live } from "../../api/live.ts";
import { Chart } from "../../ui/chart.tsx";
import { bytes, compact, duration, percent } from "../../ui/format.ts";
import type { PlotSeries, Steps } from "../../ui/plot.ts";

export interface LiveChartsProps {
  readonly live: Live;
  readonly onZoom: (from: number, to: number) => void;
  /** The titles of the charts that are drawn; all by default. */
  readonly only?: readonly string[] | undefined;
  /** RU/s that all containers have together; null if one of them has no limit. */
  readonly provisioned?: number | null | undefined;
}

/** Colours of categories in a fixed order, as Okabe and Ito chose them. */
const CATEGORY_COLOURS = ["--category-1", "--category-2", "--category-3", "--category-4", "--category-5"];

function rate(value: number): string {
  return value > 0 && value < 10 ? String(Math.round(value * 100) / 100) : compact(value);
}

function ruRate(value: number): string {
  return `${rate(value)} RU/s`;
}

function perSecondText(value: number): string {
  return `${rate(value)}/s`;
}

function latencyText(microseconds: number): string {
  return microseconds === 0 ? "0" : duration(microseconds / 1_000);
}

interface Group {
  readonly title: string;
  readonly format: (value: number) => string;
  readonly steps?: Steps;
  readonly series: readonly PlotSeries[];
}

/** Returns what each chart shows. */
function groups(live: Live, provisioned: number | null): readonly Group[] {
  const containers = live.containers.slice(0, CATEGORY_COLOURS.length).map((container, at) => ({
    label: `${container.db} / ${container.coll}`,
    values: perSecond(container.requestUnits, live),
    colour: CATEGORY_COLOURS[at] ?? "--ink-soft",
  }));
  const all: Group[] = [
    {
      title: "Request units",
      format: ruRate,
      series: [
        { label: provisioned === null ? "Request units" : "used", values: perSecond(live.requestUnits, live), colour: "--ru", isArea: true },
        ...(provisioned === null
          ? []
          : [{ label: "provisioned", values: live.start.map(() => provisioned), colour: "--ink-soft" }]),
      ],
    },
    {
      title: "Requests",
      format: perSecondText,
      series: [{ label: "Requests", values: perSecond(live.requests, live), colour: "--accent", isArea: true }],
    },
    {
      title: "Latency",
      format: latencyText,
      series: [
        { label: "p50", values: live.microsecondsP50, colour: "--category-2" },
        { label: "p95", values: live.microsecondsP95, colour: "--category-1" },
        { label: "p99", values: live.microsecondsP99, colour: "--category-5" },
      ],
    },
    {
      title: "Refused requests",
      format: perSecondText,
      series: [
        { label: "429", values: perSecond(live.throttled, live), colour: "--bad" },
        { label: "other 4xx", values: perSecond(live.clientErrors, live), colour: "--warn" },
        { label: "5xx", values: perSecond(live.serverErrors, live), colour: "--ink" },
      ],
    },
    {
      title: "Stored data",
      format: bytes,
      steps: "binary",
      series: [{ label: "Stored data", values: live.storedBytes, colour: "--category-3", isArea: true }],
    },
    {
      title: "Processor",
      format: (value) => percent(value),
      series: [{ label: "Processor", values: perSecond(live.processorSeconds, live), colour: "--category-1", isArea: true }],
    },
    {
      title: "Memory",
      format: bytes,
      steps: "binary",
      series: [{ label: "Memory", values: live.residentBytes, colour: "--category-4", isArea: true }],
    },
    {
      title: "Disk",
      format: (value) => `${bytes(value)}/s`,
      steps: "binary",
      series: [
        { label: "read", values: perSecond(live.diskReadBytes, live), colour: "--category-2" },
        { label: "written", values: perSecond(live.diskWrittenBytes, live), colour: "--category-5" },
      ],
    },
    {
      title: "Connections",
      format: compact,
      steps: "whole",
      series: [{ label: "Connections", values: live.connections, colour: "--category-2" }],
    },
  ];
  if (containers.length > 0) all.push({ title: "Request units of containers", format: ruRate, series: containers });
  return all;
}

/** Draws the charts. */
export function LiveCharts({ live, onZoom, only, provisioned = null }: LiveChartsProps): JSX.Element {
  const all = useMemo(() => groups(live, provisioned), [live, provisioned]);
  const shown = only ? all.filter(({ title }) => only.includes(title)) : all;
  return (
    <div class="live-charts">
      {shown.map((group) => (
        <Chart key={group.title} {...group} at={live.start} sync="live" onZoom={onZoom} />
      ))}
    </div>
  );
}
