/** What opens over a page: the palette, the list of keys, the console's requests, unsaved changes. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { commands, keyText, useCommands, type Command } from "../commands.ts";
import { sessionEnded } from "../api/client.ts";
import { decideWanted, navigate, useAddress, wanted } from "../router.ts";
import { createStore, useStore } from "../store.ts";
import { Button } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Lazy } from "../ui/lazy.tsx";
import { Palette } from "./palette.tsx";

type Overlay = "palette" | "keys" | "requests";

const shown = createStore<Overlay | null>(null);

/** Opens an overlay in place of another. */
export function open(overlay: Overlay): void {
  shown.set(overlay);
}

function close(): void {
  shown.set(null);
}

const loadRequests = () => import("./own-requests.tsx");

/** Draws the open overlay. */
export function Overlays(): JSX.Element {
  const overlay = useStore(shown);
  const address = useAddress();
  const isEnded = useStore(sessionEnded);
  // The dialog that asks for the key must be on top.
  useEffect(close, [address, isEnded]);
  useCommands([
    { id: "palette", label: "Search or command", keys: ["Mod+K"], group: "Console", isHidden: true, run: () => open("palette") },
    { id: "keys", label: "Show the keys", keys: ["?"], group: "Console", run: () => open("keys") },
    { id: "own", label: "Show the console's requests", group: "Console", run: () => open("requests") },
    { id: "overview", label: "Open the overview", group: "Console", run: () => navigate("#/") },
  ]);
  return (
    <>
      {overlay === "palette" && <Palette onClose={close} />}
      {overlay === "requests" && <Lazy load={loadRequests} props={{ onClose: close }} />}
      {overlay === "keys" && <Keys />}
      <Unsaved />
    </>
  );
}

function Unsaved(): JSX.Element | null {
  if (useStore(wanted) === null) return null;
  return (
    <Dialog title="Discard unsaved changes?" onClose={() => decideWanted(false)}>
      <p>The page has changes that are not saved. They are lost if another page opens.</p>
      <div class="actions">
        <Button onClick={() => decideWanted(false)}>Keep editing</Button>
        <Button kind="danger" onClick={() => decideWanted(true)}>
          Discard changes
        </Button>
      </div>
    </Dialog>
  );
}

function Keys(): JSX.Element {
  const all = useStore(commands).filter((command) => command.keys !== undefined);
  const groups = [...new Set(all.map(groupOf))];
  return (
    <Dialog title="Keys" onClose={close}>
      <div class="key-groups">
        {groups.map((group) => (
          <section key={group}>
            <h3>{group}</h3>
            <dl>
              {all
                .filter((command) => groupOf(command) === group)
                .map((command) => (
                  <div key={command.id}>
                    <dt>{command.label}</dt>
                    <dd>{command.keys?.map((key) => <kbd key={key}>{keyText(key)}</kbd>)}</dd>
                  </div>
                ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}

function groupOf(command: Command): string {
  return command.group ?? "Page";
}
