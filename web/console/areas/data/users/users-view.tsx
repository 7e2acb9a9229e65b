/** Users of a database and the permissions of the chosen user. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError } from "../../../api/client.ts";
import { users } from "../../../api/data.ts";
import { href, navigate, useAddress } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { ConfirmDialog, Dialog } from "../../../ui/dialog.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { TextField } from "../../../ui/field.tsx";
import { useResource } from "../../../ui/resource.ts";
import { Empty, Skeleton } from "../../../ui/states.tsx";
import { toast } from "../../../ui/toast.tsx";
import { messageOf } from "../form-problem.tsx";
import { idProblem } from "../logic/container-form.ts";
import { useReadOnly } from "../requests.ts";
import { reloadList } from "../tree/tree-store.ts";
import { PermissionsView } from "./permissions-view.tsx";

/** Draws the users. */
export function UsersView({ database }: { readonly database: string }): JSX.Element {
  const { query } = useAddress();
  const list = useResource(() => users.all(database), [database]);
  const readOnly = useReadOnly();
  const [deleting, setDeleting] = useState<string | null>(null);
  const openId = query.get("user");
  const address = (more: Record<string, string> = {}): string => href(["data", database], { view: "users", ...more });
  const changed = (): void => {
    list.reload();
    reloadList(`@users/${encodeURIComponent(database)}`);
  };
  if (list.error) {
    return <ErrorView error={list.error} title="The users could not be read." onRetry={list.reload} />;
  }
  if (!list.value) return <Skeleton lines={5} />;
  const create = (
    <Button icon="plus" onClick={() => navigate(address({ new: "user" }))}>
      New user
    </Button>
  );
  const remove = async (): Promise<void> => {
    if (deleting === null) return;
    await users.delete(database, deleting);
    toast(`The user ${deleting} was deleted.`);
    changed();
    navigate(address(), true);
  };
  return (
    <>
      {list.value.length === 0 && (
        <Empty title="No user yet." icon="key" actions={readOnly ? undefined : create}>
          A user holds permissions. The token of a permission gives a client access to one container, item or
          script, without the key of the account.
        </Empty>
      )}
      {list.value.length > 0 && (
        <div class={openId === null ? "data-split" : "data-split has-open"}>
          <nav class="data-list" aria-label="Users">
            {!readOnly && create}
            <ul>
              {list.value.map(({ id }) => (
                <li key={id}>
                  <a class="mono" href={address({ user: id })} aria-current={id === openId ? "page" : undefined}>
                    {id}
                  </a>
                </li>
              ))}
            </ul>
          </nav>
          {openId !== null && (
            <PermissionsView
              key={openId}
              database={database}
              user={openId}
              onClose={() => navigate(address())}
              onDelete={readOnly ? null : () => setDeleting(openId)}
            />
          )}
        </div>
      )}
      {query.get("new") === "user" && !readOnly && (
        <NewUser
          database={database}
          onClose={() => navigate(address(), true)}
          onCreated={(id) => {
            changed();
            navigate(address({ user: id }), true);
          }}
        />
      )}
      {deleting !== null && (
        <ConfirmDialog title="Delete the user" action="Delete user" name={deleting} onConfirm={remove} onClose={() => setDeleting(null)}>
          <p>All permissions of the user go, and their tokens are refused from then on.</p>
        </ConfirmDialog>
      )}
    </>
  );
}

function NewUser(props: {
  readonly database: string;
  readonly onClose: () => void;
  readonly onCreated: (id: string) => void;
}): JSX.Element {
  const [id, setId] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const found = idProblem(id);
    setProblem(found);
    if (found !== null || busy) return;
    setBusy(true);
    try {
      await users.create(props.database, id);
      toast(`The user ${id} was created.`);
      props.onCreated(id);
    } catch (refusal) {
      setProblem(messageOf(asApiError(refusal)));
      setBusy(false);
    }
  };
  return (
    <Dialog title="New user" onClose={props.onClose}>
      <form onSubmit={(event) => void submit(event)} noValidate>
        <TextField label="Name" value={id} onInput={setId} error={problem} mono autofocus />
        <footer class="actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy}>
            Create user
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
