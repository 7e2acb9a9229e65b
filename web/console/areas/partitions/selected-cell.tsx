/** The selected cell of the heat map: its figures, its keys, and the way to its requests. */

import type { JSX } from "preact";
import { href } from "../../router.ts";
import { Button } from "../../ui/button.tsx";
import { amount, rate } from "./metrics.ts";
import type { ContainerName, Metric, Partition, TopKey } from "./api.ts";
import { intervalText } from "./axis.ts";
import { spanOf, type Hashing } from "./epk.ts";
import type { Place } from "./heat-geometry.ts";
import { PARTS } from "./heat.ts";
import { keyQuery, keyText } from "./keys.ts";

export interface SelectedCellProps {
  readonly name: ContainerName;
  readonly partitions: readonly Partition[];
  readonly hashing: Hashing;
  readonly keyPaths: readonly string[];
  readonly place: Place;
  readonly metric: Metric;
  readonly keys: readonly TopKey[];
  readonly onClose: () => void;
  readonly onZoom: () => void;
}

/** Draws the cell below the map. */
export function SelectedCell(props: SelectedCellProps): JSX.Element {
  const { name, place, metric } = props;
  const middle = (place.span.start + place.span.end) / 2;
  const partition = props.partitions.find((found) => {
    const span = spanOf({ min: found.minInclusive, max: found.maxExclusive }, props.hashing);
    return span.start <= middle && middle < span.end;
  });
  const seconds = place.time.to - place.time.from;
  const requests = href(["requests"], {
    db: name.database,
    coll: name.container,
    from: String(place.time.from),
    to: String(place.time.to),
    partition: partition?.id,
  });
  return (
    <div class="parts-selected" role="status">
      <div>
        <strong>
          {intervalText(place.time)}, partition {partition?.id ?? "?"}, part{" "}
          {Math.floor(place.span.start * PARTS + 1e-6)} of {PARTS}
        </strong>
        <span>
          {rate(place.value, metric)}, {amount(place.value * seconds, metric)} in this cell
        </span>
        <Keys {...props} />
      </div>
      <div class="actions">
        <a class="button" href={requests}>
          Requests of this time
        </a>
        <Button onClick={props.onZoom}>Zoom in</Button>
        <Button kind="quiet" icon="close" label="Close the cell" onClick={props.onClose} />
      </div>
    </div>
  );
}

function Keys({ name, keys, keyPaths }: SelectedCellProps): JSX.Element {
  if (keys.length === 0) {
    return <span class="soft">No key of this part is among the 32 keys with the most load.</span>;
  }
  return (
    <span class="row">
      <span class="soft">Hottest keys of this part:</span>
      {keys.map((key) => {
        const text = key.key === undefined ? `EPK ${key.epk.slice(0, 8)}…` : keyText(key.key);
        const query = key.key === undefined ? null : keyQuery(key.key, keyPaths);
        if (query === null) return <code key={key.epk}>{text}</code>;
        const address = href(["data", name.database, name.container, "query"], { text: query });
        return (
          <a key={key.epk} href={address}>
            <code>{text}</code>
          </a>
        );
      })}
    </span>
  );
}
