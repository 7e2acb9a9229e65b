/** The list of columns of a table: search, tick what is shown. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button } from "./button.tsx";
import type { DataColumn } from "./data-table.tsx";
import { Dialog } from "./dialog.tsx";
import { CheckField, TextField } from "./field.tsx";
import type { TableState } from "./table-state.ts";

export interface ColumnPickerProps<T extends object> {
  readonly state: TableState<T>;
  readonly columns: readonly DataColumn<T>[];
}

/** Draws the button, and the list while it is open. */
export function ColumnPicker<T extends object>({ state, columns }: ColumnPickerProps<T>): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState("");
  const found = columns.filter(({ header }) => header.toLowerCase().includes(text.toLowerCase()));
  return (
    <div class="column-picker">
      <Button kind="quiet" icon="table" onClick={() => setOpen(true)}>
        Columns
      </Button>
      {isOpen && (
        <Dialog title="Columns" onClose={() => setOpen(false)}>
          <TextField label="Search columns" type="search" value={text} onInput={setText} />
          <div class="column-list">
            {found.map((column) => (
              <CheckField
                key={column.id}
                label={column.header}
                checked={state.isShown(column)}
                onChange={(isShown) => state.show(column, isShown)}
              />
            ))}
          </div>
        </Dialog>
      )}
    </div>
  );
}
