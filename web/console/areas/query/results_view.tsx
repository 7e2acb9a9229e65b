/** The rows of a run as a table, as JSON, as a tree and as a chart, with copies and downloads. */

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Container, Json } from "../../api/data.ts";
import { isNumber, jsonText } from "../../api/exact-json.ts";
import { Button } from "../../ui/button.tsx";
import { copyText, saveFile } from "../../ui/clipboard.ts";
import { type DataColumn, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Editor } from "../../ui/editor.tsx";
import { count, bytes } from "../../ui/format.ts";
import { Menu } from "../../ui/menu.tsx";
import { Banner } from "../../ui/states.tsx";
import { toCsv, toJson } from "./export_rows.ts";
import type { RunState } from "./run.ts";
import { cellText, cellValue, type Column, isRecord, isSystemColumn, sortedIndexes } from "./table.ts";

/** Characters of JSON that the editor shows; more would make it slow. */
const JSON_SHOWN_MAX = 500_000;
const NUMBER_WIDTH = 64;

interface TableRow {
  readonly index: number;
  readonly row: Json;
}

export interface ResultsProps {
  readonly run: RunState;
  readonly definition: Container | undefined;
  /** Opens the item of a row in the items tab. */
  readonly onEdit: (row: Json) => void;
}

/** Returns true if a row has what the items tab needs: the id and the partition key. */
export function isWholeItem(row: unknown, definition: Container | undefined): boolean {
  if (!isRecord(row) || !definition) return false;
  return ["id", "_rid", "_self", "_etag"].every((name) => typeof row[name] === "string");
}

/** Draws the rows as a table. */
export function TableView({ run, definition, onEdit }: ResultsProps): JSX.Element {
  const [open, setOpen] = useState<TableRow | null>(null);
  const { list, leftOut } = useMemo(() => run.columns.columns(), [run.rows]);
  const rows = useMemo(() => run.rows.map((row, index) => ({ index, row })), [run.rows]);
  // The table keeps the columns while their names stay, so they read the newest rows through this.
  const newest = useRef(run.rows);
  newest.current = run.rows;
  const tableColumns = useMemo(() => dataColumns(list, newest), [run.rows]);
  return (
    <div class="query-table">
      {leftOut > 0 && (
        <Banner>The items have more members: {count(leftOut)} have no column. The JSON has all.</Banner>
      )}
      <DataTable
        label="Rows"
        columns={tableColumns}
        rows={rows}
        rowId={({ index }) => String(index)}
        onOpen={setOpen}
        openId={open ? String(open.index) : undefined}
        hasPicker
      />
      {open && (
        <RowDialog
          row={open}
          onClose={() => setOpen(null)}
          onEdit={isWholeItem(open.row, definition) ? onEdit : undefined}
        />
      )}
    </div>
  );
}

/** The rows of the run, which grow while pages are loaded. */
interface NewestRows {
  readonly current: readonly Json[];
}

function dataColumns(columns: readonly Column[], rows: NewestRows): DataColumn<TableRow>[] {
  const number: DataColumn<TableRow> = {
    id: "#",
    header: "#",
    value: ({ index }) => index,
    cell: ({ index }) => count(index + 1),
    width: NUMBER_WIDTH,
    isNumber: true,
  };
  return [number, ...columns.map((column, at) => dataColumn(column, at, rows))];
}

function dataColumn(column: Column, at: number, rows: NewestRows): DataColumn<TableRow> {
  // Values of mixed types are compared by their place in the sorted column.
  let places = new Uint32Array(0);
  let placed: readonly Json[] | null = null;
  const placeOf = (index: number): number => {
    if (placed !== rows.current) {
      placed = rows.current;
      places = new Uint32Array(placed.length);
      for (const [place, row] of sortedIndexes(placed, column, false).entries()) places[row] = place;
    }
    return places[index] ?? 0;
  };
  const looked = rows.current.slice(0, 50).map((row) => cellValue(row, column));
  const known = looked.filter((value) => value !== undefined);
  const isNumeric = known.length > 0 && known.every(isNumber);
  return {
    id: `${at}:${column.title}`,
    header: column.title,
    value: ({ index, row }) => (cellValue(row, column) === undefined ? undefined : placeOf(index)),
    cell: ({ row }) => <Cell value={cellValue(row, column)} />,
    isNumber: isNumeric,
    isMono: true,
    isHidden: isSystemColumn(column) && columnIsNoise(column),
    width: isNumeric ? 110 : 180,
  };
}

/** All system properties but the time of the last change are hidden at first. */
function columnIsNoise(column: Column): boolean {
  return column.name !== "_ts";
}

function Cell({ value }: { readonly value: unknown }): JSX.Element {
  if (value === undefined) return <span class="query-missing" />;
  if (value === null) return <span class="query-null">null</span>;
  if (typeof value === "object" && !isNumber(value)) return <span class="query-nested">{cellText(value)}</span>;
  return <span>{cellText(value)}</span>;
}

interface RowDialogProps {
  readonly row: TableRow;
  readonly onClose: () => void;
  readonly onEdit: ((row: Json) => void) | undefined;
}

function RowDialog({ row, onClose, onEdit }: RowDialogProps): JSX.Element {
  const text = useMemo(() => jsonText(row.row, 2), [row]);
  return (
    <Dialog title={`Row ${count(row.index + 1)}`} place="side" wide onClose={onClose}>
      <div class="actions">
        <Button icon="copy" onClick={() => void copyText(text)}>
          Copy
        </Button>
        {onEdit && (
          <Button icon="edit" onClick={() => onEdit(row.row)}>
            Edit item
          </Button>
        )}
      </div>
      <CutJson text={text} label={`Row ${row.index + 1} as JSON`} />
    </Dialog>
  );
}

/** Draws JSON, cut to a length that the editor bears. */
function CutJson({ text, label }: { readonly text: string; readonly label: string }): JSX.Element {
  const isCut = text.length > JSON_SHOWN_MAX;
  return (
    <>
      {isCut && (
        <Banner>
          The first {bytes(JSON_SHOWN_MAX)} of {bytes(text.length)} are shown. Copy or download to get
          all.
        </Banner>
      )}
      <Editor
        label={label}
        value={isCut ? text.slice(0, JSON_SHOWN_MAX) : text}
        language={isCut ? "text" : "json"}
        readOnly
        size="content"
      />
    </>
  );
}

/** Draws the rows as JSON. */
export function JsonView({ run }: { readonly run: RunState }): JSX.Element {
  const { text, shown } = useMemo(() => boundedRows(run.rows), [run.rows]);
  return (
    <div class="query-json">
      {shown < run.rows.length && (
        <Banner>
          The first {count(shown)} of {count(run.rows.length)} rows are shown. Download to get all.
        </Banner>
      )}
      <CutJson text={text} label="Rows as JSON" />
    </div>
  );
}

/** Returns the JSON of as many rows as the editor bears. */
function boundedRows(rows: readonly Json[]): { text: string; shown: number } {
  const parts: string[] = [];
  let length = 0;
  for (const row of rows) {
    if (length > JSON_SHOWN_MAX) break;
    const part = jsonText(row, 2).replaceAll("\n", "\n  ");
    length += part.length;
    parts.push(part);
  }
  const text = parts.length === 0 ? "[]" : `[\n  ${parts.join(",\n  ")}\n]`;
  return { text, shown: parts.length };
}

/** Draws the menu of copies and downloads. */
export function ResultActions({ run, name }: { readonly run: RunState; readonly name: string }): JSX.Element {
  const rows = run.rows;
  const list = (): readonly Column[] => run.columns.columns().list;
  return (
    <Menu
      label="Copy or download"
      kind="plain"
      items={[
        { label: "Copy JSON", icon: "copy", onSelect: () => void copyText(toJson(rows)) },
        { label: "Copy CSV", icon: "copy", onSelect: () => void copyText(toCsv(rows, list())) },
        { label: "Download JSON", icon: "download", onSelect: () => saveFile(`${name}.json`, toJson(rows)) },
        {
          label: "Download CSV",
          icon: "download",
          onSelect: () => saveFile(`${name}.csv`, toCsv(rows, list()), "text/csv"),
        },
      ]}
    >
      Copy or download
    </Menu>
  );
}
