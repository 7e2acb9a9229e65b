/** The strip of partitions: a line for each container with a cell for each physical partition, coloured by
 * the used share of its RU/s, and the key with the most load. Each cell leads to its partition. */

import type { JSX } from "preact";
import { href } from "../../router.ts";
import { percent, ruNumber } from "../../ui/format.ts";
import { cssOf, STEPS } from "../partitions/scale.ts";
import type { ContainerFigures } from "./figures.ts";
import type { Partition } from "../../api/management.ts";

/** Draws the lines. */
export function Strip({ figures }: { readonly figures: readonly ContainerFigures[] }): JSX.Element {
  return (
    <section class="stack" aria-labelledby="overview-strip">
      <h2 id="overview-strip">Physical partitions</h2>
      <ul class="overview-strip">
        {figures.map((one) => (
          <Line key={`${one.database}/${one.container}`} figures={one} />
        ))}
      </ul>
      <p class="soft overview-scale">
        <span>0 %</span>
        <span class="overview-gradient" aria-hidden="true" style={{ background: GRADIENT }} />
        <span>100 % of a partition's RU/s in the last second; without a limit, of the busiest partition</span>
      </p>
    </section>
  );
}

const GRADIENT = `linear-gradient(to right, ${Array.from({ length: 8 }, (_, at) => cssOf((at / 7) * (STEPS - 1))).join(", ")})`;

function Line({ figures }: { readonly figures: ContainerFigures }): JSX.Element {
  const { database, container, partitions, hotKey } = figures;
  const most = Math.max(0, ...partitions.map(rateOf));
  return (
    <li>
      <a class="overview-strip-name" href={href(["data", database, container, "partitions"])}>
        <strong>{container}</strong> <span class="soft">{database}</span>
      </a>
      <span class="overview-cells">
        {partitions.map((partition) => (
          <Cell key={partition.id} figures={figures} partition={partition} most={most} />
        ))}
      </span>
      <span class="soft overview-strip-key">
        {hotKey ? (
          <a
            href={href(["data", database, container, "partitions"], { keyEpk: hotKey.epk, partition: hotKey.partition })}
          >
            Hottest key <code>{hotKey.name}</code>, {percent(hotKey.share)}
          </a>
        ) : (
          "No load on single keys"
        )}
      </span>
    </li>
  );
}

function rateOf({ lastMinute }: Partition): number {
  // The second that is still running is left out; the one before may have no entry.
  return lastMinute.at(-2)?.requestUnits ?? lastMinute.at(-1)?.requestUnits ?? 0;
}

interface CellProps {
  readonly figures: ContainerFigures;
  readonly partition: Partition;
  readonly most: number;
}

function Cell({ figures, partition, most }: CellProps): JSX.Element {
  const { database, container } = figures;
  const { id, ruPerSecond, normalized, lastSecondRequestUnits, throttled } = partition;
  const isLimited = ruPerSecond !== undefined;
  const share = isLimited ? normalized : most === 0 ? 0 : lastSecondRequestUnits / most;
  const words = isLimited
    ? `${percent(normalized)} of ${ruNumber(ruPerSecond)} RU/s`
    : `${ruNumber(lastSecondRequestUnits)} RU/s, without a limit`;
  const label = `Partition ${id} of ${container}: ${words}${throttled > 0 ? `, ${throttled} refused` : ""}`;
  return (
    <a
      class={throttled > 0 ? "overview-cell refused" : "overview-cell"}
      href={href(["data", database, container, "partitions"], { partition: id })}
      aria-label={label}
      title={label}
      style={share > 0 ? { backgroundColor: cssOf(Math.min(1, share) * (STEPS - 1)) } : {}}
    />
  );
}
