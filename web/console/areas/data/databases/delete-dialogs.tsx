/** Dialogs that delete a database or a container: they say what goes and ask for the name. */

import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { containers, databases } from "../../../api/data.ts";
import { href, navigate } from "../../../router.ts";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { bytes, plural } from "../../../ui/format.ts";
import { useResource } from "../../../ui/resource.ts";
import { Skeleton } from "../../../ui/states.tsx";
import { toast } from "../../../ui/toast.tsx";
import { feeds, queryResources, readContainer } from "../requests.ts";
import { forgetFavourite, reloadList } from "../tree/tree-store.ts";

/** Draws the dialog that deletes a container. */
export function DeleteContainer(props: {
  readonly database: string;
  readonly container: string;
  readonly onClose: () => void;
}): JSX.Element {
  const { database, container } = props;
  const state = useResource((signal) => readContainer(database, container, signal), [database, container]);
  const isGone = useRef(false);
  const remove = async (): Promise<void> => {
    await containers.delete(database, container);
    isGone.current = true;
    forgetFavourite([database, container]);
    reloadList(encodeURIComponent(database));
    toast(`Container ${container} was deleted.`);
  };
  return (
    <ConfirmDialog
      title="Delete the container"
      action="Delete container"
      name={container}
      onConfirm={remove}
      onClose={() => (isGone.current ? navigate(href(["data", database]), true) : props.onClose())}
    >
      {state.value ? (
        <p>
          {plural(state.value.items ?? 0, "item")} and {bytes(state.value.bytes ?? 0)} of data go, with all
          procedures, triggers and functions. Deletion cannot be undone.
        </p>
      ) : state.error ? (
        <p>All items, procedures, triggers and functions go. Deletion cannot be undone.</p>
      ) : (
        <Skeleton lines={2} />
      )}
    </ConfirmDialog>
  );
}

interface Loss {
  readonly containers: number;
  readonly items: number;
  readonly bytes: number;
  /** Containers whose size was not read, because there are many. */
  readonly unread: number;
}

/** Containers whose size the dialog reads before it shows a sum. */
const READ_MAX = 25;

async function lossOf(database: string, signal: AbortSignal): Promise<Loss> {
  const feed = feeds.containers(database);
  const count = await queryResources<number>(feed, "SELECT VALUE COUNT(1) FROM c", [], null, signal);
  const names = await queryResources<string>(feed, `SELECT TOP ${READ_MAX} VALUE c.id FROM c`, [], null, signal);
  const states = await Promise.all(names.rows.map((name) => readContainer(database, name, signal)));
  let items = 0;
  let size = 0;
  for (const state of states) {
    items += state.items ?? 0;
    size += state.bytes ?? 0;
  }
  const all = count.rows[0] ?? states.length;
  return { containers: all, items, bytes: size, unread: all - states.length };
}

/** Draws the dialog that deletes a database. */
export function DeleteDatabase(props: {
  readonly database: string;
  readonly onClose: () => void;
}): JSX.Element {
  const { database } = props;
  const loss = useResource((signal) => lossOf(database, signal), [database]);
  const isGone = useRef(false);
  const remove = async (): Promise<void> => {
    await databases.delete(database);
    isGone.current = true;
    reloadList("");
    toast(`Database ${database} was deleted.`);
  };
  return (
    <ConfirmDialog
      title="Delete the database"
      action="Delete database"
      name={database}
      onConfirm={remove}
      onClose={() => (isGone.current ? navigate(href(["data"]), true) : props.onClose())}
    >
      {loss.value ? (
        <p>
          {plural(loss.value.containers, "container")} with {loss.value.unread > 0 ? "at least " : ""}
          {plural(loss.value.items, "item")} and {bytes(loss.value.bytes)} of data go, and all users of the
          database. Deletion cannot be undone.
        </p>
      ) : loss.error ? (
        <p>All containers with their items and all users go. Deletion cannot be undone.</p>
      ) : (
        <Skeleton lines={2} />
      )}
    </ConfirmDialog>
  );
}
