/** The conflicts of a container: writes of several regions that the last writer overwrote. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ContainerProps } from "../../areas.ts";
import { conflicts, type JsonObject } from "../../api/data.ts";
import { Button } from "../../ui/button.tsx";
import { ConfirmDialog } from "../../ui/dialog.tsx";
import { DataTable, type DataColumn } from "../../ui/data-table.tsx";
import { Editor } from "../../ui/editor.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { useResource } from "../../ui/resource.ts";
import { Empty, Skeleton } from "../../ui/states.tsx";

const COLUMNS: readonly DataColumn<JsonObject>[] = [
  { id: "id", header: "id", value: (row) => String(row["id"]), isMono: true },
  { id: "operation", header: "Operation", value: (row) => String(row["operationType"] ?? "") },
  { id: "resource", header: "Resource", value: (row) => String(row["resourceType"] ?? "") },
];

/** Draws the tab. */
export default function ConflictsTab({ database, container }: ContainerProps): JSX.Element {
  const list = useResource(() => conflicts.all(database, container), [database, container]);
  const [open, setOpen] = useState<JsonObject | null>(null);
  const [isDeleting, setDeleting] = useState(false);
  if (list.error) {
    return <ErrorView error={list.error} title="The conflicts could not be read." onRetry={list.reload} />;
  }
  if (!list.value) return <Skeleton lines={4} />;
  if (list.value.length === 0) {
    return (
      <Empty title="No conflicts." icon="check">
        Conflicts arise when several regions accept writes. This account has one write region, so a write
        is always checked against the newest version.
      </Empty>
    );
  }
  const remove = async (): Promise<void> => {
    await conflicts.delete(database, container, String(open?.["id"]));
    setOpen(null);
    list.reload();
  };
  return (
    <div class="stack">
      <DataTable
        label="Conflicts"
        columns={COLUMNS}
        rows={list.value}
        rowId={(row) => String(row["id"])}
        onOpen={setOpen}
      />
      {open && (
        <>
          <Editor label="Conflict as JSON" language="json" value={JSON.stringify(open, null, 2)} readOnly />
          <div>
            <Button icon="trash" onClick={() => setDeleting(true)}>
              Delete conflict
            </Button>
          </div>
        </>
      )}
      {isDeleting && (
        <ConfirmDialog title="Delete the conflict" action="Delete conflict" onConfirm={remove} onClose={() => setDeleting(false)}>
          <p>The losing version goes. The item stays as it is.</p>
        </ConfirmDialog>
      )}
    </div>
  );
}
