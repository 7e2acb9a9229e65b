/** Advice as a list: what happened, what it costs, the way out with links. */

import type { JSX } from "preact";
import { href } from "../router.ts";
import { Icon } from "../ui/icons.tsx";
import type { Advice } from "./advice.ts";

/** Advice with the container that it is about. */
export interface PlacedAdvice extends Advice {
  readonly database: string;
  readonly container: string;
}

export interface AdviceListProps {
  readonly advice: readonly PlacedAdvice[];
  /** True on a page about several containers. */
  readonly hasNames?: boolean | undefined;
}

/** Draws the list; nothing without advice. */
export function AdviceList({ advice, hasNames }: AdviceListProps): JSX.Element | null {
  if (advice.length === 0) return null;
  return (
    <ul class="advice">
      {advice.map((one) => (
        <li key={`${one.rule}/${one.database}/${one.container}/${one.partition}`} class={`card ${one.urgency}`} data-rule={one.rule}>
          <Icon name={one.urgency === "info" ? "info" : "warn"} />
          <div>
            <p>
              <strong>{one.happened}</strong>{" "}
              {hasNames && (
                <span class="soft">
                  {one.database} / {one.container}
                </span>
              )}
            </p>
            <p class="soft">
              {one.cost} {one.out}
            </p>
          </div>
          <div class="actions">
            {one.ways?.map(({ text, tab, query }) => (
              <a key={text} class="button" href={href(["data", one.database, one.container, tab], query)}>
                {text}
              </a>
            ))}
          </div>
        </li>
      ))}
    </ul>
  );
}
