/** The physical partitions as a table: the figures of the bar, and the actions of a partition. */

import type { JSX } from "preact";
import { bytes, count, percent, ruNumber } from "../../ui/format.ts";
import { Menu } from "../../ui/menu.tsx";
import type { Partition } from "./api.ts";
import { rangeText } from "./epk.ts";

export interface PartitionTableProps {
  readonly partitions: readonly Partition[];
  readonly physicalPartitionBytesMax: number;
  readonly selected: string;
  readonly isReadOnly: boolean;
  readonly onSelect: (id: string) => void;
  readonly onSplit: (partition: Partition) => void;
  readonly onMerge: (partitions: readonly Partition[]) => void;
}

/** Draws the table. */
export function PartitionTable(props: PartitionTableProps): JSX.Element {
  return (
    <div class="parts-table-wrap" tabIndex={0} role="region" aria-label="Physical partitions, table">
      <table class="parts-table">
        <thead>
          <tr>
            <th scope="col">Partition</th>
            <th scope="col">Hash range</th>
            <th scope="col" class="number">
              Items
            </th>
            <th scope="col" class="number">
              Data
            </th>
            <th scope="col" class="number">
              Index
            </th>
            <th scope="col" class="number">
              RU/s now
            </th>
            <th scope="col" class="number">
              Share RU/s
            </th>
            <th scope="col" class="number">
              Used
            </th>
            <th scope="col" class="number">
              429
            </th>
            <th scope="col" class="number">
              LSN
            </th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {props.partitions.map((partition, at) => (
            <Row key={partition.id} {...props} partition={partition} next={props.partitions[at + 1]} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row(
  props: PartitionTableProps & { readonly partition: Partition; readonly next: Partition | undefined },
): JSX.Element {
  const { partition, next } = props;
  const range = { min: partition.minInclusive, max: partition.maxExclusive };
  const full = partition.bytes / props.physicalPartitionBytesMax;
  const actions = [
    { label: "Split", onSelect: () => props.onSplit(partition), disabled: props.isReadOnly },
    {
      label: next === undefined ? "Merge with the next" : `Merge with ${next.id}`,
      onSelect: () => next && props.onMerge([partition, next]),
      disabled: props.isReadOnly || next === undefined,
    },
  ];
  return (
    <tr
      class={props.selected === partition.id ? "selected" : undefined}
      onClick={() => props.onSelect(partition.id)}
    >
      <th scope="row" data-label="Partition">
        {partition.id}
      </th>
      <td data-label="Hash range" title={`${range.min || "00"} – ${range.max}`}>
        <code>{rangeText(range)}</code>
      </td>
      <td data-label="Items" class="number">
        {count(partition.items)}
      </td>
      <td data-label="Data" class="number" title={`${percent(full)} of the bytes beyond which it is split`}>
        {bytes(partition.bytes)}
      </td>
      <td data-label="Index" class="number">
        {bytes(partition.indexBytes)}
      </td>
      <td data-label="RU/s now" class="number">
        {ruNumber(partition.lastSecondRequestUnits)}
      </td>
      <td data-label="Share RU/s" class="number">
        {partition.ruPerSecond === undefined ? "no limit" : count(partition.ruPerSecond)}
      </td>
      <td data-label="Used" class="number">
        {percent(partition.normalized)}
      </td>
      <td
        data-label="429"
        class={partition.throttled > 0 ? "number bad" : "number"}
        title={
          partition.wouldThrottle > 0
            ? `${count(partition.wouldThrottle)} more if the throughput were enforced`
            : undefined
        }
      >
        {count(partition.throttled)}
      </td>
      <td data-label="LSN" class="number">
        {count(partition.lsn)}
      </td>
      <td class="parts-actions">
        <Menu label={`Actions of partition ${partition.id}`} items={actions} />
      </td>
    </tr>
  );
}

/** Returns the partitions as rows of CSV. */
export function partitionRows(partitions: readonly Partition[]): (string | number)[][] {
  const rows: (string | number)[][] = [
    [
      "partition",
      "minInclusive",
      "maxExclusive",
      "items",
      "bytes",
      "indexBytes",
      "requestUnitsLastSecond",
      "ruPerSecond",
      "normalized",
      "throttled",
      "lsn",
    ],
  ];
  for (const partition of partitions) {
    rows.push([
      partition.id,
      partition.minInclusive,
      partition.maxExclusive,
      partition.items,
      partition.bytes,
      partition.indexBytes,
      partition.lastSecondRequestUnits,
      partition.ruPerSecond ?? "",
      partition.normalized,
      partition.throttled,
      partition.lsn,
    ]);
  }
  return rows;
}
