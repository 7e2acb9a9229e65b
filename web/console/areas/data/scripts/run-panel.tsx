/** Runs a stored procedure: partition key value, typed parameters, result, log, cancel.
 *
 * Promises: cancelling aborts the request; the panel then says that the outcome is unknown. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { asApiError, isAborted, type ApiError } from "../../../api/client.ts";
import { scripts, type Json } from "../../../api/data.ts";
import { useCommands } from "../../../commands.ts";
import { Button } from "../../../ui/button.tsx";
import { Editor } from "../../../ui/editor.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { SelectField, TextField } from "../../../ui/field.tsx";
import { duration, ru } from "../../../ui/format.ts";
import { Banner } from "../../../ui/states.tsx";
import { Tabs } from "../../../ui/tabs.tsx";
import { indented } from "../logic/json-text.ts";
import { typedKey } from "../logic/partition-key.ts";
import { inputValue, INPUT_TYPES, type Input, type InputType } from "../logic/script-input.ts";

export interface RunPanelProps {
  readonly database: string;
  readonly container: string;
  readonly id: string;
  readonly keyPaths: readonly string[];
  /** True if the editor has changes: the stored text runs, not the typed one. */
  readonly isDirty: boolean;
}

interface Outcome {
  readonly body: string;
  readonly log: string;
  readonly charge: number;
  readonly ms: number;
}

/** Returns the log of a run; the header is percent-encoded. */
function logOf(header: string | null): string {
  if (header === null) return "";
  try {
    return decodeURIComponent(header);
  } catch {
    return header;
  }
}

/** Draws the panel. */
export function RunPanel(props: RunPanelProps): JSX.Element {
  const { database, container, id, keyPaths } = props;
  const [key, setKey] = useState("");
  const [inputs, setInputs] = useState<readonly Input[]>([]);
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({});
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isCancelled, setCancelled] = useState(false);
  const [isRunning, setRunning] = useState(false);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);

  const run = async (): Promise<void> => {
    if (isRunning) return;
    const found: Record<string, string> = {};
    const keys = typedKey(key, keyPaths.length);
    if ("problem" in keys) found["key"] = keys.problem;
    const values: Json[] = [];
    for (const [index, input] of inputs.entries()) {
      const value = inputValue(input);
      if ("problem" in value) found[String(index)] = value.problem;
      else values.push(value.value as Json);
    }
    setProblems(found);
    if (Object.keys(found).length > 0 || "problem" in keys) return;
    const aborter = new AbortController();
    abort.current = aborter;
    setRunning(true);
    setError(null);
    setOutcome(null);
    setCancelled(false);
    try {
      const reply = await scripts.run(database, container, id, keys, values, aborter.signal);
      const log = logOf(reply.headers.get("x-ms-documentdb-script-log-results"));
      setOutcome({ body: shown(reply.text), log, charge: reply.charge, ms: reply.ms });
    } catch (problem) {
      if (isAborted(problem)) setCancelled(true);
      else setError(asApiError(problem));
    }
    setRunning(false);
  };
  const runNow = (): void => void run();
  const cancel = (): void => abort.current?.abort();
  useCommands([
    { id: "script.run", label: "Run the stored procedure", group: "Scripts", keys: ["Shift+Enter", "F5"], run: runNow },
    ...(isRunning
      ? [{ id: "script.cancel", label: "Cancel the run", group: "Scripts", keys: ["Escape"], run: cancel }]
      : []),
  ]);

  return (
    <section class="card stack" aria-label="Run">
      <h3>Run</h3>
      <TextField
        label={`Partition key value (${keyPaths.join(", ")})`}
        value={key}
        onInput={setKey}
        error={problems["key"]}
        help={keyPaths.length > 1 ? 'A JSON array, for example ["a", 1].' : 'A text, or JSON such as 12, null or "12".'}
        mono
      />
      <Inputs inputs={inputs} problems={problems} onChange={setInputs} />
      <div class="row">
        <Button kind="primary" icon="play" busy={isRunning} onClick={runNow}>
          Run
        </Button>
        {isRunning && (
          <Button icon="stop" onClick={cancel}>
            Cancel
          </Button>
        )}
        {props.isDirty && <span class="soft">The saved text runs. Save first to run your changes.</span>}
      </div>
      {isCancelled && (
        <Banner kind="warn">The run was cancelled. The procedure may have ended on the server before that.</Banner>
      )}
      {error && <ErrorView error={error} title="The stored procedure failed. Nothing was written." />}
      {outcome && <Result outcome={outcome} />}
    </section>
  );
}

function shown(text: string): string {
  try {
    return indented(text);
  } catch {
    return text;
  }
}

function Inputs(props: {
  readonly inputs: readonly Input[];
  readonly problems: Readonly<Record<string, string>>;
  readonly onChange: (inputs: readonly Input[]) => void;
}): JSX.Element {
  const { inputs, onChange } = props;
  const types = INPUT_TYPES.map((type) => [type, type] as const);
  return (
    <>
      {inputs.map((input, index) => (
        <fieldset key={index} class="data-row">
          <legend class="visually-hidden">Parameter {index + 1}</legend>
          <SelectField
            label={`Parameter ${index + 1}`}
            value={input.type}
            options={types}
            onChange={(type: InputType) => onChange(inputs.with(index, { ...input, type }))}
          />
          <TextField
            label="Value"
            class="data-wide"
            value={input.text}
            onInput={(text) => onChange(inputs.with(index, { ...input, text }))}
            disabled={input.type === "null"}
            error={props.problems[String(index)]}
            mono
          />
          <Button
            kind="quiet"
            icon="trash"
            label={`Remove parameter ${index + 1}`}
            onClick={() => onChange(inputs.toSpliced(index, 1))}
          />
        </fieldset>
      ))}
      <div>
        <Button kind="quiet" icon="plus" onClick={() => onChange([...inputs, { type: "string", text: "" }])}>
          Add a parameter
        </Button>
      </div>
    </>
  );
}

function Result({ outcome }: { readonly outcome: Outcome }): JSX.Element {
  const [tab, setTab] = useState<"result" | "log">("result");
  return (
    <div class="stack">
      <p role="status">
        {ru(outcome.charge)} · {duration(outcome.ms)}
      </p>
      <Tabs
        label="Outcome"
        tabs={[
          ["result", "Result"],
          ["log", "console.log"],
        ]}
        current={tab}
        onChange={setTab}
      >
        {tab === "result" ? (
          <Editor label="Result" language="json" value={outcome.body} readOnly size="small" />
        ) : (
          <pre class="data-log">{outcome.log === "" ? "The procedure logged nothing." : outcome.log}</pre>
        )}
      </Tabs>
    </div>
  );
}
