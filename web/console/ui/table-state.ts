/** What a person chose in a table: order, columns, widths. Columns and widths stay in the browser. */

import { useMemo, useState } from "preact/hooks";
import type { DataColumn } from "./data-table.tsx";

export interface Order {
  readonly id: string;
  readonly isDescending: boolean;
}

interface Choice {
  readonly visibility: Readonly<Record<string, boolean>>;
  readonly sizing: Readonly<Record<string, number>>;
}

export interface TableState<T> {
  /** The columns that are shown. */
  readonly shown: readonly DataColumn<T>[];
  /** Null keeps the order of the rows as they came. */
  readonly order: Order | null;
  readonly isShown: (column: DataColumn<T>) => boolean;
  readonly widthOf: (column: DataColumn<T>) => number;
  readonly show: (column: DataColumn<T>, isShown: boolean) => void;
  readonly resize: (column: DataColumn<T>, width: number) => void;
  /** Sorts by a column; again in the other direction; then as the rows came. */
  readonly sort: (column: DataColumn<T>) => void;
}

const WIDTH = 160;
const WIDTH_MIN = 48;

/** Keeps the choices of a table; with a key also over reloads. */
export function useTableState<T>(columns: readonly DataColumn<T>[], storeKey: string | undefined): TableState<T> {
  const [choice, setChoice] = useState(() => kept(storeKey));
  const [order, setOrder] = useState<Order | null>(null);
  const choose = (part: Partial<Choice>): void => {
    setChoice((before) => {
      const after = { ...before, ...part };
      keep(storeKey, after);
      return after;
    });
  };
  const isShown = (column: DataColumn<T>): boolean => choice.visibility[column.id] ?? !column.isHidden;
  return {
    shown: columns.filter(isShown),
    order,
    isShown,
    widthOf: ({ id, width }) => choice.sizing[id] ?? width ?? WIDTH,
    show: ({ id }, isNowShown) => choose({ visibility: { ...choice.visibility, [id]: isNowShown } }),
    resize: ({ id }, width) => choose({ sizing: { ...choice.sizing, [id]: Math.max(WIDTH_MIN, Math.round(width)) } }),
    sort: (column) => setOrder(next(order, column)),
  };
}

/** Numbers are first sorted from the highest, texts from the lowest. */
function next<T>(order: Order | null, { id, isNumber }: DataColumn<T>): Order | null {
  const first = isNumber ?? false;
  if (order?.id !== id) return { id, isDescending: first };
  return order.isDescending === first ? { id, isDescending: !first } : null;
}

/** Returns the rows in the chosen order; rows without a value are last. */
export function useSorted<T>(
  rows: readonly T[],
  columns: ReadonlyMap<string, DataColumn<T>>,
  order: Order | null,
): readonly T[] {
  return useMemo(() => {
    const column = order && columns.get(order.id);
    if (!column) return rows;
    const sign = order.isDescending ? -1 : 1;
    const keyed = rows.map((row) => ({ row, value: column.value(row) }));
    keyed.sort((left, right) => {
      const isLeftNone = left.value === undefined || left.value === null;
      const isRightNone = right.value === undefined || right.value === null;
      if (isLeftNone || isRightNone) return Number(isLeftNone) - Number(isRightNone);
      return sign * compared(left.value ?? 0, right.value ?? 0);
    });
    return keyed.map(({ row }) => row);
  }, [rows, order]);
}

type Value = string | number | boolean;

function compared(left: Value, right: Value): number {
  // Values of a column may have several types; those of one type stand together.
  if (typeof left !== typeof right) return typeof left < typeof right ? -1 : 1;
  return left < right ? -1 : left > right ? 1 : 0;
}

function kept(key: string | undefined): Choice {
  const nothing = { visibility: {}, sizing: {} };
  if (key === undefined) return nothing;
  try {
    const value = JSON.parse(localStorage.getItem(`orrery.table.${key}`) ?? "null") as Choice | null;
    return { visibility: { ...value?.visibility }, sizing: { ...value?.sizing } };
  } catch {
    return nothing;
  }
}

function keep(key: string | undefined, choice: Choice): void {
  if (key === undefined) return;
  try {
    localStorage.setItem(`orrery.table.${key}`, JSON.stringify(choice));
  } catch {
    // Without storage the choice lasts until the page closes.
  }
}
