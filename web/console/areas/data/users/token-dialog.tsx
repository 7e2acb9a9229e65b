/** Shows a token of a permission on demand, with its end. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError, data, type ApiError } from "../../../api/client.ts";
import { path, type Permission } from "../../../api/data.ts";
import { Button, CopyButton } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { SelectField } from "../../../ui/field.tsx";
import { moment } from "../../../ui/format.ts";

export interface TokenDialogProps {
  readonly database: string;
  readonly user: string;
  readonly permission: Permission;
  readonly onClose: () => void;
}

const LIFETIMES = [
  ["600", "10 minutes"],
  ["3600", "1 hour"],
  ["18000", "5 hours"],
  ["86400", "24 hours"],
] as const;

type Lifetime = (typeof LIFETIMES)[number][0];

interface Token {
  readonly text: string;
  readonly end: Date;
}

/** Draws the dialog. A token is made when a person asks for one. */
export function TokenDialog({ database, user, permission, onClose }: TokenDialogProps): JSX.Element {
  const [lifetime, setLifetime] = useState<Lifetime>("3600");
  const [token, setToken] = useState<Token | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const make = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const at = path("dbs", database, "users", user, "permissions", permission.id);
      const reply = await data(at, { headers: { "x-ms-documentdb-expiry-seconds": lifetime } });
      const { _token } = reply.json() as Permission;
      setToken({ text: _token, end: new Date(Date.now() + Number(lifetime) * 1_000) });
    } catch (problem) {
      setError(asApiError(problem));
    }
    setBusy(false);
  };
  return (
    <Dialog title={`Token of ${permission.id}`} onClose={onClose}>
      <p>
        A client with the token may {permission.permissionMode === "All" ? "read and write" : "read"}{" "}
        <code>{permission.resource}</code> until the token ends or the permission is deleted.
      </p>
      <SelectField label="Valid for" value={lifetime} options={LIFETIMES} onChange={setLifetime} />
      {error && <ErrorView error={error} title="No token was made." />}
      {token && (
        <div class="stack">
          <textarea class="mono" readOnly rows={5} aria-label="Token" value={token.text} />
          <p class="row">
            <CopyButton text={token.text} label="Copy the token" />
            <span class="soft">Ends {moment(token.end)}.</span>
          </p>
        </div>
      )}
      <footer class="actions">
        <Button onClick={onClose}>Close</Button>
        <Button kind="primary" icon="key" busy={busy} onClick={() => void make()}>
          Show a token
        </Button>
      </footer>
    </Dialog>
  );
}
