/** The permissions of a user: list, create, delete, and tokens on demand. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { permissions, type Permission } from "../../../api/data.ts";
import { Button } from "../../../ui/button.tsx";
import { DataTable, type DataColumn } from "../../../ui/data-table.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { useResource } from "../../../ui/resource.ts";
import { Empty, Skeleton } from "../../../ui/states.tsx";
import { toast } from "../../../ui/toast.tsx";
import { useReadOnly } from "../requests.ts";
import { NewPermission } from "./new-permission.tsx";
import { TokenDialog } from "./token-dialog.tsx";

export interface PermissionsViewProps {
  readonly database: string;
  readonly user: string;
  readonly onClose: () => void;
  /** Deletes the user; null in a session that may only read. */
  readonly onDelete: (() => void) | null;
}

/** Draws the permissions. */
export function PermissionsView(props: PermissionsViewProps): JSX.Element {
  const { database, user } = props;
  const readOnly = useReadOnly();
  const list = useResource(() => permissions.all(database, user), [database, user]);
  const [isCreating, setCreating] = useState(false);
  const [shown, setShown] = useState<Permission | null>(null);
  const [deleting, setDeleting] = useState<Permission | null>(null);
  const remove = async (): Promise<void> => {
    if (deleting === null) return;
    await permissions.delete(database, user, deleting.id);
    toast(`The permission ${deleting.id} was deleted.`);
    list.reload();
  };
  const create = (
    <Button icon="plus" onClick={() => setCreating(true)}>
      New permission
    </Button>
  );
  return (
    <section class="stack" aria-label={`Permissions of ${user}`}>
      <header class="data-item-head">
        <Button kind="quiet" icon="close" label="Close the user" onClick={props.onClose} />
        <h2>{user}</h2>
        <span class="data-item-actions">
          {!readOnly && create}
          {props.onDelete && (
            <Button kind="quiet" icon="trash" label="Delete the user" onClick={props.onDelete} />
          )}
        </span>
      </header>
      {list.error && <ErrorView error={list.error} title="The permissions could not be read." onRetry={list.reload} />}
      {!list.value && !list.error && <Skeleton lines={3} />}
      {list.value?.length === 0 && (
        <Empty title="No permission yet." icon="key">
          A permission allows reading, or reading and writing, of one resource.
        </Empty>
      )}
      {list.value && list.value.length > 0 && (
        <DataTable
          label="Permissions"
          columns={columnsOf(setShown, readOnly ? null : setDeleting)}
          rows={list.value}
          rowId={(row) => row.id}
        />
      )}
      {isCreating && (
        <NewPermission
          database={database}
          user={user}
          onClose={() => setCreating(false)}
          onCreated={() => {
            setCreating(false);
            list.reload();
          }}
        />
      )}
      {shown && <TokenDialog database={database} user={user} permission={shown} onClose={() => setShown(null)} />}
      {deleting && (
        <ConfirmDialog title="Delete the permission" action="Delete permission" onConfirm={remove} onClose={() => setDeleting(null)}>
          <p>
            The permission <code>{deleting.id}</code> goes, and its tokens are refused from then on.
          </p>
        </ConfirmDialog>
      )}
    </section>
  );
}

function columnsOf(
  onShow: (permission: Permission) => void,
  onDelete: ((permission: Permission) => void) | null,
): readonly DataColumn<Permission>[] {
  return [
    { id: "id", header: "Name", value: (row) => row.id, isMono: true, width: 120 },
    {
      id: "mode",
      header: "Mode",
      value: (row) => row.permissionMode,
      cell: (row) => (row.permissionMode === "All" ? "read and write" : "read"),
      width: 100,
    },
    { id: "resource", header: "Resource", value: (row) => row.resource, isMono: true, width: 190 },
    {
      id: "key",
      header: "Partition key",
      value: (row) => (row.resourcePartitionKey ? JSON.stringify(row.resourcePartitionKey) : ""),
      isMono: true,
      width: 110,
    },
    {
      id: "actions",
      header: "Token",
      value: () => "",
      isUnsorted: true,
      width: 150,
      cell: (row) => (
        <span class="row">
          <Button kind="quiet" icon="key" onClick={() => onShow(row)}>
            Token
          </Button>
          {onDelete && (
            <Button kind="quiet" icon="trash" label={`Delete the permission ${row.id}`} onClick={() => onDelete(row)} />
          )}
        </span>
      ),
    },
  ];
}
