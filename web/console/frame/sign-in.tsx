/** Signing in with a management key: as a page, and over the page when a session ended. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError, session, sessionEnded, signIn, type ApiError } from "../api/client.ts";
import { useStore } from "../store.ts";
import { Button } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { TextField } from "../ui/field.tsx";
import { Icon } from "../ui/icons.tsx";

/** Draws the page of a person who is not signed in. */
export function SignInPage(): JSX.Element {
  return (
    <main class="alone sign-in">
      <p class="brand">
        <Icon name="data" /> Orrery
      </p>
      <h1>Sign in to the console</h1>
      <SignInForm />
      <section class="key-help">
        <h2>Find the key</h2>
        <ul>
          <li>
            <code>orrery start</code> prints an address with <code>?token=</code>. Open the address once, and you
            are signed in.
          </li>
          <li>
            The key is in the file <code>admin.key</code> of the data directory; with <code>--memory</code>, <code>orrery start</code> prints the key.
          </li>
          <li>
            With <code>--ready-json</code>, the first line has the key as <code>admin_key</code>.
          </li>
        </ul>
      </section>
    </main>
  );
}

/** Draws the dialog over the page while requests wait for a new session. */
export function SignInAgain(): JSX.Element | null {
  if (!useStore(sessionEnded)) return null;
  const leave = (): void => {
    session.set(null);
    sessionEnded.set(false);
  };
  return (
    <Dialog title="Sign in again">
      <p>The session has ended. The page stays as it is, and waiting requests continue after you sign in.</p>
      <SignInForm onLeave={leave} />
    </Dialog>
  );
}

function SignInForm({ onLeave }: { readonly onLeave?: () => void }): JSX.Element {
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      await signIn(key.trim());
    } catch (problem) {
      setError(asApiError(problem));
      setBusy(false);
    }
  };
  return (
    <form class="sign-in-form" onSubmit={(event) => void submit(event)}>
      <TextField
        label="Management key"
        type="password"
        autocomplete="current-password"
        value={key}
        onInput={setKey}
        error={error && worded(error)}
        mono
        autofocus
      />
      <div class="actions">
        {onLeave && (
          <Button kind="quiet" onClick={onLeave}>
            Leave the page
          </Button>
        )}
        <Button kind="primary" type="submit" busy={busy} disabled={key.trim() === ""}>
          Sign in
        </Button>
      </div>
    </form>
  );
}

function worded(error: ApiError): string {
  if (error.away) return "The server does not answer. Start the server, then sign in.";
  if (error.status === 401) return "The key is not a management key of this server. Copy the key again.";
  return error.message;
}
