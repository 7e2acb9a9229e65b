/** A conflict: another client changed the item since it was read.
 *
 * Shows the version of the server beside the typed one. The editor below holds the typed text, so a
 * person merges by hand there. */

import type { JSX } from "preact";
import { Button } from "../../../ui/button.tsx";
import { Banner } from "../../../ui/states.tsx";
import { DiffView } from "./diff-view.tsx";
import type { StoredItem } from "./item-pane.tsx";

export interface ConflictViewProps {
  readonly theirs: StoredItem;
  readonly mine: string;
  /** Goes on with the typed text, on top of the server's version. */
  readonly onKeepMine: () => void;
  readonly onTakeTheirs: () => void;
}

/** Draws the conflict. */
export function ConflictView({ theirs, mine, onKeepMine, onTakeTheirs }: ConflictViewProps): JSX.Element {
  return (
    <section class="data-conflict" aria-label="Conflict">
      <Banner kind="warn">
        <strong>Another client changed the item since you opened it.</strong> Nothing was saved. Compare the
        versions, merge by hand in the editor, and choose.
      </Banner>
      <DiffView before={theirs.text} after={mine} names={["On the server now", "Yours"]} />
      <div class="actions">
        <Button onClick={onTakeTheirs}>Take the server's version</Button>
        <Button kind="primary" onClick={onKeepMine}>
          Continue with mine
        </Button>
      </div>
    </section>
  );
}
