/** The vector and full-text indexes of a container: sizes, progress, and how many of the nearest
 * vectors an approximate index finds.
 *
 * Leaves out: the policies (`search-section.tsx`, `policy-section.tsx`). */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { asApiError } from "../../../api/client.ts";
import { listSearchIndexes, measureRecall, type Recall, type SearchIndex } from "../../../api/management.ts";
import { Button } from "../../../ui/button.tsx";
import { DataTable, type DataColumn } from "../../../ui/data-table.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { bytes, count, duration, plural } from "../../../ui/format.ts";
import { usePoll, useResource } from "../../../ui/resource.ts";
import { Badge } from "../../../ui/states.tsx";

/** Pauses between two looks at the indexes: while there is work, and otherwise. */
const BUSY_POLL_MS = 2_000;
const IDLE_POLL_MS = 15_000;

/** The words for the states, by the code of the management API. */
const STATES: Readonly<Record<SearchIndex["state"], string>> = {
  exact: "compares all vectors",
  complete: "complete",
  removing: "removing old rows",
  building: "building",
  training: "waits for training",
  indexing: "indexing items",
};

interface SearchIndexesProps {
  readonly database: string;
  readonly container: string;
}

/** What is known about the recall of an index: it is being measured, was measured, or was refused. */
type Measurement = "runs" | Recall | { readonly refusal: string };

/** Draws the indexes; nothing if the container has none. */
export function SearchIndexes({ database, container }: SearchIndexesProps): JSX.Element | null {
  const list = useResource(
    (signal) => listSearchIndexes(database, container, { signal }),
    [database, container],
  );
  const [measured, setMeasured] = useState<ReadonlyMap<string, Measurement>>(new Map());
  const aborter = useRef<AbortController>(new AbortController());
  useEffect(() => () => aborter.current.abort(), []);
  const indexes = list.value?.indexes ?? [];
  usePoll(list, indexes.some(isBusy) ? BUSY_POLL_MS : IDLE_POLL_MS);
  if (list.error && !list.value) {
    return <ErrorView error={list.error} title="The indexes could not be read." onRetry={list.reload} />;
  }
  if (indexes.length === 0) return null;

  const measure = async (path: string): Promise<void> => {
    const note = (measurement: Measurement): void =>
      setMeasured((before) => new Map(before).set(path, measurement));
    const { signal } = aborter.current;
    note("runs");
    try {
      const recall = await measureRecall(database, container, { path }, { signal });
      note(recall);
    } catch (error) {
      if (!signal.aborted) note({ refusal: asApiError(error).message });
    }
  };
  return (
    <section class="stack" aria-label="Indexes">
      <h2>Indexes</h2>
      <DataTable
        label="Search indexes"
        columns={columns(measured, (path) => void measure(path))}
        rows={indexes}
        rowId={idOf}
      />
      {indexes.some(isApproximate) && (
        <p class="help">
          An approximate index compares some of the vectors. Measure recall searches for vectors of the container with
          and without the index, and charges nothing.
        </p>
      )}
      <div class="data-plain-list" role="status">
        {[...measured].map(([path, measurement]) => (
          <p key={path}>
            <code>{path}</code>: {resultText(measurement)}
          </p>
        ))}
      </div>
    </section>
  );
}

function idOf(index: SearchIndex): string {
  return `${index.type} ${index.path} ${index.language ?? ""}`;
}

function isBusy(index: SearchIndex): boolean {
  return index.waiting > 0 || (index.state !== "exact" && index.state !== "complete");
}

/** Returns true if queries use candidates of the index. */
function isApproximate(index: SearchIndex): boolean {
  const isQuantised = index.type === "quantizedFlat" || index.type === "diskANN";
  return isQuantised && (index.state === "complete" || index.state === "building");
}

function columns(
  measured: ReadonlyMap<string, Measurement>,
  measure: (path: string) => void,
): DataColumn<SearchIndex>[] {
  return [
    { id: "path", header: "Path", value: (index) => index.path, width: 130, isMono: true },
    { id: "type", header: "Type", value: typeText, width: 120 },
    {
      id: "entries",
      header: "Entries",
      value: (index) => index.entries,
      cell: entriesText,
      width: 170,
      isNumber: true,
    },
    {
      id: "waiting",
      header: "Waiting",
      value: (index) => index.waiting,
      cell: (index) => (index.type === "fullText" ? "–" : count(index.waiting)),
      width: 80,
      isNumber: true,
    },
    { id: "size", header: "Size", value: sizeOf, cell: sizeText, width: 120, isNumber: true },
    {
      id: "state",
      header: "State",
      value: (index) => index.state,
      cell: (index) => (
        <span>
          <Badge kind={isBusy(index) ? "info" : "good"}>{stateText(index)}</Badge>
        </span>
      ),
      width: 170,
    },
    {
      id: "recall",
      header: "Recall",
      value: () => "",
      isUnsorted: true,
      width: 150,
      cell: (index) =>
        isApproximate(index) ? (
          <div class="row">
            <Button busy={measured.get(index.path) === "runs"} onClick={() => measure(index.path)}>
              Measure recall
            </Button>
          </div>
        ) : (
          "–"
        ),
    },
  ];
}

function typeText(index: SearchIndex): string {
  return index.type === "fullText" ? `full text, ${index.language ?? ""}` : index.type;
}

function entriesText(index: SearchIndex): string {
  // Vectors are counted, texts may be estimated.
  if (index.type !== "fullText") return plural(index.entries, "vector");
  return `${index.estimated ? "about " : ""}${plural(index.entries, "text")}`;
}

function sizeOf(index: SearchIndex): number {
  return index.vectorBytes + index.codeBytes + index.listBytes;
}

function sizeText(index: SearchIndex): JSX.Element | string {
  if (index.type === "fullText") return "–";
  const parts = [
    `${bytes(index.vectorBytes)} of vectors`,
    `${bytes(index.codeBytes)} of quantised vectors`,
    `${bytes(index.listBytes)} of neighbours`,
  ];
  return (
    <span title={parts.join(", ")}>
      {index.estimated ? "about " : ""}
      {bytes(sizeOf(index))}
    </span>
  );
}

function stateText(index: SearchIndex): string {
  const words = index.type === "fullText" && index.state === "exact" ? "complete" : STATES[index.state];
  const hasPercent = index.state === "building" || index.state === "indexing";
  return hasPercent && index.percent !== undefined ? `${words}, ${index.percent} %` : words;
}

/** Returns a measurement in words. */
function resultText(measurement: Measurement): string {
  if (measurement === "runs") return "measuring …";
  if ("refusal" in measurement) return measurement.refusal;
  const { recall, sample, indexMs, exactMs } = measurement;
  if (recall === undefined) return "there are no vectors to search for.";
  const found = `${recall.toFixed(3)} of the nearest 10 found`;
  const searches = plural(sample, "search", "searches");
  return `${found} in ${searches}; ${duration(indexMs)} instead of ${duration(exactMs)}`;
}
