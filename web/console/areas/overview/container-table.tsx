/** The containers as a table: data, throughput, the busiest partition's use of it. */

import type { JSX } from "preact";
import { DataTable, type DataColumn } from "../../ui/data-table.tsx";
import { bytes, count, percent, ruNumber } from "../../ui/format.ts";
import type { ContainerFigures } from "./figures.ts";

const COLUMNS: readonly DataColumn<ContainerFigures>[] = [
  { id: "database", header: "Database", value: (row) => row.database, width: 130 },
  { id: "container", header: "Container", value: (row) => row.container, width: 150 },
  { id: "items", header: "Items", value: (row) => row.items, cell: (row) => count(row.items), isNumber: true, width: 80 },
  { id: "bytes", header: "JSON", value: (row) => row.bytes, cell: (row) => bytes(row.bytes), isNumber: true, width: 86 },
  {
    id: "partitions",
    header: "Partitions",
    value: (row) => row.partitions.length,
    isNumber: true,
    width: 86,
  },
  {
    id: "throughput",
    header: "Throughput",
    value: (row) => row.throughput.ruPerSecond,
    cell: throughputText,
    isNumber: true,
    width: 130,
  },
  { id: "used", header: "Used now", value: used, cell: (row) => <Used figures={row} />, width: 150 },
  { id: "ru", header: "RU since start", value: spent, cell: (row) => ruNumber(spent(row)), isNumber: true, width: 118 },
  { id: "throttled", header: "429", value: refused, cell: (row) => count(refused(row)), isNumber: true, width: 60 },
];

function throughputText({ throughput }: ContainerFigures): string {
  if (throughput.ruPerSecond === undefined) return "–";
  const text = `${count(throughput.ruPerSecond)} RU/s`;
  if (throughput.shared === "yes") return `${text}, shared`;
  return throughput.mode === "autoscale" ? `${text}, autoscale` : text;
}

/** The share of its throughput that the busiest partition used in the last whole second. */
function used({ partitions }: ContainerFigures): number {
  return Math.max(0, ...partitions.map(({ normalized }) => normalized));
}

function spent({ partitions }: ContainerFigures): number {
  let sum = 0;
  for (const { requestUnits } of partitions) sum += requestUnits;
  return sum;
}

function refused({ partitions }: ContainerFigures): number {
  let sum = 0;
  for (const { throttled } of partitions) sum += throttled;
  return sum;
}

function Used({ figures }: { readonly figures: ContainerFigures }): JSX.Element {
  const share = used(figures);
  return (
    <span class="overview-used">
      <span class="overview-bar" aria-hidden="true">
        <span style={{ width: `${Math.min(100, share * 100)}%` }} />
      </span>
      {percent(share)}
    </span>
  );
}

export interface ContainerTableProps {
  readonly figures: readonly ContainerFigures[];
  readonly onOpen: (figures: ContainerFigures) => void;
}

/** Draws the table. */
export function ContainerTable({ figures, onOpen }: ContainerTableProps): JSX.Element {
  return (
    <DataTable
      label="Containers"
      columns={COLUMNS}
      rows={figures}
      rowId={({ database, container }) => JSON.stringify([database, container])}
      onOpen={onOpen}
      storeKey="overview"
    />
  );
}
