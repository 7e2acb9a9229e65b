/** The states of a view besides the full one: empty, loading, a banner. */

import type { ComponentChildren, JSX } from "preact";
import { useAfter } from "../router.ts";
import { Icon, type IconName } from "./icons.tsx";

/** Draws grey lines in place of content, after 150 ms so that a fast answer does not flicker. */
export function Skeleton({ lines = 4 }: { readonly lines?: number | undefined }): JSX.Element {
  const visible = useAfter(150, true);
  const widths = Array.from({ length: lines }, (_, line) => line % 4);
  return (
    <div class={visible ? "skeleton" : "skeleton waiting"} role="status" aria-label="Loading">
      {widths.map((width, line) => (
        <span key={line} class={`skeleton-line width-${width}`} />
      ))}
    </div>
  );
}

export interface EmptyProps {
  readonly title: string;
  /** What would be here. */
  readonly children?: ComponentChildren;
  readonly icon?: IconName | undefined;
  /** One action, and at most a second that loads a sample. */
  readonly actions?: ComponentChildren;
}

/** Draws what an empty view is for, and what to do. */
export function Empty({ title, children, icon = "data", actions }: EmptyProps): JSX.Element {
  return (
    <div class="empty">
      <Icon name={icon} />
      <p class="empty-title">{title}</p>
      {children && <p class="empty-text">{children}</p>}
      {actions && <div class="actions">{actions}</div>}
    </div>
  );
}

export interface BannerProps {
  readonly kind?: "info" | "good" | "warn" | "bad" | undefined;
  readonly children: ComponentChildren;
  readonly actions?: ComponentChildren;
}

/** Draws a line across the page that says one thing. */
export function Banner({ kind = "info", children, actions }: BannerProps): JSX.Element {
  const icon: IconName = kind === "good" ? "check" : kind === "info" ? "info" : "warn";
  return (
    <div class={`banner ${kind}`} role={kind === "bad" ? "alert" : "status"}>
      <Icon name={icon} />
      <div class="banner-text">{children}</div>
      {actions}
    </div>
  );
}

/** Draws a word with the colour of its state. */
export function Badge({ kind = "info", children }: Omit<BannerProps, "actions">): JSX.Element {
  return <span class={`badge ${kind}`}>{children}</span>;
}
