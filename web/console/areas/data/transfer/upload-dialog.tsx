/** The dialog that uploads items: choose files, check the first items, write, list what was refused. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useUnsaved } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { CheckField, RadioField } from "../../../ui/field.tsx";
import { bytes, count, duration, plural, ru } from "../../../ui/format.ts";
import { Icon } from "../../../ui/icons.tsx";
import { useResource } from "../../../ui/resource.ts";
import { Banner, Skeleton } from "../../../ui/states.tsx";
import { timeLeftMs } from "../logic/paced.ts";
import { shownComponent } from "../logic/partition-key.ts";
import { ProgressBar } from "./progress-bar.tsx";
import type { TransferProps } from "./transfer-dialog.tsx";
import { previewOf, ready, refusalLines, Upload, type UploadState } from "./upload.ts";

/** Draws the dialog. */
export function UploadDialog(props: TransferProps): JSX.Element {
  const { database, definition } = props;
  const [files, setFiles] = useState<readonly File[]>([]);
  const [mode, setMode] = useState<"create" | "upsert">("create");
  const [addsIds, setAddsIds] = useState(false);
  const [state, setState] = useState<UploadState | null>(null);
  const upload = useRef<Upload | null>(null);
  const isRunning = state !== null && !state.isDone;
  useUnsaved(isRunning);
  useEffect(() => () => upload.current?.stop(), []);

  const start = (): void => {
    const target = {
      database,
      container: definition.id,
      definition: definition.partitionKey,
      isUpsert: mode === "upsert",
      addsIds,
    };
    upload.current = new Upload(files, target, setState);
    void upload.current.run().then(props.onUploaded);
  };

  return (
    <Dialog title={`Upload items to ${definition.id}`} onClose={isRunning ? undefined : props.onClose} wide>
      {state === null && (
        <>
          <FileChoice files={files} onChange={setFiles} />
          {files.length > 0 && (
            <>
              <Preview files={files} definition={definition} addsIds={addsIds} />
              <RadioField
                label="Items that exist already"
                value={mode}
                options={[
                  ["create", "Refuse: each item is created"],
                  ["upsert", "Replace: each item is created or replaced"],
                ]}
                onChange={setMode}
              />
              <CheckField label="Create an id for items without one" checked={addsIds} onChange={setAddsIds} />
            </>
          )}
          <footer class="actions">
            <Button onClick={props.onClose}>Cancel</Button>
            <Button kind="primary" icon="upload" disabled={files.length === 0} onClick={start}>
              Upload items
            </Button>
          </footer>
        </>
      )}
      {state !== null && (
        <Running state={state} upload={upload.current} onClose={props.onClose} />
      )}
    </Dialog>
  );
}

function FileChoice(props: {
  readonly files: readonly File[];
  readonly onChange: (files: readonly File[]) => void;
}): JSX.Element {
  const [isOver, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    const dropped = [...(event.dataTransfer?.files ?? [])];
    if (dropped.length > 0) props.onChange(dropped);
  };
  const over = (event: DragEvent): void => {
    event.preventDefault();
    setOver(true);
  };
  return (
    <div
      class={isOver ? "data-drop over" : "data-drop"}
      onDragOver={over}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <Icon name="upload" />
      <p>JSON (an array), JSON lines or CSV with a line of names. Drop files here, or choose them.</p>
      <input
        ref={input}
        type="file"
        multiple
        class="visually-hidden"
        tabIndex={-1}
        aria-label="Files to upload"
        accept=".json,.jsonl,.ndjson,.csv,.tsv,application/json,text/csv"
        onChange={(event) => props.onChange([...(event.currentTarget.files ?? [])])}
      />
      <Button onClick={() => input.current?.click()}>Choose files</Button>
      {props.files.length > 0 && (
        <ul class="data-plain-list">
          {props.files.map((file) => (
            <li key={file.name}>
              <span class="mono">{file.name}</span> <span class="soft">{bytes(file.size)}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

interface PreviewRow {
  readonly line: number;
  readonly id: string | null;
  readonly keys: readonly string[];
  readonly isKeyMissing: boolean;
  readonly problem: string | undefined;
}

async function previewRows(
  files: readonly File[],
  definition: TransferProps["definition"],
  addsIds: boolean,
): Promise<readonly PreviewRow[]> {
  const [file] = files;
  if (!file) return [];
  const found = await previewOf(file);
  return found.map((item) => {
    if (item.problem !== undefined) {
      return { line: item.line, id: null, keys: [], isKeyMissing: false, problem: item.problem };
    }
    const { id, keys } = ready(item, definition.partitionKey, addsIds);
    return {
      line: item.line,
      id,
      keys: keys.map(shownComponent),
      isKeyMissing: keys.some((key) => key === undefined),
      problem: id === null ? "no id" : undefined,
    };
  });
}

function Preview(props: {
  readonly files: readonly File[];
  readonly definition: TransferProps["definition"];
  readonly addsIds: boolean;
}): JSX.Element {
  const { files, definition, addsIds } = props;
  const inputs = [files.map((file) => [file.name, file.size, file.lastModified]), addsIds];
  const rows = useResource(() => previewRows(files, definition, addsIds), inputs);
  const { paths } = definition.partitionKey;
  if (rows.error) return <ErrorView error={rows.error} title="The file could not be read." />;
  if (!rows.value) return <Skeleton lines={4} />;
  const missing = rows.value.filter((row) => row.isKeyMissing).length;
  return (
    <div class="stack">
      <h3>First items of {files[0]?.name}</h3>
      {rows.value.length === 0 && <Banner kind="warn">The file has no item at its beginning.</Banner>}
      {rows.value.length > 0 && (
        <div class="data-preview" role="region" aria-label="First items" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Line</th>
                <th scope="col">id</th>
                {paths.map((path) => (
                  <th key={path} scope="col">
                    {path}
                  </th>
                ))}
                <th scope="col">Problem</th>
              </tr>
            </thead>
            <tbody>
              {rows.value.map((row) => (
                <tr key={row.line}>
                  <td class="number">{row.line}</td>
                  <td class="mono">{row.id}</td>
                  {paths.map((path, level) => (
                    <td key={path} class="mono">
                      {row.keys[level]}
                    </td>
                  ))}
                  <td>{row.problem}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {missing > 0 && (
        <Banner kind="warn">
          {plural(missing, "item")} of these {missing === 1 ? "has" : "have"} no value at{" "}
          <code>{paths.join(", ")}</code>. All such items go into one logical partition.
        </Banner>
      )}
    </div>
  );
}

const LISTED = 50;

function Running(props: {
  readonly state: UploadState;
  readonly upload: Upload | null;
  readonly onClose: () => void;
}): JSX.Element {
  const { state, upload } = props;
  const { figures, elapsedMs } = state;
  const rate = figures.done / Math.max(elapsedMs / 1_000, 0.001);
  const left = timeLeftMs(state.bytesRead, state.bytesTotal, elapsedMs);
  const refusals = upload?.refusals ?? [];
  const save = (): void => {
    void import("../../../ui/clipboard.ts").then(({ saveFile }) =>
      saveFile("refused-items.jsonl", refusalLines(refusals), "application/x-ndjson"),
    );
  };
  return (
    <>
      <ProgressBar label="Read part of the files" done={state.bytesRead} total={state.bytesTotal} />
      <p role="status">
        <strong>{state.isDone ? (state.isStopped ? "Stopped." : "Done.") : "Uploading."}</strong>{" "}
        {plural(figures.done, "item")} stored, {count(state.refused)} refused, {ru(figures.charge)}
      </p>
      <p class="soft">
        {count(rate)} items a second, {figures.concurrency} at a time
        {figures.throttled > 0 && `, ${plural(figures.throttled, "request")} repeated after 429`}
        {!state.isDone && left !== null && elapsedMs > 2_000 && `, ${duration(left)} left`}.
      </p>
      {state.uncertain > 0 && (
        <Banner kind="warn">
          {plural(state.uncertain, "item")} had been sent when the upload stopped, and may be stored.
        </Banner>
      )}
      {refusals.length > 0 && (
        <div class="stack">
          <div class="data-preview" role="region" aria-label="Refused items" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th scope="col">File</th>
                  <th scope="col">Line</th>
                  <th scope="col">Reason</th>
                </tr>
              </thead>
              <tbody>
                {refusals.slice(0, LISTED).map((refusal, index) => (
                  <tr key={index}>
                    <td class="mono">{refusal.file}</td>
                    <td class="number">{refusal.line}</td>
                    <td>{refusal.reason}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {refusals.length > LISTED && <p class="soft">{count(refusals.length - LISTED)} more are in the file.</p>}
          <div>
            <Button icon="download" onClick={save}>
              Save the refused items
            </Button>
          </div>
        </div>
      )}
      <footer class="actions">
        {state.isDone ? (
          <Button kind="primary" onClick={props.onClose}>
            Close
          </Button>
        ) : (
          <Button icon="stop" onClick={() => upload?.stop()}>
            Stop
          </Button>
        )}
      </footer>
    </>
  );
}
