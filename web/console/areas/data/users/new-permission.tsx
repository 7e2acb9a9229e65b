/** The dialog for a new permission. */

import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { asApiError } from "../../../api/client.ts";
import { permissions } from "../../../api/data.ts";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { Field, RadioField, TextField } from "../../../ui/field.tsx";
import { useResource } from "../../../ui/resource.ts";
import { toast } from "../../../ui/toast.tsx";
import { FormProblem, messageOf } from "../form-problem.tsx";
import { idProblem } from "../logic/container-form.ts";
import { feeds, namePage } from "../requests.ts";

export interface NewPermissionProps {
  readonly database: string;
  readonly user: string;
  readonly onClose: () => void;
  readonly onCreated: () => void;
}

/** Draws the dialog. */
export function NewPermission(props: NewPermissionProps): JSX.Element {
  const { database, user } = props;
  const [id, setId] = useState("");
  const [mode, setMode] = useState<"Read" | "All">("Read");
  const [resource, setResource] = useState("");
  const [key, setKey] = useState("");
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({});
  const [busy, setBusy] = useState(false);
  const list = useId();
  const containers = useResource((signal) => namePage(feeds.containers(database), null, signal), [database]);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const found = problemsOf(id, resource, key);
    setProblems(found);
    if (Object.keys(found).length > 0 || busy) return;
    setBusy(true);
    const body: Record<string, unknown> = { id, permissionMode: mode, resource: resource.trim() };
    if (key.trim() !== "") body["resourcePartitionKey"] = JSON.parse(key) as unknown;
    try {
      await permissions.create(database, user, body);
      toast(`The permission ${id} was created.`);
      props.onCreated();
    } catch (refusal) {
      const message = messageOf(asApiError(refusal));
      setProblems({ [fieldOf(message)]: message });
      setBusy(false);
    }
  };

  return (
    <Dialog title={`New permission of ${user}`} onClose={props.onClose}>
      <form onSubmit={(event) => void submit(event)} noValidate>
        <TextField label="Name" value={id} onInput={setId} error={problems["id"]} mono autofocus />
        <RadioField
          label="Mode"
          value={mode}
          options={[
            ["Read", "Read"],
            ["All", "Read and write"],
          ]}
          onChange={setMode}
        />
        <Field
          label="Resource"
          error={problems["resource"]}
          help="The link of a container, or of an item or script in it, such as dbs/blog/colls/posts/docs/p1."
        >
          {(control) => (
            <input
              {...control}
              class="mono"
              list={list}
              value={resource}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setResource(event.currentTarget.value)}
            />
          )}
        </Field>
        <datalist id={list}>
          {(containers.value?.names ?? []).slice(0, 200).map((name) => (
            <option key={name} value={`dbs/${database}/colls/${name}`} />
          ))}
        </datalist>
        <TextField
          label="Partition key value"
          value={key}
          onInput={setKey}
          error={problems["key"]}
          placeholder='["a"]'
          help="A JSON array. Empty: all partition keys of the resource."
          mono
        />
        <FormProblem message={problems["form"]} />
        <footer class="actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy}>
            Create permission
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function problemsOf(id: string, resource: string, key: string): Record<string, string> {
  const problems: Record<string, string> = {};
  const badId = idProblem(id);
  if (badId !== null) problems["id"] = badId;
  if (!/^dbs\/[^/]+\/colls\/[^/]+/.test(resource.trim())) {
    problems["resource"] = "The link is malformed. Write dbs/<database>/colls/<container>.";
  }
  if (key.trim() !== "" && !isArray(key)) {
    problems["key"] = 'The value is not a JSON array. Write a value such as ["a"].';
  }
  return problems;
}

function isArray(text: string): boolean {
  try {
    return Array.isArray(JSON.parse(text));
  } catch {
    return false;
  }
}

function fieldOf(message: string): string {
  if (/partition key/i.test(message)) return "key";
  if (/resource|link/i.test(message) && !/already exists/i.test(message)) return "resource";
  return /\bid\b|already exists/i.test(message) ? "id" : "form";
}
