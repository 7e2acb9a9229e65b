/** The navigation at the left: areas, below them the trees that areas add. A drawer on a narrow page. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { NAVIGATION, TREES } from "../areas.ts";
import { href, useAddress } from "../router.ts";
import { Icon } from "../ui/icons.tsx";
import { Lazy } from "../ui/lazy.tsx";

export interface NavigationProps {
  readonly isOpen: boolean;
  readonly onClose: () => void;
}

/** Draws the navigation. */
export function Navigation({ isOpen, onClose }: NavigationProps): JSX.Element {
  const { segments } = useAddress();
  const path = segments.join("\u0000");
  useEffect(onClose, [path]);
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (event: KeyboardEvent): void => {
      if (event.key === "Escape") onClose();
    };
    document.addEventListener("keydown", close);
    return () => document.removeEventListener("keydown", close);
  }, [isOpen]);
  return (
    <>
      {isOpen && <div class="scrim" onClick={onClose} />}
      <div class={isOpen ? "side open" : "side"} id="navigation">
        <nav aria-label="Console">
          {NAVIGATION.map((entry) => (
            <a
              key={entry.label}
              class="nav-link"
              href={href(entry.segments)}
              aria-current={segments[0] === entry.segments[0] ? "page" : undefined}
            >
              <Icon name={entry.icon} />
              {entry.label}
            </a>
          ))}
        </nav>
        {TREES.map((load, at) => (
          <Lazy key={at} load={load} props={{}} />
        ))}
      </div>
    </>
  );
}
