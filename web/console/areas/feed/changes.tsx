/** The changes of the tail as a table, and one change with its differences. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { jsonText } from "../../api/exact-json.ts";
import { Button, CopyButton } from "../../ui/button.tsx";
import { copyText, csv } from "../../ui/clipboard.ts";
import { DataTable, type DataColumn } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { clock, count, moment, plural } from "../../ui/format.ts";
import { Badge } from "../../ui/states.tsx";
import { withoutSystem, type Difference, type JsonValue } from "./diff.ts";
import { CHANGES_MAX, type ShownChange } from "./tail.ts";

export interface ChangesProps {
  readonly changes: readonly ShownChange[];
  readonly total: number;
}

/** Draws the table. */
export function Changes({ changes, total }: ChangesProps): JSX.Element {
  const [open, setOpen] = useState<ShownChange | null>(null);
  return (
    <div class="feed-changes">
      <div class="feed-changes-head">
        <span class="soft">
          {total > CHANGES_MAX ? `The newest ${count(CHANGES_MAX)} of ${count(total)}` : plural(total, "change")}
        </span>
        <Button kind="quiet" icon="copy" onClick={() => void copyText(csv(csvRows(changes)))}>
          Copy as CSV
        </Button>
      </div>
      <DataTable
        label="Changed items"
        columns={COLUMNS}
        rows={changes}
        rowId={(change) => String(change.number)}
        openId={open === null ? undefined : String(open.number)}
        onOpen={setOpen}
        storeKey="feed"
      />
      {open && <ChangeDetails change={open} onClose={() => setOpen(null)} />}
    </div>
  );
}

const COLUMNS: readonly DataColumn<ShownChange>[] = [
  {
    id: "time",
    header: "Time",
    value: (change) => change.number,
    cell: (change) => (
      <span title={moment(new Date(change.seconds * 1_000))}>{clock(new Date(change.seconds * 1_000))}</span>
    ),
    width: 84,
  },
  {
    id: "operation",
    header: "Change",
    value: (change) => change.operation,
    cell: (change) => <Operation change={change} />,
    width: 92,
  },
  { id: "item", header: "Item", value: (change) => change.id, width: 116, isMono: true },
  { id: "what", header: "What changed", value: whatChanged, width: 176 },
  { id: "partition", header: "Partition", value: (change) => Number(change.rangeId), width: 84, isNumber: true },
  { id: "lsn", header: "LSN", value: (change) => change.lsn, cell: (change) => count(change.lsn), width: 60, isNumber: true },
];

function Operation({ change }: { readonly change: ShownChange }): JSX.Element {
  if (change.operation === "delete") {
    return <Badge kind="bad">{change.timeToLiveExpired ? "expired" : "delete"}</Badge>;
  }
  if (change.operation === "create") return <Badge kind="good">create</Badge>;
  if (change.operation === "replace") return <Badge kind="info">replace</Badge>;
  return <Badge kind={change.isKnown ? "info" : "good"}>{change.isKnown ? "changed" : "written"}</Badge>;
}

function whatChanged(change: ShownChange): string {
  if (change.operation === "delete") return "the item is gone";
  if (change.changed === null) return "first version seen here";
  if (change.changed.length === 0) return "the same content again";
  const paths = change.changed.slice(0, 3).map(({ path }) => path);
  const more = change.changed.length - paths.length;
  return paths.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function ChangeDetails(props: { readonly change: ShownChange; readonly onClose: () => void }): JSX.Element {
  const { change } = props;
  const item = change.item ?? change.previous;
  const text = item === null ? "" : jsonText(withoutSystem(item), 2);
  return (
    <Dialog title={`Change of ${change.id}`} place="side" onClose={props.onClose}>
      <div class="feed-details">
        <p class="row">
          <Operation change={change} />
          <span class="soft">
            {moment(new Date(change.seconds * 1_000))}, partition {change.rangeId}, LSN {count(change.lsn)}
          </span>
        </p>
        <h3>Difference to the version before</h3>
        <DifferenceTable change={change} />
        {item !== null && (
          <>
            <div class="feed-changes-head">
              <h3>{change.item === null ? "The last version" : "This version"}</h3>
              <CopyButton text={text} label="Copy the item" />
            </div>
            <pre tabIndex={0}>{text}</pre>
          </>
        )}
      </div>
    </Dialog>
  );
}

function DifferenceTable({ change }: { readonly change: ShownChange }): JSX.Element {
  const { changed } = change;
  if (change.operation === "delete") return <p class="soft">The item was deleted.</p>;
  if (changed === null) {
    return <p class="soft">This tail has not seen a version before. The next change is compared with this one.</p>;
  }
  if (changed.length === 0) return <p class="soft">The content is the same; only system properties differ.</p>;
  return (
    <table class="feed-diff">
      <thead>
        <tr>
          <th scope="col">Path</th>
          <th scope="col">Before</th>
          <th scope="col">After</th>
        </tr>
      </thead>
      <tbody>
        {changed.map((difference) => (
          <tr key={difference.path} class={difference.kind}>
            <th scope="row">
              <code>{difference.path}</code>
            </th>
            <td>{valueText(difference, "before")}</td>
            <td>{valueText(difference, "after")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const VALUE_CHARACTERS = 400;

function valueText(difference: Difference, side: "before" | "after"): JSX.Element {
  const value: JsonValue | undefined = difference[side];
  if (value === undefined) return <span class="soft">absent</span>;
  const text = jsonText(value);
  const shown = text.length > VALUE_CHARACTERS ? `${text.slice(0, VALUE_CHARACTERS)}…` : text;
  return <code title={text.length > VALUE_CHARACTERS ? `${text.length} characters` : undefined}>{shown}</code>;
}

function csvRows(changes: readonly ShownChange[]): (string | number)[][] {
  const rows: (string | number)[][] = [["time", "operation", "id", "partition", "lsn", "what"]];
  for (const change of changes) {
    const time = new Date(change.seconds * 1_000).toISOString();
    rows.push([time, change.operation, change.id, change.rangeId, change.lsn, whatChanged(change)]);
  }
  return rows;
}
