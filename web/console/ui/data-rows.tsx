/** The head and the rows of a `DataTable`: which are drawn, how keys move through them. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { DataColumn, DataTableProps } from "./data-table.tsx";
import { scrollerOf, topOf, useScrolled } from "./scrolled.ts";
import { useSorted, type TableState } from "./table-state.ts";

const ROW_PX = 32;
const SELECT_PX = 40;
const CARD_LINE_PX = 26;
const CARD_SPACE_PX = 18;
const SPARE_ROWS = 10;
/** Below this number all rows are drawn, so that searching in the page finds them. */
const DRAWN_MAX = 200;

interface RowsProps<T extends object> {
  readonly state: TableState<T>;
  readonly props: DataTableProps<T>;
}

/** Draws the scrolling part of a table. */
export function Rows<T extends object>({ state, props }: RowsProps<T>): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const isNarrow = useNarrow();
  const byId = new Map(props.columns.map((column) => [column.id, column]));
  const sorted = useSorted(props.rows, byId, state.order);
  const rows = useMemo(() => identified(sorted, props.rows, props.rowId), [sorted, props.rows]);
  const headers = state.shown;
  const height = isNarrow ? headers.length * CARD_LINE_PX + CARD_SPACE_PX : ROW_PX;
  const { first, end } = useWindow(scroller, rows.length, height);
  const current = Math.min(active, Math.max(0, rows.length - 1));
  const move = (next: number): void => {
    const at = Math.max(0, Math.min(rows.length - 1, next));
    setActive(at);
    focusRow(scroller.current, at, height);
  };
  const press = (event: KeyboardEvent): void => {
    if (!(event.target instanceof HTMLTableRowElement)) return;
    const page = Math.max(1, Math.floor((scroller.current ? scrollerOf(scroller.current).clientHeight : height) / height) - 1);
    const next = target(event.key, current, page, rows.length);
    const row = rows[current];
    if (next !== null) move(next);
    else if (event.key === "Enter" && row && props.onOpen) props.onOpen(row.value);
    else if (event.key === " " && row && props.onSelect) toggle(props, row.id);
    else return;
    event.preventDefault();
  };
  let width = props.onSelect ? SELECT_PX : 0;
  for (const column of headers) width += state.widthOf(column);
  return (
    <div class="table-scroller" ref={scroller} role="region" aria-label={props.label} tabIndex={rows.length > 0 ? -1 : 0}>
      <table
        role="grid"
        aria-label={props.label}
        aria-rowcount={rows.length + 1}
        style={isNarrow ? undefined : { minWidth: "100%", width: `${width}px` }}
        onKeyDown={press}
      >
        <Head state={state} props={props} rows={rows} />
        <tbody>
          {first > 0 && <Space rows={first} height={height} columns={headers.length + 1} />}
          {rows.slice(first, end).map((row, at) => (
            <BodyRow
              key={row.id}
              row={row}
              index={first + at}
              isActive={first + at === current}
              height={height}
              columns={headers}
              props={props}
              onFocus={setActive}
            />
          ))}
          {end < rows.length && <Space rows={rows.length - end} height={height} columns={headers.length + 1} />}
        </tbody>
      </table>
    </div>
  );
}

/** A row with its id, which belongs to its place before sorting. */
interface Identified<T> {
  readonly id: string;
  readonly value: T;
}

function identified<T>(
  sorted: readonly T[],
  rows: readonly T[],
  rowId: (row: T, index: number) => string,
): readonly Identified<T>[] {
  const ids = new Map<T, string>();
  for (const [index, row] of rows.entries()) ids.set(row, rowId(row, index));
  return sorted.map((value) => ({ id: ids.get(value) ?? "", value }));
}

/** Rows that are not drawn take their place. */
function Space(props: { readonly rows: number; readonly height: number; readonly columns: number }): JSX.Element {
  return (
    <tr class="space" aria-hidden="true">
      <td colSpan={props.columns} style={{ height: `${props.rows * props.height}px` }} />
    </tr>
  );
}

function target(key: string, at: number, page: number, length: number): number | null {
  switch (key) {
    case "ArrowDown":
      return at + 1;
    case "ArrowUp":
      return at - 1;
    case "PageDown":
      return at + page;
    case "PageUp":
      return at - page;
    case "Home":
      return 0;
    case "End":
      return length - 1;
    default:
      return null;
  }
}

/** Scrolls to a row, and focuses it once it is drawn. */
function focusRow(scroller: HTMLElement | null, index: number, height: number): void {
  if (!scroller) return;
  const box = scrollerOf(scroller);
  // The head stays in view where the table itself scrolls.
  const head = scroller.querySelector("thead")?.offsetHeight ?? 0;
  const top = index * height + (box === scroller ? 0 : head);
  const seen = box.clientHeight - (box === scroller ? head : 0);
  const first = topOf(scroller, box);
  if (top < first) box.scrollTop += top - first;
  else if (top + height > first + seen) box.scrollTop += top + height - seen - first;
  requestAnimationFrame(() => {
    requestAnimationFrame(() => scroller.querySelector<HTMLElement>(`tr[aria-rowindex="${index + 2}"]`)?.focus());
  });
}

function toggle<T extends object>(props: DataTableProps<T>, id: string): void {
  const selected = new Set(props.selected);
  if (!selected.delete(id)) selected.add(id);
  props.onSelect?.(selected);
}

interface HeadProps<T extends object> {
  readonly state: TableState<T>;
  readonly props: DataTableProps<T>;
  readonly rows: readonly Identified<T>[];
}

function Head<T extends object>({ state, props, rows }: HeadProps<T>): JSX.Element {
  const isAll = rows.length > 0 && rows.every((row) => props.selected?.has(row.id));
  const all = (): void => props.onSelect?.(isAll ? new Set() : new Set(rows.map((row) => row.id)));
  return (
    <thead>
      <tr aria-rowindex={1}>
        {props.onSelect && (
          <th scope="col" class="select-cell">
            <input type="checkbox" aria-label="Select all rows" checked={isAll} onChange={all} />
          </th>
        )}
        {state.shown.map((column) => (
          <HeadCell key={column.id} column={column} state={state} />
        ))}
      </tr>
    </thead>
  );
}

function HeadCell<T extends object>(props: {
  readonly column: DataColumn<T>;
  readonly state: TableState<T>;
}): JSX.Element {
  const { column, state } = props;
  const width = state.widthOf(column);
  const order = state.order?.id === column.id ? state.order : null;
  const sorted = order && (order.isDescending ? "descending" : "ascending");
  return (
    <th
      scope="col"
      class={column.isNumber ? "number" : undefined}
      aria-sort={sorted ?? undefined}
      style={{ width: `${width}px` }}
    >
      {column.isUnsorted ? (
        column.header
      ) : (
        <button type="button" class="sort" onClick={() => state.sort(column)}>
          {column.header}
          <span aria-hidden="true">{order ? (order.isDescending ? " ↓" : " ↑") : ""}</span>
        </button>
      )}
      <Edge width={width} onWidth={(next) => state.resize(column, next)} />
    </th>
  );
}

/** The right edge of a column's head; dragging it changes the width. */
function Edge(props: { readonly width: number; readonly onWidth: (width: number) => void }): JSX.Element {
  const start = useRef<{ readonly x: number; readonly width: number } | null>(null);
  const grab = (event: PointerEvent & { readonly currentTarget: HTMLElement }): void => {
    event.preventDefault();
    event.currentTarget.setPointerCapture(event.pointerId);
    start.current = { x: event.clientX, width: props.width };
  };
  const drag = (event: PointerEvent): void => {
    if (start.current) props.onWidth(start.current.width + event.clientX - start.current.x);
  };
  const release = (): void => {
    start.current = null;
  };
  return (
    <span
      class="resize"
      aria-hidden="true"
      onPointerDown={grab}
      onPointerMove={drag}
      onPointerUp={release}
      onPointerCancel={release}
    />
  );
}

interface BodyRowProps<T extends object> {
  readonly row: Identified<T>;
  readonly index: number;
  readonly isActive: boolean;
  readonly height: number;
  readonly columns: readonly DataColumn<T>[];
  readonly props: DataTableProps<T>;
  readonly onFocus: (index: number) => void;
}

function BodyRow<T extends object>(given: BodyRowProps<T>): JSX.Element {
  const { row, props, columns } = given;
  const isSelected = props.selected?.has(row.id) ?? false;
  const isOpen = props.openId === row.id;
  return (
    <tr
      tabIndex={given.isActive ? 0 : -1}
      aria-rowindex={given.index + 2}
      aria-selected={props.onSelect ? isSelected : isOpen || undefined}
      class={isOpen ? "open" : props.onOpen ? "opens" : undefined}
      style={{ height: `${given.height}px` }}
      onFocus={() => given.onFocus(given.index)}
      onClick={() => props.onOpen?.(row.value)}
    >
      {props.onSelect && (
        <td class="select-cell" onClick={(event) => event.stopPropagation()}>
          <input
            type="checkbox"
            aria-label={`Select ${row.id}`}
            tabIndex={-1}
            checked={isSelected}
            onChange={() => toggle(props, row.id)}
          />
        </td>
      )}
      {columns.map((column) => (
        <td key={column.id} class={classOf(column)} data-label={column.header}>
          {content(column, row.value)}
        </td>
      ))}
    </tr>
  );
}

function classOf<T>(column: DataColumn<T>): string | undefined {
  const names = [column.isNumber ? "number" : "", column.isMono ? "mono" : ""].filter(Boolean);
  return names.length > 0 ? names.join(" ") : undefined;
}

function content<T>(column: DataColumn<T>, row: T): ComponentChildren {
  if (column.cell) return column.cell(row);
  const value = column.value(row);
  return value === null || value === undefined ? "" : String(value);
}

/** Returns which rows are visible in the scroller, with some to spare. */
function useWindow(
  scroller: { readonly current: HTMLElement | null },
  length: number,
  height: number,
): { first: number; end: number } {
  const span = useScrolled(scroller, 900);
  if (length <= DRAWN_MAX) return { first: 0, end: length };
  const first = Math.max(0, Math.floor(span.top / height) - SPARE_ROWS);
  const drawn = Math.ceil(span.seen / height) + 2 * SPARE_ROWS;
  return { first: Math.min(first, Math.max(0, length - drawn)), end: Math.min(length, first + drawn) };
}

const NARROW = "(max-width: 640px)";

/** Returns true at phone width. */
export function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const list = matchMedia(NARROW);
    const read = (): void => setNarrow(list.matches);
    list.addEventListener("change", read);
    return () => list.removeEventListener("change", read);
  }, []);
  return isNarrow;
}
