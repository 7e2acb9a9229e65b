/** The heat map with its controls, its legend, the selected cell and its table.
 *
 * The address holds metric, range of time, zoom and brightness. Without a zoom the map follows now. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { useParameter } from "../../router.ts";
import { Button } from "../../ui/button.tsx";
import { copyText, csv } from "../../ui/clipboard.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { SelectField } from "../../ui/field.tsx";
import { usePoll, useResource } from "../../ui/resource.ts";
import { Skeleton } from "../../ui/states.tsx";
import { readHeat, readTopKeys, type ContainerName, type Metric, type Partition, type TopKey } from "./api.ts";
import { RANGES, aligned, columnsFor, intervalText, rangeUntil } from "./axis.ts";
import { partOf, spanOf, WHOLE, type Hashing, type Span } from "./epk.ts";
import type { Place } from "./heat-geometry.ts";
import { HeatMap, type Bracket } from "./heat-map.tsx";
import { PARTS, concentrationOf, gridOf, type HeatColumn, type TimeRange } from "./heat.ts";
import { BusyParts } from "./heat-table.tsx";
import { keyText } from "./keys.ts";
import { METRICS, rate } from "./metrics.ts";
import { STEPS, cssOf, valueOf } from "./scale.ts";
import { SelectedCell } from "./selected-cell.tsx";
import { Why } from "./why.tsx";

export interface HeatSectionProps {
  readonly name: ContainerName;
  readonly partitions: readonly Partition[];
  readonly hashing: Hashing;
  readonly keyPaths: readonly string[];
}

const POLL_SHORT_MS = 2_500;
const POLL_LONG_MS = 30_000;
const LONG_SECONDS = 3_600;
const KEYS_SHOWN = 3;
const LEGEND_COLUMNS = 600;

/** What the address says about the picture. */
interface View {
  readonly metric: Metric;
  readonly seconds: number;
  readonly zoomTime: TimeRange | null;
  readonly span: Span;
}

/** Draws the section. */
export function HeatSection(props: HeatSectionProps): JSX.Element {
  const { name } = props;
  const { view, setMetric, setSeconds, setZoom } = useView();
  const [brightness, setBrightness] = useParameter("bright", "1");
  const [selected, setSelected] = useState<Place | null>(null);
  const [isTable, setTable] = useState(false);
  const heat = useResource(
    async (signal) => {
      const time = view.zoomTime ?? rangeUntil(Date.now() / 1000, view.seconds);
      const answer = await readHeat(name, view.metric, time.from, time.to, { signal, poll: true });
      return { time, columns: answer.columns };
    },
    [name.database, name.container, view.metric, view.seconds, view.zoomTime],
  );
  const keys = useResource(
    (signal) => readTopKeys(name, view.metric === "bytes" ? "bytes" : "ru", "hour", { signal, poll: true }),
    [name.database, name.container, view.metric],
  );
  const reload = (): void => {
    heat.reload();
    keys.reload();
  };
  const isLoading = heat.isLoading || keys.isLoading;
  usePoll({ reload, isLoading }, view.seconds > LONG_SECONDS ? POLL_LONG_MS : POLL_SHORT_MS, view.zoomTime === null);
  const brackets = useMemo(() => bracketsOf(props), [props.partitions, props.hashing]);
  const topKeys = keys.value?.keys ?? [];
  const isZoomed = view.zoomTime !== null || view.span.start > 0 || view.span.end < 1;
  return (
    <section class="parts-section" aria-labelledby="parts-heat">
      <header>
        <h2 id="parts-heat">Load by key and time</h2>
      </header>
      <div class="parts-controls">
        <SelectField<Metric>
          label="Load"
          value={view.metric}
          onChange={setMetric}
          options={METRICS.map(({ id, label }) => [id, label] as const)}
        />
        <SelectField
          label="Time"
          value={String(view.seconds)}
          onChange={(text) => setSeconds(Number(text))}
          options={RANGES.map(([seconds, label]) => [String(seconds), label] as const)}
        />
        <Brightness value={Number(brightness)} onChange={(value) => setBrightness(String(value))} />
        {isZoomed && (
          <Button icon="reload" onClick={() => setZoom(null, WHOLE)}>
            Show everything
          </Button>
        )}
        <Button kind="quiet" icon="table" pressed={isTable} onClick={() => setTable(!isTable)}>
          Table
        </Button>
        <Button kind="quiet" icon="copy" onClick={() => copyColumns(heat.value?.columns ?? [], view.metric)}>
          Copy as CSV
        </Button>
      </div>
      {heat.error && !heat.value && <ErrorView error={heat.error} onRetry={heat.reload} />}
      {!heat.value && heat.isLoading && <Skeleton lines={10} />}
      {heat.value && !isTable && (
        <HeatMap
          columns={heat.value.columns}
          time={heat.value.time}
          span={view.span}
          brackets={brackets}
          brightness={Number(brightness) || 1}
          label={summary(heat.value.columns, heat.value.time, view.metric)}
          describe={(place) => describe(place, view.metric, brackets, topKeys, props.hashing)}
          onZoom={setZoom}
          onReset={() => setZoom(null, WHOLE)}
          onSelect={setSelected}
        />
      )}
      {heat.value && !isTable && (
        <Legend heat={heat.value} view={view} brightness={Number(brightness) || 1} />
      )}
      {heat.value && isTable && (
        <BusyParts {...heat.value} {...props} metric={view.metric} span={view.span} brackets={brackets} keys={topKeys} />
      )}
      {selected && (
        <SelectedCell
          {...props}
          place={selected}
          metric={view.metric}
          keys={keysAt(selected.span, topKeys, props.hashing)}
          onClose={() => setSelected(null)}
          onZoom={() => setZoom(around(selected.time), widened(selected.span))}
        />
      )}
      <Why doc="see-partitioning.md">
        A row is a 256th of the hash space. A line that stays bright is one hot logical key; light that
        moves from row to row comes from a key that depends on the time; an even field is a good key.
      </Why>
    </section>
  );
}

/** Reads the view from the address, and writes it there. */
function useView(): {
  view: View;
  setMetric: (metric: Metric) => void;
  setSeconds: (seconds: number) => void;
  setZoom: (time: TimeRange | null, span: Span) => void;
} {
  const [metric, setMetric] = useParameter("metric", "ru");
  const [seconds, setSeconds] = useParameter("range", "900");
  const [zoom, setZoom] = useParameter("zoom", "");
  const known = METRICS.find((found) => found.id === metric)?.id ?? "ru";
  const { time, span } = useMemo(() => readZoom(zoom), [zoom]);
  const view = { metric: known, seconds: Number(seconds) || 900, zoomTime: time, span };
  return {
    view,
    setMetric,
    setSeconds: (value) => {
      setZoom(writeZoom(null, span));
      setSeconds(String(value));
    },
    setZoom: (wanted, wantedSpan) => {
      const isAll = wanted !== null && wanted.to - wanted.from >= view.seconds;
      const kept = wanted === null || isAll ? null : aligned(wanted);
      // A zoom into the hash space alone keeps following now.
      const follows = kept !== null && time === null && kept.to - kept.from >= view.seconds * 0.99;
      setZoom(writeZoom(follows ? null : kept, snapped(wantedSpan)));
    },
  };
}

/** The zoom as text: `from-to` in seconds and in parts of the hash space, `.` for no zoom. */
function writeZoom(time: TimeRange | null, span: Span): string {
  const times = time === null ? "" : `${time.from}-${time.to}`;
  const isWhole = span.start <= 0 && span.end >= 1;
  const parts = isWhole ? "" : `${round(span.start)}-${round(span.end)}`;
  return times === "" && parts === "" ? "" : `${times}.${parts}`;
}

function readZoom(text: string): { time: TimeRange | null; span: Span } {
  const found = /^(?:(\d+)-(\d+))?\.(?:([\d_]+)-([\d_]+))?$/.exec(text);
  const [, from, to, start, end] = found ?? [];
  const time = from && to && Number(to) > Number(from) ? { from: Number(from), to: Number(to) } : null;
  const span = { start: Number(start?.replace("_", ".") ?? 0), end: Number(end?.replace("_", ".") ?? 1) };
  return { time, span: span.start >= 0 && span.end > span.start && span.end <= 1 ? span : WHOLE };
}

/** Six digits with `_` for the point, which separates time and hash space. */
function round(share: number): string {
  return String(Math.round(share * 1e6) / 1e6).replace(".", "_");
}

/** Returns the span widened to whole parts. */
function snapped(span: Span): Span {
  const start = Math.max(0, Math.floor(span.start * PARTS + 1e-6) / PARTS);
  const end = Math.min(1, Math.ceil(span.end * PARTS - 1e-6) / PARTS);
  return { start, end: Math.max(start + 1 / PARTS, end) };
}

function around(time: TimeRange): TimeRange {
  const extra = Math.max(30, (time.to - time.from) * 6);
  return { from: time.from - extra, to: time.to + extra };
}

function widened(span: Span): Span {
  return { start: Math.max(0, span.start - 8 / PARTS), end: Math.min(1, span.end + 8 / PARTS) };
}

function bracketsOf(props: HeatSectionProps): Bracket[] {
  return props.partitions.map(({ id, minInclusive, maxExclusive }) => ({
    id,
    span: spanOf({ min: minInclusive, max: maxExclusive }, props.hashing),
  }));
}

function keysAt(span: Span, keys: readonly TopKey[], hashing: Hashing): TopKey[] {
  const part = Math.floor(span.start * PARTS + 1e-6);
  return keys.filter((key) => partOf(key.epk, hashing, PARTS) === part);
}

/** Returns the lines of the tooltip: time, partition and range, load, hottest keys. */
function describe(
  place: Place,
  metric: Metric,
  brackets: readonly Bracket[],
  keys: readonly TopKey[],
  hashing: Hashing,
): string[] {
  const middle = (place.span.start + place.span.end) / 2;
  const partition = brackets.find(({ span }) => span.start <= middle && middle < span.end);
  const part = Math.floor(place.span.start * PARTS + 1e-6);
  const lines = [
    intervalText(place.time),
    `Partition ${partition?.id ?? "?"}, part ${part} of ${PARTS}`,
    place.value > 0 ? rate(place.value, metric) : "no load",
  ];
  for (const key of keysAt(place.span, keys, hashing).slice(0, KEYS_SHOWN)) {
    lines.push(`key ${key.key === undefined ? "without items" : keyText(key.key).slice(0, 60)}`);
  }
  return lines;
}

function summary(columns: readonly HeatColumn[], time: TimeRange, metric: Metric): string {
  const share = Math.round(concentrationOf(columns, time) * 100);
  const name = METRICS.find(({ id }) => id === metric)?.label ?? metric;
  return `Heat map of ${name} by hash and time; the busiest 5 % of the hash space has ${share} % of the load`;
}

function copyColumns(columns: readonly HeatColumn[], metric: Metric): void {
  const rows: (string | number)[][] = [["start", "seconds", "part", metric]];
  for (const column of columns) {
    for (const [at, part] of column.buckets.entries()) {
      rows.push([column.start, column.seconds, part, column.values[at] ?? 0]);
    }
  }
  void copyText(csv(rows));
}

function Brightness(props: {
  readonly value: number;
  readonly onChange: (value: number) => void;
}): JSX.Element {
  const power = Math.log2(props.value || 1);
  return (
    <div class="field parts-brightness">
      <label for="parts-brightness">Brightness</label>
      <input
        id="parts-brightness"
        type="range"
        min={-4}
        max={10}
        step={0.5}
        value={power}
        onInput={(event) => props.onChange(Number((2 ** Number(event.currentTarget.value)).toPrecision(4)))}
      />
    </div>
  );
}

function Legend(props: {
  readonly heat: { readonly columns: readonly HeatColumn[]; readonly time: TimeRange };
  readonly view: View;
  readonly brightness: number;
}): JSX.Element {
  const { heat, view, brightness } = props;
  const max = gridOf(heat.columns, heat.time, view.span, columnsFor(heat.time, LEGEND_COLUMNS)).max;
  const share = concentrationOf(heat.columns, heat.time);
  const stops = [...Array(9).keys()].map((at) => cssOf((at / 8) * (STEPS - 1)));
  return (
    <div class="parts-legend">
      <span class="soft">no load</span>
      <span class="parts-none" />
      <span class="soft">{rate(valueOf(0.02 * (STEPS - 1), max, brightness), view.metric)}</span>
      <span class="parts-ramp" style={{ backgroundImage: `linear-gradient(90deg, ${stops.join(", ")})` }} />
      <span class="soft">{max > 0 ? rate(max, view.metric) : ""}</span>
      {share > 0 && (
        <span class="parts-share">
          The busiest 5 % of the hash space has <strong>{Math.round(share * 100)} %</strong> of the load.
        </span>
      )}
    </div>
  );
}
