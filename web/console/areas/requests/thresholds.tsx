/** The thresholds from which requests are recorded. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError, type ApiError, manage } from "../../api/client.ts";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { TextField } from "../../ui/field.tsx";

export interface LogSettings {
  readonly minRu: number;
  readonly minMs: number;
  readonly all: boolean;
  readonly allUntil?: number;
}

export interface ThresholdsProps {
  readonly settings: LogSettings;
  readonly onChanged: () => void;
  readonly onClose: () => void;
}

/** Draws the form. */
export function Thresholds(props: ThresholdsProps): JSX.Element {
  const [minRu, setMinRu] = useState(String(props.settings.minRu));
  const [minMs, setMinMs] = useState(String(props.settings.minMs));
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isRight = isAmount(minRu) && isAmount(minMs);
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!isRight || isBusy) return;
    setBusy(true);
    try {
      const body = { minRu: Number(minRu), minMs: Number(minMs) };
      const headers = { "content-type": "application/json" };
      await manage("/requests/settings", { method: "PUT", headers, body });
      props.onChanged();
      props.onClose();
    } catch (problem) {
      setError(asApiError(problem));
      setBusy(false);
    }
  };
  return (
    <Dialog title="Thresholds of the log" onClose={props.onClose}>
      <form class="stack" onSubmit={(event) => void save(event)}>
        <p class="soft">
          The server records requests that are more expensive or slower than these thresholds, and all refused and
          failed ones. The thresholds are for all users of the console until the server ends.
        </p>
        <TextField label="Charge from, RU" type="number" min={0} step={0.01} value={minRu} onInput={setMinRu} />
        <TextField label="Duration from, ms" type="number" min={0} step={0.1} value={minMs} onInput={setMinMs} />
        {error && <ErrorView error={error} />}
        <footer class="actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={isBusy} disabled={!isRight}>
            Save thresholds
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function isAmount(text: string): boolean {
  const value = Number(text);
  return text.trim() !== "" && Number.isFinite(value) && value >= 0 && value <= 1e9;
}
