/** Dialogs over the page: the page behind waits, Escape closes, focus returns to where it was.
 *
 * `ConfirmDialog` guards what cannot be undone: the name must be typed. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { asApiError, type ApiError } from "../api/client.ts";
import { Button } from "./button.tsx";
import { ErrorView } from "./error-view.tsx";
import { TextField } from "./field.tsx";

export interface DialogProps {
  readonly title: string;
  readonly children: ComponentChildren;
  /** Called on Escape and by the close button; absent if the dialog must be answered. */
  readonly onClose?: (() => void) | undefined;
  readonly wide?: boolean | undefined;
  /** `side` opens at the right edge over the whole height. */
  readonly place?: "centre" | "side" | undefined;
}

/** Draws a dialog while it is mounted. */
export function Dialog(props: DialogProps): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      dialog.current?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const cancel = (event: Event): void => {
    if (event.target !== dialog.current) return;
    event.preventDefault();
    props.onClose?.();
  };
  const names = ["dialog", props.wide ? "wide" : "", props.place === "side" ? "at-side" : ""];
  return (
    <dialog ref={dialog} class={names.filter(Boolean).join(" ")} aria-labelledby={title} onCancel={cancel}>
      <header>
        <h2 id={title}>{props.title}</h2>
        {props.onClose && <Button kind="quiet" icon="close" label="Close" onClick={props.onClose} />}
      </header>
      <div class="dialog-body">{props.children}</div>
    </dialog>
  );
}

export interface ConfirmDialogProps {
  readonly title: string;
  /** Says what goes and that the action cannot be undone. */
  readonly children: ComponentChildren;
  /** The verb on the button, such as `Delete container`. */
  readonly action: string;
  /** The name that must be typed; absent if a click is enough. */
  readonly name?: string | undefined;
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks before an action; stays open with the error if the action fails. */
export function ConfirmDialog(props: ConfirmDialogProps): JSX.Element {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const allowed = props.name === undefined || typed === props.name;
  const confirm = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!allowed || busy) return;
    setBusy(true);
    setError(null);
    try {
      await props.onConfirm();
      props.onClose();
    } catch (problem) {
      setError(asApiError(problem));
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <form onSubmit={(event) => void confirm(event)}>
        <div class="stack">{props.children}</div>
        {props.name !== undefined && (
          <TextField label={`Type ${props.name} to confirm`} value={typed} onInput={setTyped} mono autofocus />
        )}
        {error && <ErrorView error={error} />}
        <footer class="actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="danger" type="submit" busy={busy} disabled={!allowed}>
            {props.action}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
