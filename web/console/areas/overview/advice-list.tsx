/** The advice of all shown containers, as cards with a link to the page that shows more. */

import type { JSX } from "preact";
import { href } from "../../router.ts";
import { Icon } from "../../ui/icons.tsx";
import { adviceFor } from "./advice.ts";
import type { ContainerFigures } from "./figures.ts";

/** Draws the list; says so if there is no advice. */
export function AdviceList({ figures }: { readonly figures: readonly ContainerFigures[] }): JSX.Element {
  const all = figures.flatMap(adviceFor);
  return (
    <section class="stack" aria-labelledby="overview-advice">
      <h2 id="overview-advice">Advice</h2>
      {all.length === 0 ? (
        <p class="overview-fine soft">
          <Icon name="check" /> No partition is hot, no container is throttled, and queries stay in few partitions.
        </p>
      ) : (
        <ul class="overview-advice">
          {all.map((advice) => (
            <li key={`${advice.kind}/${advice.database}/${advice.container}`} class="card">
              <Icon name="warn" />
              <div>
                <p>
                  <strong>{advice.title}</strong>{" "}
                  <span class="soft">
                    in {advice.database} / {advice.container}
                  </span>
                </p>
                <p class="soft">{advice.text}</p>
              </div>
              <a class="button" href={href(["data", advice.database, advice.container, advice.tab])}>
                Look at it
              </a>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
