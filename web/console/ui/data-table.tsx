/** Tables of records: sorting, widths, columns that a person picks, rows drawn only where visible.
 *
 * Promises: 100,000 rows scroll as one does; arrow keys, Home, End and the page keys move, Enter opens,
 * the space bar selects. At phone width a row is a card. Choices stay in the browser under `storeKey`.
 * Leaves out: reading the rows. */

import type { ComponentChildren, JSX } from "preact";
import { ColumnPicker } from "./column-picker.tsx";
import { Rows } from "./data-rows.tsx";
import { useTableState } from "./table-state.ts";

export interface DataColumn<T> {
  readonly id: string;
  readonly header: string;
  /** The value that sorting compares. */
  readonly value: (row: T) => string | number | boolean | null | undefined;
  /** What is drawn; by default the value as text. */
  readonly cell?: ((row: T) => ComponentChildren) | undefined;
  /** In pixels; 160 by default. */
  readonly width?: number | undefined;
  readonly isNumber?: boolean | undefined;
  readonly isMono?: boolean | undefined;
  readonly isHidden?: boolean | undefined;
  /** True keeps the column out of sorting. */
  readonly isUnsorted?: boolean | undefined;
}

export interface DataTableProps<T extends object> {
  /** The name for screen readers. */
  readonly label: string;
  readonly columns: readonly DataColumn<T>[];
  readonly rows: readonly T[];
  readonly rowId: (row: T, index: number) => string;
  /** Called on Enter and on a click on a row. */
  readonly onOpen?: ((row: T) => void) | undefined;
  /** The id of the row that is open beside the table. */
  readonly openId?: string | undefined;
  /** Ids of the selected rows; with `onSelect`, rows have a box to tick. */
  readonly selected?: ReadonlySet<string> | undefined;
  readonly onSelect?: ((selected: ReadonlySet<string>) => void) | undefined;
  /** The place in the browser that keeps the choice of columns and widths. */
  readonly storeKey?: string | undefined;
  /** A button that lists the columns. */
  readonly hasPicker?: boolean | undefined;
  /** Fills the height of its container instead of growing up to a bound. */
  readonly fill?: boolean | undefined;
}

/** Draws a table. */
export function DataTable<T extends object>(props: DataTableProps<T>): JSX.Element {
  const state = useTableState(props.columns, props.storeKey);
  return (
    <div class={props.fill ? "data-table fill" : "data-table"}>
      {props.hasPicker && <ColumnPicker state={state} columns={props.columns} />}
      <Rows state={state} props={props} />
    </div>
  );
}
