/** RU/s of each physical partition against its share, and the refused requests below.
 *
 * The picture begins with the last minute and grows while the page is open. With many partitions the
 * busiest are drawn. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Chart } from "../../ui/chart.tsx";
import { count, ruNumber } from "../../ui/format.ts";
import type { Partition } from "./api.ts";
import type { PartitionSamples, Sample } from "./samples.ts";
import { Why } from "./why.tsx";

export interface LoadChartProps {
  readonly samples: PartitionSamples;
  readonly partitions: readonly Partition[];
}

/** Colours of Okabe and Ito, which stay distinct for colour-blind eyes. */
const LINES = 5;
const REFUSED = "--bad";
const SHARE = "--line-strong";
const HEIGHT = 220;
const HEIGHT_REFUSED = 96;
const BUSY_SECONDS = 300;

/** Draws the section. */
export function LoadChart({ samples, partitions }: LoadChartProps): JSX.Element {
  const { samples: all } = samples;
  const ids = useMemo(() => busiest(samples, partitions), [samples, partitions]);
  const at = useMemo(() => all.map((sample) => sample.seconds), [all]);
  const load = useMemo(() => loadSeries(all, ids, partitions), [all, ids, partitions]);
  const refused = useMemo(() => refusedSeries(all), [all]);
  const hidden = partitions.length - ids.length;
  return (
    <section class="parts-section" aria-labelledby="parts-load">
      <header>
        <h2 id="parts-load">Load of each partition</h2>
        {hidden > 0 && <span class="soft">the {ids.length} busiest of {count(partitions.length)}</span>}
      </header>
      <Chart
        title="RU/s of each partition and its share"
        series={load}
        at={at}
        format={ruNumber}
        height={HEIGHT}
        sync="parts-load"
      />
      <Chart
        title="Requests refused with 429 in a second"
        series={refused}
        at={at}
        isBars
        format={ruNumber}
        height={HEIGHT_REFUSED}
        sync="parts-load"
      />
      <Why doc="watch.md">
        The dashed line is the share of RU/s that each partition may use. One line at it while the others
        are low is a hot partition; all lines at it mean that the container needs more throughput.
      </Why>
    </section>
  );
}

/** Returns the ids of the partitions to draw, in order of their numbers. */
function busiest(samples: PartitionSamples, partitions: readonly Partition[]): string[] {
  const busy = partitions.map(({ id }) => ({ id, ru: samples.busy(id, BUSY_SECONDS) }));
  busy.sort((a, b) => b.ru - a.ru);
  const ids = busy.slice(0, LINES).map(({ id }) => id);
  return ids.sort((a, b) => Number(a) - Number(b));
}

interface Series {
  readonly label: string;
  readonly colour: string;
  readonly isDashed?: boolean;
  readonly values: readonly (number | null)[];
}

function loadSeries(
  samples: readonly Sample[],
  ids: readonly string[],
  partitions: readonly Partition[],
): Series[] {
  const series: Series[] = [];
  for (const [at, id] of ids.entries()) {
    const values = samples.map((sample) => sample.partitions.get(id)?.ruPerSecond ?? null);
    series.push({ label: `Partition ${id}`, colour: `--category-${at + 1}`, values });
  }
  const shares = partitions.map((partition) => partition.ruPerSecond ?? 0);
  const share = Math.max(0, ...shares);
  if (share > 0) {
    const isEqual = Math.min(...shares) === share;
    const label = isEqual ? "Share" : "Largest share";
    series.push({ label, colour: SHARE, isDashed: true, values: samples.map(() => share) });
  }
  return series;
}

function refusedSeries(samples: readonly Sample[]): Series[] {
  const values: number[] = [];
  for (const sample of samples) {
    let refused = 0;
    for (const rate of sample.partitions.values()) refused += rate.throttledPerSecond;
    values.push(refused);
  }
  return [{ label: "Refused", colour: REFUSED, values }];
}
