/** The actions on the current query. */

import type { JSX, RefObject } from "preact";
import { useStore } from "../../store.ts";
import { Button } from "../../ui/button.tsx";
import { saveFile } from "../../ui/clipboard.ts";
import { plural } from "../../ui/format.ts";
import { Menu } from "../../ui/menu.tsx";
import { toast } from "../../ui/toast.tsx";
import { NO_RUN, type QueryRun, type RunState } from "./run.ts";
import { layout } from "./settings.ts";
import type { QueryTab } from "./workspace.ts";

const FILE_BYTES_MAX = 1024 * 1024;

export interface ToolbarProps {
  readonly run: QueryRun | null;
  readonly tab: QueryTab;
  readonly hasOptions: boolean;
  readonly onRun: () => void;
  readonly onCancel: () => void;
  readonly onOptions: () => void;
  readonly onFormat: () => void;
  readonly onSave: () => void;
  readonly onCopyAs: () => void;
  readonly onOpenFile: (text: string, name: string) => void;
  /** The hidden field that opens a file, for the page's keys. */
  readonly fileInput: RefObject<HTMLInputElement | null>;
}

/** Downloads the text of a query. */
export function downloadQuery(tab: QueryTab): void {
  saveFile(`${tab.name}.sql`, tab.text, "application/sql");
}

/** Draws the toolbar. */
export function Toolbar(props: ToolbarProps): JSX.Element {
  const state = useStore<RunState | null>(props.run?.state ?? NO_RUN);
  const isRunning = state?.status === "running";
  const place = useStore(layout);
  const input = props.fileInput;
  const openFile = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    if (file.size > FILE_BYTES_MAX) toast("The file is too large for a query. Choose one below 1 MiB.", "bad");
    else props.onOpenFile(await file.text(), file.name.replace(/\.sql$/i, ""));
  };
  return (
    <div class="query-toolbar" role="toolbar" aria-label="Query">
      {isRunning ? (
        <Button kind="danger" icon="stop" title="Cancels the request on the server (Escape)" onClick={props.onCancel}>
          Cancel
        </Button>
      ) : (
        <Button kind="primary" icon="play" title="Runs the selection or the query at the cursor (Shift Enter)" onClick={props.onRun}>
          Run
        </Button>
      )}
      <Button expanded={props.hasOptions} icon="settings" onClick={props.onOptions}>
        {scopeText(props.tab)}
      </Button>
      <Button kind="quiet" onClick={props.onFormat}>
        Format
      </Button>
      <Button kind="quiet" icon="copy" onClick={props.onCopyAs}>
        Copy as
      </Button>
      <Button kind="quiet" icon="save" onClick={props.onSave}>
        Save
      </Button>
      <Menu
        label="Files and layout"
        items={[
          { label: "Open a .sql file", icon: "upload", onSelect: () => input.current?.click() },
          { label: "Download as .sql", icon: "download", onSelect: () => downloadQuery(props.tab) },
          {
            label: place === "below" ? "Results beside the editor" : "Results below the editor",
            icon: "table",
            onSelect: () => layout.set(place === "below" ? "beside" : "below"),
          },
        ]}
      />
      <input
        ref={input}
        type="file"
        accept=".sql,.txt,text/plain"
        hidden
        aria-label="File with a query"
        onChange={(event) => {
          void openFile(event.currentTarget.files?.[0]);
          event.currentTarget.value = "";
        }}
      />
    </div>
  );
}

function scopeText(tab: QueryTab): string {
  const scope = tab.key === null ? "All partitions" : `Key ${tab.key.join(", ")}`.slice(0, 40);
  const { length } = tab.parameters;
  return length === 0 ? scope : `${scope}, ${plural(length, "parameter")}`;
}
