/** The items whose vectors are nearest to that of the open item, by the container's vector policy.
 *
 * Promises: the query runs when a person asks for it, since it is charged. The item itself is left
 * out of the list.
 * Leaves out: other searches; the query tab has them. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError, type ApiError } from "../../../api/client.ts";
import type { Container, Json, JsonObject } from "../../../api/data.ts";
import { queryPage } from "../../../api/query.ts";
import { href } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { ru } from "../../../ui/format.ts";
import { pathNames } from "../logic/partition-key.ts";
import { keyNames, propertyExpression } from "../logic/predicates.ts";
import { keyText, type StoredItem } from "./item-pane.tsx";
import { placeOfRow } from "./item-rows.ts";

/** Items in the list. */
const SHOWN = 10;

export interface NearestItemsProps {
  readonly database: string;
  readonly definition: Container;
  readonly stored: StoredItem;
}

/** A vector of the open item. */
interface ItemVector {
  readonly path: string;
  readonly names: string[];
  readonly value: readonly Json[];
}

interface Found {
  readonly rows: readonly JsonObject[];
  readonly charge: number;
}

/** Returns the vectors that an item has at the paths of the vector policy. */
function vectorsOf(definition: Container, text: string): ItemVector[] {
  const entries = (definition.vectorEmbeddingPolicy?.["vectorEmbeddings"] ?? []) as readonly JsonObject[];
  const vectors: ItemVector[] = [];
  for (const { path, dimensions } of entries) {
    const names = pathNames(String(path)) ?? [];
    let value = JSON.parse(text) as Json | undefined;
    for (const name of names) value = (value as JsonObject | null | undefined)?.[name];
    if (Array.isArray(value) && value.length === dimensions) vectors.push({ path: String(path), names, value });
  }
  return vectors;
}

/** Draws a button for each vector of the item, and the list of the vector that was asked for. */
export function NearestItems({ database, definition, stored }: NearestItemsProps): JSX.Element | null {
  const [found, setFound] = useState<Found | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const vectors = vectorsOf(definition, stored.text);
  if (vectors.length === 0) return null;

  const levels = keyNames(definition.partitionKey);
  const find = async ({ names, value }: ItemVector): Promise<void> => {
    const distance = `VectorDistance(${propertyExpression(names)}, @vector)`;
    const keys = levels.map((level, index) => `, "k${index}": ${propertyExpression(level)}`).join("");
    const query = `SELECT TOP ${SHOWN + 1} VALUE {"id": c.id, "score": ${distance}${keys}} FROM c ORDER BY ${distance}`;
    try {
      const page = await queryPage(database, definition.id, query, [{ name: "@vector", value }]);
      setFound({ rows: page.rows as readonly JsonObject[], charge: page.charge });
      setError(null);
    } catch (refusal) {
      setError(asApiError(refusal));
    }
  };
  const own = keyText(stored.place);
  const neighbours = (found?.rows ?? [])
    .map((row) => ({ place: placeOfRow(row, levels.length), score: row["score"] }))
    .filter(({ place, score }) => typeof score === "number" && (place.id !== stored.place.id || keyText(place) !== own));
  return (
    <section class="stack" aria-label="Nearest items">
      <p class="row">
        {vectors.map((vector) => (
          <Button key={vector.path} icon="search" onClick={() => void find(vector)}>
            {`Nearest items by ${vector.path}`}
          </Button>
        ))}
        {found && <span class="soft">{ru(found.charge)}</span>}
      </p>
      {error && <ErrorView error={error} title="The nearest items could not be found." />}
      {found && neighbours.length === 0 && <p class="soft">No other item has such a vector.</p>}
      <ol>
        {neighbours.slice(0, SHOWN).map(({ place, score }) => (
          <li key={keyText(place) + place.id}>
            <a href={href(["data", database, definition.id, "items"], { id: place.id, key: keyText(place) })}>{place.id}</a>{" "}
            <span class="soft mono">{Number(score).toFixed(4)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
