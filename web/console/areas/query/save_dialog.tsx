/** Saves the current query under a name. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/field.tsx";
import { toast } from "../../ui/toast.tsx";
import { readSaved, save } from "./history.ts";
import type { QueryTab } from "./workspace.ts";

export interface SaveDialogProps {
  readonly database: string;
  readonly container: string;
  readonly tab: QueryTab;
  readonly onClose: () => void;
}

/** Draws the dialog. */
export function SaveDialog({ database, container, tab, onClose }: SaveDialogProps): JSX.Element {
  const [name, setName] = useState(tab.name);
  const isKnown = readSaved(database, container).some((query) => query.name === name);
  const keep = (event: Event): void => {
    event.preventDefault();
    const { text, parameters, key } = tab;
    if (name.trim() === "") return;
    if (save(database, container, [{ name, text, parameters, key }])) {
      toast("The query is saved.");
      onClose();
    } else {
      toast("The browser refused to store the query. Free some of its storage.", "bad");
    }
  };
  return (
    <Dialog title="Save the query" onClose={onClose}>
      <form onSubmit={keep}>
        <TextField
          label="Name"
          value={name}
          onInput={setName}
          autofocus
          help={isKnown ? "A saved query of this name is replaced." : "Saved in this browser, for this container."}
        />
        <footer class="actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={name.trim() === ""}>
            Save query
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
