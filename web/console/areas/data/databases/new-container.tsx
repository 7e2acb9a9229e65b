/** The form for a new container, at the side of the page.
 *
 * Promises: each problem, found here or by the server, stands at its field; nothing typed is lost
 * when the server refuses. Leaves out: rules of fields (`logic/container-form.ts`). */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError } from "../../../api/client.ts";
import { containers } from "../../../api/data.ts";
import { href, navigate } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { TextField } from "../../../ui/field.tsx";
import { toast } from "../../../ui/toast.tsx";
import {
  bodyOf,
  emptyForm,
  fieldOfRefusal,
  problemsOfForm,
  type ContainerForm,
  type FieldProblem,
} from "../logic/container-form.ts";
import { FormProblem, messageOf } from "../form-problem.tsx";
import { reloadList } from "../tree/tree-store.ts";
import { MoreOptions } from "./container-options.tsx";
import { throughputOf } from "./new-database.tsx";
import { ThroughputFields } from "./throughput-fields.tsx";

export interface NewContainerProps {
  readonly database: string;
  /** True if the database has throughput that containers may share. */
  readonly isShared: boolean;
  readonly onClose: () => void;
}

/** What the parts of the form get. */
export interface FormPart {
  readonly form: ContainerForm;
  readonly change: (part: Partial<ContainerForm>) => void;
  /** Returns the first problem of a field, or of the fields below it. */
  readonly problem: (field: string) => string | undefined;
}

/** Draws the form. */
export function NewContainer({ database, isShared, onClose }: NewContainerProps): JSX.Element {
  const [form, setForm] = useState<ContainerForm>(() => ({
    ...emptyForm(),
    throughput: isShared ? { mode: "shared", ru: "" } : { mode: "manual", ru: "400" },
  }));
  const [problems, setProblems] = useState<readonly FieldProblem[]>([]);
  const [busy, setBusy] = useState(false);
  const change = (part: Partial<ContainerForm>): void => setForm((before) => ({ ...before, ...part }));
  const problem = (field: string): string | undefined =>
    problems.find((found) => found.field === field)?.message;

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    const found = problemsOfForm(form);
    setProblems(found);
    if (found.length > 0) return;
    setBusy(true);
    try {
      await containers.create(database, bodyOf(form), throughputOf(form.throughput));
      reloadList(encodeURIComponent(database));
      toast(`Container ${form.id} was created.`);
      navigate(href(["data", database, form.id, "items"]));
    } catch (refusal) {
      const message = messageOf(asApiError(refusal));
      setProblems([{ field: fieldOfRefusal(message), message }]);
      setBusy(false);
    }
  };

  const part: FormPart = { form, change, problem };
  return (
    <Dialog title={`New container in ${database}`} onClose={onClose} place="side">
      <form onSubmit={(event) => void submit(event)} noValidate>
        <TextField
          label="Name"
          value={form.id}
          onInput={(id) => change({ id })}
          error={problem("id")}
          mono
          autofocus
        />
        <KeyFields {...part} />
        <ThroughputFields
          value={form.throughput}
          onChange={(throughput) => change({ throughput })}
          sharedLabel={isShared ? "Shared: the container uses the RU/s of the database" : undefined}
          error={problem("throughput")}
        />
        <MoreOptions {...part} />
        <FormProblem message={problem("form")} />
        {problems.length > 0 && problem("form") === undefined && (
          <FormProblem message={`${problems.length === 1 ? "A field has a problem" : "Some fields have problems"}. Correct them and create the container.`} />
        )}
        <footer class="actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy}>
            Create container
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

const LEVELS = ["Partition key", "Second level", "Third level"];

function KeyFields({ form, change, problem }: FormPart): JSX.Element {
  const set = (index: number, path: string): void => change({ keyPaths: form.keyPaths.with(index, path) });
  const remove = (index: number): void => change({ keyPaths: form.keyPaths.toSpliced(index, 1) });
  return (
    <fieldset class="data-group">
      <legend class="visually-hidden">Partition key</legend>
      {form.keyPaths.map((path, index) => (
        <div key={index} class="data-line">
          <TextField
            label={LEVELS[index] ?? "Level"}
            value={path}
            onInput={(text) => set(index, text)}
            placeholder="/customerId"
            error={problem(`key/${index}`) ?? (index === 0 ? problem("key") : undefined)}
            help={index === 0 ? "The property that decides in which partition an item is. It cannot be changed later." : undefined}
            mono
          />
          {index > 0 && (
            <Button kind="quiet" icon="trash" label={`Remove ${LEVELS[index]}`} onClick={() => remove(index)} />
          )}
        </div>
      ))}
      {form.keyPaths.length < LEVELS.length && (
        <div>
          <Button kind="quiet" icon="plus" onClick={() => change({ keyPaths: [...form.keyPaths, ""] })}>
            Add a level (hierarchical partition key)
          </Button>
        </div>
      )}
    </fieldset>
  );
}
