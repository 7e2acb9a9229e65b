/** Deletes the selected items: asks, then shows the progress; throttled deletions are repeated. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { items } from "../../../api/data.ts";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { plural, ru } from "../../../ui/format.ts";
import { Banner } from "../../../ui/states.tsx";
import { Pace, type Outcome, type PaceFigures } from "../logic/paced.ts";
import { attemptOf } from "../transfer/attempt.ts";
import { ProgressBar } from "../transfer/progress-bar.tsx";
import type { ItemRow } from "./item-rows.ts";
import { itemKey } from "./item-rows.ts";

export interface BulkDeleteProps {
  readonly database: string;
  readonly container: string;
  readonly rows: readonly ItemRow[];
  /** Called with the identities of the deleted items. */
  readonly onDeleted: (ids: ReadonlySet<string>) => void;
  readonly onClose: () => void;
}

interface Failure {
  readonly id: string;
  readonly message: string;
}

/** Draws the dialog. */
export function BulkDelete(props: BulkDeleteProps): JSX.Element {
  const { database, container, rows } = props;
  const [figures, setFigures] = useState<PaceFigures | null>(null);
  const [failures, setFailures] = useState<readonly Failure[]>([]);
  const [isDone, setDone] = useState(false);
  const abort = useRef(new AbortController());
  useEffect(() => () => abort.current.abort(), []);

  const run = async (): Promise<void> => {
    const deleted = new Set<string>();
    const failed: Failure[] = [];
    const pace = new Pace<ItemRow>({
      signal: abort.current.signal,
      send: (row, signal) =>
        attemptOf(() =>
          items.delete({ database, container, id: row.id, partitionKey: row.keys }, undefined, signal),
        ),
      onOutcome: ({ task, isDone: isGone, status, message }: Outcome<ItemRow>) => {
        // An item that another client deleted is gone as well.
        if (isGone || status === 404) deleted.add(itemKey(task.id, task.keys));
        else failed.push({ id: task.id, message });
        setFigures({ ...pace.figures });
      },
    });
    setFigures({ ...pace.figures });
    for (const row of rows) if (!(await pace.add(row))) break;
    await pace.finish();
    setFigures({ ...pace.figures });
    setFailures(failed);
    setDone(true);
    props.onDeleted(deleted);
  };

  const title = `Delete ${plural(rows.length, "item")}`;
  if (figures === null) {
    return (
      <Dialog title={title} onClose={props.onClose}>
        <p>The selected items go. Deletion cannot be undone.</p>
        <footer class="actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="danger" onClick={() => void run()}>
            {title}
          </Button>
        </footer>
      </Dialog>
    );
  }
  const ended = figures.done + figures.refused;
  return (
    <Dialog title={title} onClose={isDone ? props.onClose : undefined}>
      <ProgressBar label="Deleted items" done={ended} total={rows.length} />
      <p class="soft" role="status">
        {plural(figures.done, "item")} deleted, {figures.refused} not deleted, {ru(figures.charge)}
        {figures.throttled > 0 && `, ${plural(figures.throttled, "request")} repeated after 429`}.
      </p>
      {failures.length > 0 && (
        <Banner kind="bad">
          <ul class="data-plain-list">
            {failures.slice(0, 20).map(({ id, message }) => (
              <li key={id}>
                <code>{id}</code>: {message}
              </li>
            ))}
          </ul>
        </Banner>
      )}
      <footer class="actions">
        {isDone ? (
          <Button kind="primary" onClick={props.onClose}>
            Close
          </Button>
        ) : (
          <Button icon="stop" onClick={() => abort.current.abort()}>
            Stop
          </Button>
        )}
      </footer>
    </Dialog>
  );
}
