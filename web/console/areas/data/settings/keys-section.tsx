/** Keys of a container: they are chosen at creation, and a replace cannot change them. */

import type { JSX } from "preact";
import { href } from "../../../router.ts";
import type { SectionProps } from "./settings-tab.tsx";

/** Draws the section. */
export function KeysSection({ database, definition }: SectionProps): JSX.Element {
  const { partitionKey } = definition;
  const unique = definition.uniqueKeyPolicy?.uniqueKeys ?? [];
  const isHierarchical = partitionKey.paths.length > 1;
  return (
    <div class="stack data-form">
      <h3>Partition key</h3>
      <ol class="data-keys">
        {partitionKey.paths.map((path) => (
          <li key={path} class="mono">
            {path}
          </li>
        ))}
      </ol>
      <p class="help">
        {isHierarchical ? "Hierarchical" : "One level"}, hash version {partitionKey.version ?? 1}. The partition
        key decides where each item is stored, so it cannot be changed. To move to another key, create a
        container with that key and copy the items; see{" "}
        <a href={href(["data", database, definition.id, "prediction"])}>what another key would change</a>.
      </p>
      <h3>Unique keys</h3>
      {unique.length === 0 ? (
        <p>The container has no unique keys.</p>
      ) : (
        <ul class="data-keys">
          {unique.map(({ paths }, index) => (
            <li key={index} class="mono">
              {paths.join(", ")}
            </li>
          ))}
        </ul>
      )}
      <p class="help">
        Unique keys are read-only: the server checks them at each write, and items that are stored already
        were never checked against another key.
      </p>
    </div>
  );
}
