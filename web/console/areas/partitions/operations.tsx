/** Splits and merges of a container while they run, step by step or at once, and the latest ended. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asApiError, type ApiError } from "../../api/client.ts";
import { Button } from "../../ui/button.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { ago, bytes, duration } from "../../ui/format.ts";
import { Badge } from "../../ui/states.tsx";
import { act, type Operation, type Partition } from "./api.ts";

export interface OperationsProps {
  readonly operations: readonly Operation[];
  /** The physical partitions, for the bytes that are to be copied. */
  readonly partitions: readonly Partition[];
  readonly isReadOnly: boolean;
  readonly onChanged: () => void;
}

const STEPS: readonly (readonly [step: string, label: string])[] = [
  ["copy", "Copy"],
  ["close", "Close"],
  ["switch", "Switch"],
];
const ENDED_SHOWN = 4;

/** Draws the operations; nothing if there are none. */
export function Operations(props: OperationsProps): JSX.Element | null {
  const running = props.operations.filter((operation) => operation.next !== undefined);
  const ended = props.operations.filter((operation) => operation.next === undefined).reverse();
  if (running.length + ended.length === 0) return null;
  return (
    <section class="parts-section" aria-labelledby="parts-operations">
      <header>
        <h2 id="parts-operations">Splits and merges</h2>
      </header>
      <ul class="parts-operations">
        {running.map((operation) => (
          <Running key={operation.id} {...props} operation={operation} />
        ))}
        {ended.slice(0, ENDED_SHOWN).map((operation) => (
          <Ended key={operation.id} operation={operation} />
        ))}
      </ul>
    </section>
  );
}

function title(operation: Operation): string {
  const ids = operation.ids.join(" and ");
  return operation.kind === "split" ? `Split of partition ${ids}` : `Merge of partitions ${ids}`;
}

function Running(props: OperationsProps & { readonly operation: Operation }): JSX.Element {
  const { operation, onChanged } = props;
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState("");
  // What the page drew before the step is old as soon as the step has ended.
  useEffect(() => setBusy(""), [operation.status]);
  const run = async (action: "next" | "finish" | "cancel"): Promise<void> => {
    setBusy(action);
    setError(null);
    try {
      await act(operation.id, action);
    } catch (problem) {
      setError(asApiError(problem));
    }
    setBusy("");
    onChanged();
  };
  const isWaiting = operation.stepwise === "yes";
  const off = props.isReadOnly || busy !== "";
  return (
    <li class="parts-operation running">
      <div class="parts-operation-head">
        <strong>{title(operation)}</strong>
        <span class="soft">{duration(Date.now() - operation.beganMilliseconds)}</span>
      </div>
      <Steps operation={operation} partitions={props.partitions} />
      <p class="soft">{effect(operation)}</p>
      <div class="actions">
        {isWaiting && (
          <Button kind="primary" busy={busy === "next"} disabled={off && busy !== "next"} onClick={() => void run("next")}>
            {`Next step: ${operation.next ?? ""}`}
          </Button>
        )}
        {isWaiting && (
          <Button busy={busy === "finish"} disabled={off && busy !== "finish"} onClick={() => void run("finish")}>
            Run all steps
          </Button>
        )}
        <Button busy={busy === "cancel"} disabled={off && busy !== "cancel"} onClick={() => void run("cancel")}>
          {operation.kind === "split" ? "Cancel the split" : "Cancel the merge"}
        </Button>
      </div>
      {error && <ErrorView error={error} />}
    </li>
  );
}

/** Draws the steps: done, current, to come. */
function Steps(props: { readonly operation: Operation; readonly partitions: readonly Partition[] }): JSX.Element {
  const { operation } = props;
  const current = STEPS.findIndex(([step]) => step === operation.next);
  let total = 0;
  for (const partition of props.partitions) {
    if (operation.ids.includes(partition.id)) total += partition.bytes + partition.indexBytes;
  }
  // Rows are larger than the items' texts, so the estimate is kept above what is copied.
  const share = current > 0 ? 1 : Math.min(0.97, operation.copiedBytes / Math.max(1, total));
  return (
    <>
      <ol class="parts-steps">
        {STEPS.map(([step, label], at) => (
          <li
            key={step}
            class={at < current ? "done" : at === current ? "current" : ""}
            aria-current={at === current ? "step" : undefined}
          >
            {label}
          </li>
        ))}
      </ol>
      <div class="parts-progress" role="progressbar" aria-label="Copied" aria-valuenow={Math.round(share * 100)} aria-valuemin={0} aria-valuemax={100}>
        <span style={{ width: `${share * 100}%` }} />
      </div>
      <span class="soft">{bytes(operation.copiedBytes)} copied</span>
    </>
  );
}

function effect(operation: Operation): string {
  if (operation.status === "copying") return "Rows are being copied. Requests are not affected.";
  if (operation.status === "copied") {
    return "All rows are copied, and new writes are copied as they happen. Requests are not affected.";
  }
  return "Requests to the old partitions are answered with 410/1007 until the switch.";
}

function Ended({ operation }: { readonly operation: Operation }): JSX.Element {
  const kind = operation.status === "done" ? "good" : operation.status === "failed" ? "bad" : "info";
  const ended = operation.endedMilliseconds ?? operation.beganMilliseconds;
  return (
    <li class="parts-operation">
      <div class="parts-operation-head">
        <span>
          {title(operation)}
          {operation.newIds.length > 0 && ` → ${operation.newIds.join(", ")}`}
        </span>
        <Badge kind={kind}>{operation.status}</Badge>
        <span class="soft" title={new Date(ended).toLocaleString()}>
          {ago(new Date(ended))}, {duration(ended - operation.beganMilliseconds)}, {bytes(operation.copiedBytes)}
        </span>
      </div>
      {operation.failure && <p class="bad">{operation.failure}</p>}
    </li>
  );
}
