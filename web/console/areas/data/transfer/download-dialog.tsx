/** The dialog that downloads items into a file. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { asApiError, type ApiError } from "../../../api/client.ts";
import { useUnsaved } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { CheckField, RadioField, TextField } from "../../../ui/field.tsx";
import { bytes, count, duration, plural, ru } from "../../../ui/format.ts";
import { toast } from "../../../ui/toast.tsx";
import { timeLeftMs } from "../logic/paced.ts";
import { keyNames } from "../logic/predicates.ts";
import { readContainer } from "../requests.ts";
import { download, type DownloadProgress, type FileFormat } from "./download.ts";
import { openSink } from "./file-sink.ts";
import { ProgressBar } from "./progress-bar.tsx";
import type { TransferProps } from "./transfer-dialog.tsx";

const TYPES: Readonly<Record<FileFormat, string>> = {
  json: "application/json",
  jsonl: "application/x-ndjson",
  csv: "text/csv",
};

/** Draws the dialog. */
export function DownloadDialog(props: TransferProps): JSX.Element {
  const { database, definition } = props;
  const [format, setFormat] = useState<FileFormat>("json");
  const [filter, setFilter] = useState(props.filter);
  const [hasSystem, setSystem] = useState(false);
  const [progress, setProgress] = useState<DownloadProgress | null>(null);
  const [total, setTotal] = useState<number | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const abort = useRef<AbortController | null>(null);
  const isRunning = progress !== null && error === null;
  useUnsaved(isRunning);
  useEffect(() => () => abort.current?.abort(), []);

  const start = async (): Promise<void> => {
    const sink = await openSink(fileName(definition.id, format), TYPES[format]);
    if (sink === null) return;
    const aborter = new AbortController();
    abort.current = aborter;
    setError(null);
    setProgress({ items: 0, characters: 0, charge: 0, throttled: 0, elapsedMs: 0 });
    setTotal(null);
    if (filter.trim() === "") {
      // Without a filter the number of items is known; the download does not wait for the figure.
      readContainer(database, definition.id, aborter.signal).then(
        (state) => setTotal(state.items),
        () => setTotal(null),
      );
    }
    const options = {
      database,
      container: definition.id,
      filter,
      format,
      hasSystem,
      firstColumns: keyNames(definition.partitionKey).map((names) => names[0] ?? ""),
      signal: aborter.signal,
      onProgress: setProgress,
    };
    try {
      const isWhole = await download(options, sink);
      if (isWhole) {
        await sink.close();
        toast("The file is complete.");
        props.onClose();
      } else {
        await sink.discard();
        setProgress(null);
      }
    } catch (problem) {
      await sink.discard();
      setError(asApiError(problem));
    }
  };

  return (
    <Dialog title={`Download items of ${definition.id}`} onClose={isRunning ? undefined : props.onClose}>
      {error && <ErrorView error={error} title="The download ended early." />}
      {!isRunning && (
        <>
          <RadioField
            label="Format"
            value={format}
            options={[
              ["json", "JSON: one array"],
              ["jsonl", "JSON lines: an item on each line"],
              ["csv", "CSV: a column for each property"],
            ]}
            onChange={setFormat}
          />
          <TextField
            label="Filter as a SQL predicate"
            value={filter}
            onInput={setFilter}
            help="Empty: all items."
            mono
          />
          <CheckField label="Include the system properties" checked={hasSystem} onChange={setSystem} />
          <footer class="actions">
            <Button onClick={props.onClose}>Cancel</Button>
            <Button kind="primary" icon="download" onClick={() => void start()}>
              Download items
            </Button>
          </footer>
        </>
      )}
      {isRunning && (
        <>
          {total !== null && <ProgressBar label="Downloaded items" done={progress.items} total={total} />}
          <Figures progress={progress} total={total} />
          <footer class="actions">
            <Button icon="stop" onClick={() => abort.current?.abort()}>
              Stop
            </Button>
          </footer>
        </>
      )}
    </Dialog>
  );
}

function Figures(props: { readonly progress: DownloadProgress; readonly total: number | null }): JSX.Element {
  const { progress, total } = props;
  const rate = progress.items / Math.max(progress.elapsedMs / 1_000, 0.001);
  const left = total === null ? null : timeLeftMs(progress.items, total, progress.elapsedMs);
  return (
    <>
      <p role="status">
        {plural(progress.items, "item")} · {bytes(progress.characters)} · {ru(progress.charge)}
      </p>
      <p class="soft">
        {count(rate)} items a second
        {progress.throttled > 0 && `, ${plural(progress.throttled, "page")} repeated after 429`}
        {left !== null && progress.elapsedMs > 2_000 && `, ${duration(left)} left`}.
      </p>
    </>
  );
}

/** Returns a name that every file system accepts. */
function fileName(container: string, format: FileFormat): string {
  return `${container.replace(/[^\p{L}\p{N}._-]/gu, "_")}.${format}`;
}
