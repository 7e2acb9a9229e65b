/** The queries of a container that are open beside each other. */

import type { JSX } from "preact";
import { Button } from "../../ui/button.tsx";
import type { Workspace } from "./workspace.ts";

export interface TabStripProps {
  readonly workspace: Workspace;
  readonly onSelect: (id: string) => void;
  readonly onNew: () => void;
  readonly onClose: (id: string) => void;
}

/** Draws a button for each query. */
export function TabStrip({ workspace, onSelect, onNew, onClose }: TabStripProps): JSX.Element {
  return (
    <div class="query-strip" role="group" aria-label="Open queries">
      {workspace.tabs.map((tab) => (
        <span key={tab.id} class={tab.id === workspace.current ? "query-tab current" : "query-tab"}>
          <button
            type="button"
            class="query-tab-name"
            aria-pressed={tab.id === workspace.current}
            onClick={() => onSelect(tab.id)}
          >
            {tab.name}
          </button>
          {workspace.tabs.length > 1 && (
            <Button kind="quiet" icon="close" label={`Close ${tab.name}`} onClick={() => onClose(tab.id)} />
          )}
        </span>
      ))}
      <Button kind="quiet" icon="plus" label="New query" onClick={onNew} />
    </div>
  );
}
