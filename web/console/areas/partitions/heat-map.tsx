/** The heat map: hash space over time, with the physical partitions as brackets at the left.
 *
 * A drag zooms into time and hash space, a click selects a cell. By keyboard the arrow keys move a
 * cursor, Shift makes ten steps, Enter selects, + and − zoom, Escape shows everything.
 *
 * Promises: moving the pointer draws no cell again.
 * Leaves out: reading the data, the controls above, and what a selected cell leads to. */

import type { JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { columnsFor, ticksOf, zoneName } from "./axis.ts";
import type { Span } from "./epk.ts";
import { gridOf, type HeatColumn, type HeatGrid, type TimeRange } from "./heat.ts";
import {
  areaOf,
  cellAt,
  inside,
  isDrag,
  isLong,
  moved,
  placeOf,
  pointOf,
  zoomedAround,
  type Place,
  type Point,
} from "./heat-geometry.ts";
import { HeatPainter, type Cell } from "./paint.ts";

export interface Bracket {
  readonly id: string;
  readonly span: Span;
}

export interface HeatMapProps {
  readonly columns: readonly HeatColumn[];
  readonly time: TimeRange;
  readonly span: Span;
  readonly brackets: readonly Bracket[];
  readonly brightness: number;
  readonly label: string;
  /** Returns the lines of the tooltip of a place. */
  readonly describe: (place: Place) => readonly string[];
  readonly onZoom: (time: TimeRange, span: Span) => void;
  readonly onReset: () => void;
  readonly onSelect: (place: Place) => void;
}

const COLUMNS_MAX = 600;
const BRACKET_LABEL_MIN = 0.035;

/** Draws the heat map. */
export function HeatMap(props: HeatMapProps): JSX.Element {
  const { time, span, columns } = props;
  const [width, setWidth] = useState(0);
  const area = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = area.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const pixels = columnsFor(time, Math.min(COLUMNS_MAX, Math.max(60, width)));
  const grid = useMemo(
    () => gridOf(columns, time, span, pixels),
    [columns, time.from, time.to, span.start, span.end, pixels],
  );
  const scans = useMemo(() => scanGrid(columns, time, pixels), [columns, time.from, time.to, pixels]);
  return (
    <div class="parts-heat">
      <Brackets {...props} />
      <div class="parts-heat-area" ref={area}>
        <Cells {...props} grid={grid} />
      </div>
      <span class="parts-scans-label" title="Requests that address several logical keys">
        several keys
      </span>
      <Strip grid={scans} brightness={props.brightness} />
      <Axis time={time} width={width} />
    </div>
  );
}

/** The load of requests that address several logical keys, as a grid of one row. */
function scanGrid(columns: readonly HeatColumn[], time: TimeRange, pixels: number): HeatGrid {
  const rows = columns.map((column) => ({ ...column, buckets: [0], values: [column.scans] }));
  return gridOf(rows, time, { start: 0, end: 1 / 256 }, pixels);
}

function Strip({ grid, brightness }: { readonly grid: HeatGrid; readonly brightness: number }): JSX.Element {
  const canvas = useCanvas(grid, brightness);
  return <canvas class="parts-scans" ref={canvas} aria-hidden="true" />;
}

/** Draws the grid on a canvas when it changes, in the next frame. */
function useCanvas(grid: HeatGrid, brightness: number): { current: HTMLCanvasElement | null } {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<HeatPainter | null>(null);
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const element = canvas.current;
      if (element === null) return;
      const scale = window.devicePixelRatio || 1;
      const size = { width: element.clientWidth * scale, height: element.clientHeight * scale };
      if (element.width !== size.width) element.width = size.width;
      if (element.height !== size.height) element.height = size.height;
      painter.current ??= new HeatPainter(element);
      painter.current.draw(grid, brightness);
    });
    return () => cancelAnimationFrame(frame);
  }, [grid, brightness]);
  return canvas;
}

function Cells(props: HeatMapProps & { readonly grid: HeatGrid }): JSX.Element {
  const { grid } = props;
  const help = useId();
  const canvas = useCanvas(grid, props.brightness);
  const [cursor, setCursor] = useState<Cell | null>(null);
  const [isByKeyboard, setByKeyboard] = useState(false);
  const [drag, setDrag] = useState<{ from: Point; to: Point } | null>(null);
  const shown = cursor && inside(cursor, grid);
  const place = shown && placeOf(grid, shown);

  const move = (event: PointerEvent): void => {
    const point = pointOf(event);
    setByKeyboard(false);
    if (drag) setDrag({ from: drag.from, to: point });
    setCursor(cellAt(point, grid));
  };
  const press = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    if (event.currentTarget instanceof Element) event.currentTarget.setPointerCapture(event.pointerId);
    const point = pointOf(event);
    setDrag({ from: point, to: point });
  };
  const release = (event: PointerEvent): void => {
    if (!drag) return;
    setDrag(null);
    const to = pointOf(event);
    if (isDrag(drag.from, to, event)) {
      const zoomed = areaOf(drag.from, to, props);
      props.onZoom(zoomed.time, zoomed.span);
    } else {
      const cell = cellAt(to, grid);
      props.onSelect(placeOf(grid, cell));
    }
  };
  const zoom = (cell: Cell, factor: number): void => {
    const zoomed = zoomedAround(cell, factor, props, grid);
    props.onZoom(zoomed.time, zoomed.span);
  };
  const key = (event: KeyboardEvent): void => {
    const start = shown ?? { pixel: grid.width - 1, part: Math.floor(grid.parts / 2) };
    const next = moved(start, event, grid);
    if (next) {
      setCursor(shown ? next : start);
      setByKeyboard(true);
    } else if (event.key === "Enter" && place) props.onSelect(place);
    else if (event.key === "+" || event.key === "=") zoom(start, 0.5);
    else if (event.key === "-") zoom(start, 2);
    else if (event.key === "Escape") props.onReset();
    else return;
    event.preventDefault();
  };
  return (
    <div
      class="parts-cells"
      role="application"
      aria-label={props.label}
      aria-describedby={help}
      tabIndex={0}
      onPointerMove={move}
      onPointerDown={press}
      onPointerUp={release}
      onPointerCancel={() => setDrag(null)}
      onPointerLeave={() => !isByKeyboard && setCursor(null)}
      onKeyDown={key}
      onBlur={() => setCursor(null)}
    >
      <canvas ref={canvas} aria-hidden="true" />
      {shown && <CursorLines cell={shown} grid={grid} />}
      {drag && <Brush from={drag.from} to={drag.to} />}
      {place && !isLong(drag) && <Tip cell={shown} grid={grid} lines={props.describe(place)} />}
      <p id={help} class="visually-hidden">
        Arrow keys move the cursor, Enter selects a cell, plus and minus zoom, Escape shows everything.
      </p>
      <p class="visually-hidden" aria-live="polite">
        {isByKeyboard && place ? props.describe(place).join(", ") : ""}
      </p>
    </div>
  );
}

function Brackets({ brackets, span, onZoom, time }: HeatMapProps): JSX.Element {
  const height = span.end - span.start;
  return (
    <div class="parts-brackets" role="group" aria-label="Physical partitions">
      {brackets.map(({ id, span: range }) => {
        const top = (Math.max(range.start, span.start) - span.start) / height;
        const bottom = (Math.min(range.end, span.end) - span.start) / height;
        if (bottom <= top) return null;
        const size = bottom - top;
        return (
          <button
            key={id}
            type="button"
            class="parts-bracket"
            aria-label={`Zoom to partition ${id}`}
            title={`Partition ${id}: zoom`}
            style={{ top: `${top * 100}%`, height: `${size * 100}%` }}
            onClick={() => onZoom(time, range)}
          >
            {size >= BRACKET_LABEL_MIN && <span>{id}</span>}
          </button>
        );
      })}
    </div>
  );
}

function Axis({ time, width }: { readonly time: TimeRange; readonly width: number }): JSX.Element {
  const length = time.to - time.from;
  return (
    <div class="parts-axis">
      {ticksOf(time, Math.max(width, 1)).map((tick) => {
        const share = (tick.seconds - time.from) / length;
        const edge = share < 0.04 ? "first" : share > 0.96 ? "last" : "";
        return (
          <span key={tick.seconds} class={edge} style={{ left: `${share * 100}%` }}>
            {tick.label}
          </span>
        );
      })}
      <small>{zoneName()}</small>
    </div>
  );
}

function CursorLines({ cell, grid }: { readonly cell: Cell; readonly grid: HeatGrid }): JSX.Element {
  return (
    <div
      class="parts-cursor"
      style={{
        left: `${(cell.pixel / grid.width) * 100}%`,
        top: `${(cell.part / grid.parts) * 100}%`,
        width: `${100 / grid.width}%`,
        height: `${100 / grid.parts}%`,
      }}
    />
  );
}

function Brush({ from, to }: { readonly from: Point; readonly to: Point }): JSX.Element {
  const left = Math.min(from.x, to.x);
  const top = Math.min(from.y, to.y);
  return (
    <div
      class="parts-brush"
      style={{
        left: `${left * 100}%`,
        top: `${top * 100}%`,
        width: `${Math.abs(to.x - from.x) * 100}%`,
        height: `${Math.abs(to.y - from.y) * 100}%`,
      }}
    />
  );
}

function Tip(props: {
  readonly cell: Cell;
  readonly grid: HeatGrid;
  readonly lines: readonly string[];
}): JSX.Element {
  const { cell, grid } = props;
  const x = (cell.pixel + 0.5) / grid.width;
  const y = (cell.part + 0.5) / grid.parts;
  const names = ["parts-tip", x > 0.5 ? "left" : "right", y > 0.5 ? "above" : "below"];
  const [first, ...rest] = props.lines;
  return (
    <div class={names.join(" ")} style={{ left: `${x * 100}%`, top: `${y * 100}%` }} aria-hidden="true">
      <strong>{first}</strong>
      {rest.map((line) => (
        <span key={line}>{line}</span>
      ))}
    </div>
  );
}
