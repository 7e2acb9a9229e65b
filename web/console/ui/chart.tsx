/** A chart: title, legend, picture, the values under the cursor, the same values as a table and as CSV.
 *
 * Promises: arrow keys move the cursor and the values are read out; the library is loaded when the
 * first chart is shown. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "./button.tsx";
import { copyText, csv } from "./clipboard.ts";
import { DataTable, type DataColumn } from "./data-table.tsx";
import { Dialog } from "./dialog.tsx";
import { ErrorView } from "./error-view.tsx";
import { moment } from "./format.ts";
import { Menu } from "./menu.tsx";
import type { Plot, PlotSeries, Steps } from "./plot.ts";
import { useResource } from "./resource.ts";
import { Skeleton } from "./states.tsx";

export interface ChartProps {
  readonly title: string;
  readonly series: readonly PlotSeries[];
  readonly at: readonly number[];
  /** The heading of the horizontal axis in the table; `Time` if `at` are seconds since 1970. */
  readonly atLabel?: string | undefined;
  readonly isTime?: boolean | undefined;
  readonly isBars?: boolean | undefined;
  /** Returns a value with its unit. */
  readonly format: (value: number) => string;
  /** Where labels of the vertical axis may stand; anywhere by default. */
  readonly steps?: Steps | undefined;
  readonly height?: number | undefined;
  readonly sync?: string | undefined;
  readonly onZoom?: ((from: number, to: number) => void) | undefined;
}

const HEIGHT = 180;

/** Draws a chart. */
export function Chart(props: ChartProps): JSX.Element {
  const [index, setIndex] = useState<number | null>(null);
  const [isTable, setTable] = useState(false);
  const last = props.at.length - 1;
  const shown = index !== null && index <= last ? index : last;
  const items = [
    { label: "Show as a table", icon: "table" as const, onSelect: () => setTable(true) },
    { label: "Copy as CSV", icon: "copy" as const, onSelect: () => void copyText(csv(cells(props))) },
  ];
  return (
    <figure class="chart">
      <figcaption>
        <p class="chart-title">{props.title}</p>
        <div class="chart-legend">
          {props.series.map((one) => (
            <span key={one.label}>
              <Swatch colour={one.colour} />
              {props.series.length > 1 && one.label} <strong>{valueText(props, one, shown)}</strong>
            </span>
          ))}
        </div>
        <Menu label={`${props.title}: table and CSV`} items={items} />
      </figcaption>
      <Picture {...props} index={shown} onCursor={setIndex} />
      {isTable && (
        <Dialog title={props.title} wide onClose={() => setTable(false)}>
          <ChartTable {...props} />
          <div class="actions">
            <Button icon="copy" onClick={() => void copyText(csv(cells(props)))}>
              Copy as CSV
            </Button>
          </div>
        </Dialog>
      )}
    </figure>
  );
}

/** A square in the colour of a series. */
function Swatch({ colour }: { readonly colour: string }): JSX.Element {
  return <span class="swatch" aria-hidden="true" style={{ background: `var(${colour})` }} />;
}

function valueText(props: ChartProps, series: PlotSeries, index: number): string {
  const value = series.values[index];
  return value === null || value === undefined ? "–" : props.format(value);
}

function atText(props: ChartProps, at: number): string {
  return props.isTime === false ? String(at) : moment(new Date(at * 1_000));
}

/** Returns the values as rows with a heading. */
function cells(props: ChartProps): (string | number | null)[][] {
  const rows: (string | number | null)[][] = [];
  rows.push([props.atLabel ?? "Time", ...props.series.map(({ label }) => label)]);
  for (const [index, at] of props.at.entries()) {
    const when = props.isTime === false ? at : new Date(at * 1_000).toISOString();
    rows.push([when, ...props.series.map(({ values }) => values[index] ?? null)]);
  }
  return rows;
}

interface ChartRow {
  readonly index: number;
  readonly at: number;
}

function ChartTable(props: ChartProps): JSX.Element {
  const columns: DataColumn<ChartRow>[] = [
    {
      id: "at",
      header: props.atLabel ?? "Time",
      value: (row) => row.at,
      cell: (row) => atText(props, row.at),
      width: 240,
    },
  ];
  for (const one of props.series) {
    columns.push({
      id: `series-${one.label}`,
      header: one.label,
      value: (row) => one.values[row.index],
      cell: (row) => valueText(props, one, row.index),
      isNumber: true,
      width: 120,
    });
  }
  const rows: ChartRow[] = [];
  for (const [index, at] of props.at.entries()) rows.push({ index, at });
  rows.reverse();
  return <DataTable label={props.title} columns={columns} rows={rows} rowId={(row) => String(row.index)} />;
}

interface PictureProps extends ChartProps {
  readonly index: number;
  readonly onCursor: (index: number | null) => void;
}

function Picture(props: PictureProps): JSX.Element {
  const library = useResource(async () => import("./plot.ts"), []);
  const height = props.height ?? HEIGHT;
  if (library.error) return <ErrorView error={library.error} title="The chart could not be loaded." onRetry={library.reload} />;
  if (!library.value) {
    return (
      <div class="plot" style={{ height: `${height}px` }}>
        <Skeleton />
      </div>
    );
  }
  return <Drawn {...props} library={library.value} />;
}

type Library = typeof import("./plot.ts");

function Drawn({ library, ...props }: PictureProps & { readonly library: Library }): JSX.Element {
  const parent = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const newest = useRef(props);
  newest.current = props;
  const height = props.height ?? HEIGHT;
  const shape = JSON.stringify(props.series.map(({ label, colour, isArea }) => [label, colour, isArea]));
  useEffect(() => {
    if (!parent.current) return undefined;
    const { series, at, isTime, isBars, steps, sync, onZoom } = newest.current;
    const created = library.createPlot(parent.current, {
      series,
      at,
      isTime: isTime !== false,
      isBars: isBars ?? false,
      steps: steps ?? "any",
      format: (value) => newest.current.format(value),
      height,
      sync,
      onZoom: onZoom && ((from, to) => newest.current.onZoom?.(from, to)),
      onCursor: (index) => newest.current.onCursor(index),
    });
    plot.current = created;
    return () => {
      plot.current = null;
      created.destroy();
    };
  }, [library, shape, height]);
  useEffect(() => plot.current?.setData(props.at, props.series), [props.at, props.series]);
  const last = props.at.length - 1;
  const move = (event: KeyboardEvent): void => {
    const next = moved(event.key, props.index, last);
    if (next === null) return;
    event.preventDefault();
    plot.current?.setCursor(next);
    props.onCursor(next);
  };
  const [spoken, setSpoken] = useState("");
  const speak = (): void => {
    const values = props.series.map((one) => `${one.label} ${valueText(props, one, props.index)}`);
    setSpoken(`${atText(props, props.at[props.index] ?? 0)}: ${values.join(", ")}`);
  };
  return (
    <div
      class="plot"
      role="group"
      aria-label={`${props.title}, chart. Arrow keys read the values.`}
      tabIndex={0}
      style={{ height: `${height}px` }}
      onKeyDown={move}
      onKeyUp={speak}
    >
      <div ref={parent} aria-hidden="true" />
      <p class="visually-hidden" aria-live="polite">
        {spoken}
      </p>
    </div>
  );
}

function moved(key: string, index: number, last: number): number | null {
  if (key === "ArrowLeft") return Math.max(0, index - 1);
  if (key === "ArrowRight") return Math.min(last, index + 1);
  if (key === "Home") return 0;
  if (key === "End") return last;
  return null;
}
