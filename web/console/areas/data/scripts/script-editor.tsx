/** The editor of one script: name, source text, and for triggers their type and operation. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError } from "../../../api/client.ts";
import { scripts, type Script } from "../../../api/data.ts";
import { useCommands } from "../../../commands.ts";
import { href, navigate, useUnsaved } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { Editor } from "../../../ui/editor.tsx";
import { SelectField, TextField } from "../../../ui/field.tsx";
import { Badge } from "../../../ui/states.tsx";
import { toast } from "../../../ui/toast.tsx";
import { FormProblem, messageOf } from "../form-problem.tsx";
import { idProblem } from "../logic/container-form.ts";
import { RunPanel } from "./run-panel.tsx";
import type { KindNames } from "./scripts-tab.tsx";

type TriggerType = "Pre" | "Post";
type TriggerOperation = "All" | "Create" | "Update" | "Delete" | "Replace";

/** What a person edits. */
interface Values {
  readonly id: string;
  readonly body: string;
  readonly triggerType: TriggerType;
  readonly triggerOperation: TriggerOperation;
}

const TEMPLATES: Readonly<Record<string, string>> = {
  sprocs: `function (name) {
  // Arguments arrive in the order of the run panel.
  var container = getContext().getCollection();
  var response = getContext().getResponse();
  container.queryDocuments(container.getSelfLink(), "SELECT VALUE COUNT(1) FROM c", {}, function (error, rows) {
    if (error) throw error;
    console.log("items: %s", rows[0]);
    response.setBody({ name: name, items: rows[0] });
  });
}
`,
  triggers: `function () {
  // A pre-trigger may change the item that is about to be written.
  var request = getContext().getRequest();
  var item = request.getBody();
  item.checkedAt = new Date().toISOString();
  request.setBody(item);
}
`,
  udfs: `function (value) {
  return value * 2;
}
`,
};

export interface ScriptEditorProps {
  readonly database: string;
  readonly container: string;
  readonly names: KindNames;
  /** The stored script; null for a new one. */
  readonly script: Script | null;
  readonly keyPaths: readonly string[];
  readonly readOnly: boolean;
  readonly onChanged: () => void;
}

function valuesOf(script: Script | null, kind: string): Values {
  return {
    id: script?.id ?? "",
    body: script?.body ?? TEMPLATES[kind] ?? "",
    triggerType: script?.triggerType ?? "Pre",
    triggerOperation: script?.triggerOperation ?? "All",
  };
}

function bodyOf(values: Values, kind: string): object {
  const { id, body, triggerType, triggerOperation } = values;
  return kind === "triggers" ? { id, body, triggerType, triggerOperation } : { id, body };
}

/** Draws the editor. */
export function ScriptEditor(props: ScriptEditorProps): JSX.Element {
  const { database, container, names, script, readOnly } = props;
  const { kind } = names;
  const saved = valuesOf(script, kind);
  const [values, setValues] = useState(saved);
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({});
  const [busy, setBusy] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const isDirty = JSON.stringify(values) !== JSON.stringify(saved);
  useUnsaved(isDirty && !busy, "new");
  const change = (part: Partial<Values>): void => setValues((before) => ({ ...before, ...part }));
  const base = ["data", database, container, "scripts", kind];

  const save = async (): Promise<void> => {
    if (busy || readOnly) return;
    const badId = idProblem(values.id);
    setProblems(badId === null ? {} : { id: badId });
    if (badId !== null) return;
    setBusy(true);
    try {
      const body = bodyOf(values, kind);
      if (script === null) await scripts.create(database, container, kind, body);
      else await scripts.replace(database, container, kind, script.id, body, script._etag);
      toast(`The ${names.one} was saved.`);
      props.onChanged();
      if (script === null) navigate(href([...base, values.id]), true);
    } catch (problem) {
      const error = asApiError(problem);
      const isIdTaken = error.status === 409;
      setProblems({ [isIdTaken ? "id" : "form"]: isIdTaken ? "The name is taken. Choose another." : messageOf(error) });
    }
    setBusy(false);
  };
  const remove = async (): Promise<void> => {
    if (script === null) return;
    await scripts.delete(database, container, kind, script.id);
    toast(`The ${names.one} ${script.id} was deleted.`);
    setValues(saved);
    props.onChanged();
    navigate(href(base), true);
  };
  const saveNow = (): void => void save();
  useCommands(
    readOnly ? [] : [{ id: "script.save", label: `Save the ${names.one}`, group: "Scripts", keys: ["Mod+S"], run: saveNow }],
  );

  return (
    <section class="data-script stack" aria-label={script === null ? `New ${names.one}` : script.id}>
      <header class="data-item-head">
        <Button kind="quiet" icon="close" label="Close the script" onClick={() => navigate(href(base))} />
        <h2>{script === null ? `New ${names.one}` : script.id}</h2>
        {isDirty && <Badge kind="warn">unsaved</Badge>}
        <span class="data-item-actions">
          {!readOnly && (
            <Button kind="primary" icon="save" busy={busy} disabled={script !== null && !isDirty} onClick={saveNow}>
              {script === null ? `Create ${names.one}` : "Save"}
            </Button>
          )}
          {isDirty && <Button onClick={() => setValues(saved)}>Discard</Button>}
          {script !== null && kind === "udfs" && (
            <a class="button" href={queryAddress(database, container, script.id)}>
              Use in a query
            </a>
          )}
          {script !== null && !readOnly && (
            <Button kind="quiet" icon="trash" label={`Delete the ${names.one}`} onClick={() => setDeleting(true)} />
          )}
        </span>
      </header>
      <FormProblem message={problems["form"]} />
      {script === null && (
        <TextField label="Name" value={values.id} onInput={(id) => change({ id })} error={problems["id"]} mono autofocus />
      )}
      {kind === "triggers" && (
        <div class="data-row">
          <SelectField
            label="Type"
            value={values.triggerType}
            options={[
              ["Pre", "Pre: before the write"],
              ["Post", "Post: after the write"],
            ]}
            onChange={(triggerType) => change({ triggerType })}
            disabled={readOnly}
          />
          <SelectField
            label="Operation"
            value={values.triggerOperation}
            options={[
              ["All", "All writes"],
              ["Create", "Create"],
              ["Update", "Update"],
              ["Replace", "Replace"],
              ["Delete", "Delete"],
            ]}
            onChange={(triggerOperation) => change({ triggerOperation })}
            disabled={readOnly}
          />
        </div>
      )}
      <Editor label="Source text" value={values.body} onChange={(body) => change({ body })} readOnly={readOnly} size="medium" />
      {kind === "triggers" && script !== null && (
        <p class="help">
          A write runs the trigger if its header x-ms-documentdb-{values.triggerType === "Pre" ? "pre" : "post"}
          -trigger-include names <code>{script.id}</code>.
        </p>
      )}
      {kind === "sprocs" && script !== null && (
        <RunPanel database={database} container={container} id={script.id} keyPaths={props.keyPaths} isDirty={isDirty} />
      )}
      {isDeleting && script !== null && (
        <ConfirmDialog
          title={`Delete the ${names.one}`}
          action={`Delete ${names.one}`}
          onConfirm={remove}
          onClose={() => setDeleting(false)}
        >
          <p>
            <code>{script.id}</code> goes. Requests that name it fail afterwards.
          </p>
        </ConfirmDialog>
      )}
    </section>
  );
}

function queryAddress(database: string, container: string, id: string): string {
  const isPlain = /^[A-Za-z_][A-Za-z0-9_]*$/.test(id);
  const name = isPlain ? `udf.${id}` : `udf[${JSON.stringify(id)}]`;
  return href(["data", database, container, "query"], { text: `SELECT VALUE ${name}(c.id) FROM c` });
}
