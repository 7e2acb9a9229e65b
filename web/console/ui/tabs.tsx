/** Tabs: as links where the address holds the tab, and as buttons where it does not. */

import type { ComponentChildren, JSX } from "preact";
import { useId, useRef } from "preact/hooks";

export interface TabLink {
  readonly id: string;
  readonly label: string;
  readonly href: string;
}

/** Draws links to the pages of one thing; the current one is marked. */
export function TabLinks(props: {
  readonly label: string;
  readonly tabs: readonly TabLink[];
  readonly current: string;
}): JSX.Element {
  return (
    <nav class="tabs" aria-label={props.label}>
      {props.tabs.map(({ id, label, href }) => (
        <a key={id} href={href} class="tab" aria-current={id === props.current ? "page" : undefined}>
          {label}
        </a>
      ))}
    </nav>
  );
}

export interface TabsProps<T extends string> {
  readonly label: string;
  readonly tabs: readonly (readonly [id: T, label: ComponentChildren])[];
  readonly current: T;
  readonly onChange: (id: T) => void;
  readonly children: ComponentChildren;
}

/** Draws tabs over a panel; arrow keys move between them. */
export function Tabs<T extends string>(props: TabsProps<T>): JSX.Element {
  const stem = useId();
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const { length } = props.tabs;
    const at = props.tabs.findIndex(([id]) => id === props.current);
    const next = (at + step + length) % length;
    const tab = props.tabs[next];
    if (!tab) return;
    props.onChange(tab[0]);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  return (
    <div class="tabs-block">
      <div class="tabs" role="tablist" aria-label={props.label} ref={list} onKeyDown={move}>
        {props.tabs.map(([id, label]) => (
          <button
            key={id}
            type="button"
            role="tab"
            id={`${stem}-${id}`}
            class="tab"
            aria-selected={id === props.current}
            aria-controls={`${stem}-panel`}
            tabIndex={id === props.current ? 0 : -1}
            onClick={() => props.onChange(id)}
          >
            {label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${stem}-panel`} aria-labelledby={`${stem}-${props.current}`} class="tab-panel">
        {props.children}
      </div>
    </div>
  );
}
