/** Buttons: a verb, one primary on a page, red for what deletes. */

import type { ComponentChildren, JSX } from "preact";
import { Icon, type IconName } from "./icons.tsx";

export interface ButtonProps {
  readonly children?: ComponentChildren;
  readonly kind?: "plain" | "primary" | "danger" | "quiet" | undefined;
  readonly icon?: IconName | undefined;
  /** The name for screen readers and on hover, needed if the button shows only an icon. */
  readonly label?: string | undefined;
  readonly type?: "button" | "submit" | undefined;
  /** Work is under way: the button keeps its place and focus, and does nothing. */
  readonly busy?: boolean | undefined;
  readonly disabled?: boolean | undefined;
  /** The reason why the button is off, shown on hover. */
  readonly title?: string | undefined;
  readonly pressed?: boolean | undefined;
  readonly expanded?: boolean | undefined;
  readonly onClick?: ((event: MouseEvent) => void) | undefined;
  readonly class?: string | undefined;
}

/** Draws a button. */
export function Button(props: ButtonProps): JSX.Element {
  const { kind = "plain", icon, label, type = "button", busy, children } = props;
  const act = (event: MouseEvent): void => {
    if (busy) event.preventDefault();
    else props.onClick?.(event);
  };
  const names = [kind === "plain" ? "" : kind, children === undefined ? "icon-only" : "", props.class ?? ""];
  return (
    <button
      type={type}
      class={names.filter(Boolean).join(" ")}
      aria-label={label}
      aria-busy={busy}
      aria-disabled={busy}
      aria-pressed={props.pressed}
      aria-expanded={props.expanded}
      disabled={props.disabled}
      title={props.title ?? (children === undefined ? label : undefined)}
      onClick={act}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** Draws a button that copies a text and says so. */
export function CopyButton({ text, label }: { readonly text: string | (() => string); readonly label: string }): JSX.Element {
  const copy = (): void => {
    void import("./clipboard.ts").then(({ copyText }) => copyText(typeof text === "string" ? text : text()));
  };
  return <Button kind="quiet" icon="copy" label={label} onClick={copy} />;
}
