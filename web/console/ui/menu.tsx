/** A button that opens a list of commands; arrow keys move, Escape closes. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./icons.tsx";

export interface MenuItem {
  readonly label: string;
  readonly icon?: IconName | undefined;
  readonly danger?: boolean | undefined;
  readonly disabled?: boolean | undefined;
  readonly onSelect: () => void;
}

export interface MenuProps {
  /** The name for screen readers. */
  readonly label: string;
  readonly children?: ComponentChildren;
  readonly items: readonly MenuItem[];
  readonly kind?: "quiet" | "plain" | undefined;
}

/** Draws the button, and the list while it is open. */
export function Menu(props: MenuProps): JSX.Element {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    focusItem(root.current, 0);
    const outside = (event: Event): void => {
      if (event.target instanceof Node && !root.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  const close = (): void => {
    setOpen(false);
    opener.current?.focus();
  };
  const press = (event: KeyboardEvent): void => {
    if (!open) return;
    if (event.key === "Escape") close();
    else if (event.key === "Tab") return setOpen(false);
    else if (event.key === "ArrowDown") focusItem(root.current, 1);
    else if (event.key === "ArrowUp") focusItem(root.current, -1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const select = (item: MenuItem): void => {
    close();
    item.onSelect();
  };
  return (
    <div class="menu" ref={root} onKeyDown={press}>
      <button
        type="button"
        ref={opener}
        class={`${props.kind ?? "quiet"} ${props.children === undefined ? "icon-only" : ""}`}
        aria-label={props.label}
        title={props.label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {props.children ?? <Icon name="more" />}
      </button>
      {open && (
        <div class="menu-list" role="menu" aria-label={props.label}>
          <MenuEntries items={props.items} onSelect={select} />
        </div>
      )}
    </div>
  );
}

/** Draws the entries of a menu. */
export function MenuEntries(props: {
  readonly items: readonly MenuItem[];
  readonly onSelect: (item: MenuItem) => void;
}): JSX.Element {
  return (
    <>
      {props.items.map((item) => (
        <button
          key={item.label}
          type="button"
          role="menuitem"
          tabIndex={-1}
          disabled={item.disabled}
          class={item.danger ? "menu-item bad" : "menu-item"}
          onClick={() => props.onSelect(item)}
        >
          {item.icon && <Icon name={item.icon} />}
          {item.label}
        </button>
      ))}
    </>
  );
}

/** Moves the focus by `step` entries of the menu in `root`; to the first one if none has it. */
export function focusItem(root: HTMLElement | null, step: number): void {
  const items = [...(root?.querySelectorAll<HTMLElement>("[role=menuitem]:not(:disabled)") ?? [])];
  const at = items.findIndex((item) => item === document.activeElement);
  const next = at < 0 ? 0 : (at + step + items.length) % items.length;
  items[next]?.focus();
}
