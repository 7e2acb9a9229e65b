/** The requests that the console made itself, with their charges: the newest first. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { requestLog, type LoggedRequest } from "../api/client.ts";
import { useAddress } from "../router.ts";
import { useStore } from "../store.ts";
import { CheckField } from "../ui/field.tsx";
import { DataTable, type DataColumn } from "../ui/data-table.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { clock, duration, plural, ru, ruNumber } from "../ui/format.ts";
import { Empty } from "../ui/states.tsx";

const COLUMNS: readonly DataColumn<LoggedRequest>[] = [
  { id: "at", header: "Time", value: (row) => row.at.getTime(), cell: (row) => clock(row.at), width: 80 },
  { id: "method", header: "Method", value: (row) => row.method, width: 76 },
  { id: "path", header: "Path", value: (row) => row.path, width: 260, isMono: true },
  { id: "status", header: "Status", value: (row) => row.status, width: 70, isNumber: true },
  { id: "charge", header: "RU", value: (row) => row.charge, cell: (row) => charge(row), width: 76, isNumber: true },
  { id: "ms", header: "Time taken", value: (row) => row.ms, cell: (row) => duration(row.ms), width: 96, isNumber: true },
];

function charge(row: LoggedRequest): string {
  return row.door === "data" ? ruNumber(row.charge) : "–";
}

/** Draws the list at the right edge. */
export default function OwnRequests({ onClose }: { readonly onClose: () => void }): JSX.Element {
  const log = useStore(requestLog);
  const [isAll, setAll] = useState(false);
  const { segments } = useAddress();
  const prefix = `#/${segments.map(encodeURIComponent).join("/")}`;
  const rows = log.filter((entry) => isAll || (entry.page === prefix && !entry.poll)).reverse();
  let sum = 0;
  for (const row of rows) sum += row.charge;
  return (
    <Dialog title="Requests of the console" place="side" onClose={onClose}>
      <p class="soft">
        {plural(rows.length, "request")}, {ru(sum)}. The console signs each as the owner of the account; the
        management API has no charge.
      </p>
      <CheckField label="All pages, and requests that repeat" checked={isAll} onChange={setAll} />
      {rows.length === 0 ? (
        <Empty title="This page made no request." icon="requests" />
      ) : (
        <DataTable label="Requests of the console" columns={COLUMNS} rows={rows} rowId={(row) => String(row.number)} />
      )}
    </Dialog>
  );
}
