/** The palette: every command, and every container by name; type, arrow keys, Enter. */

import type { JSX } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { NAVIGATION } from "../areas.ts";
import { commands, keyText, type Command } from "../commands.ts";
import { findContainers } from "../api/names.ts";
import { href, navigate } from "../router.ts";
import { Dialog } from "../ui/dialog.tsx";
import { useResource } from "../ui/resource.ts";

const SHOWN_MAX = 50;

/** Draws the palette. */
export function Palette({ onClose }: { readonly onClose: () => void }): JSX.Element {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  const places = useResource(async (signal) => findContainers(text, signal), [text]);
  const found = matching([...pages(), ...listed(), ...containers(places.value ?? [])], text);
  const current = Math.min(at, found.length - 1);
  const run = (command: Command | undefined): void => {
    if (!command) return;
    onClose();
    // The dialog returns the focus first; the command may move it.
    queueMicrotask(command.run);
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === "Enter") run(found[current]);
    else if (event.key === "ArrowDown") select(current + 1);
    else if (event.key === "ArrowUp") select(current - 1);
    else return;
    event.preventDefault();
  };
  const select = (next: number): void => {
    const wrapped = (next + found.length) % Math.max(1, found.length);
    setAt(wrapped);
    list.current?.children[wrapped]?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Dialog title="Search or command" onClose={onClose}>
      <div class="palette" onKeyDown={press}>
        <input
          type="search"
          list={undefined}
          role="combobox"
          aria-expanded="true"
          aria-controls={id}
          aria-activedescendant={found[current] ? `${id}-${current}` : undefined}
          aria-label="Search commands and containers"
          placeholder="A command or a container"
          autofocus
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
        />
        <ul role="listbox" id={id} ref={list} aria-label="Commands" tabIndex={-1}>
          {found.map((command, index) => (
            <li
              key={command.id}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === current}
              onClick={() => run(command)}
            >
              <span class="palette-group">{command.group ?? "Page"}</span>
              <span class="palette-label">{command.label}</span>
              {command.keys?.[0] && <kbd>{keyText(command.keys[0])}</kbd>}
            </li>
          ))}
        </ul>
        {found.length === 0 && <p class="soft">No command and no container has this name.</p>}
      </div>
    </Dialog>
  );
}

function listed(): readonly Command[] {
  return commands.get().filter((command) => !command.isHidden);
}

function pages(): readonly Command[] {
  return NAVIGATION.map((entry) => ({
    id: `page.${entry.label}`,
    label: entry.label,
    group: "Open",
    run: () => navigate(href(entry.segments)),
  }));
}

function containers(places: readonly { readonly database: string; readonly container: string }[]): readonly Command[] {
  return places.map(({ database, container }) => ({
    id: `container.${database}/${container}`,
    label: `${database} / ${container}`,
    group: "Container",
    run: () => navigate(href(["data", database, container, "items"])),
  }));
}

/** Keeps commands whose text has every typed word, those that start with the text first. */
function matching(all: readonly Command[], text: string): readonly Command[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((command) => {
    const label = `${command.label} ${command.group ?? ""}`.toLowerCase();
    return words.every((word) => label.includes(word));
  });
  const first = text.toLowerCase();
  found.sort((left, right) => rank(left, first) - rank(right, first));
  return found.slice(0, SHOWN_MAX);
}

function rank(command: Command, text: string): number {
  return text !== "" && command.label.toLowerCase().startsWith(text) ? 0 : 1;
}
