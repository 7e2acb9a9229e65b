/** The dialog for a new database. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError } from "../../../api/client.ts";
import { databases, type Throughput } from "../../../api/data.ts";
import { href, navigate } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { TextField } from "../../../ui/field.tsx";
import { toast } from "../../../ui/toast.tsx";
import { fieldOfRefusal, idProblem, ruProblem, type ThroughputChoice } from "../logic/container-form.ts";
import { FormProblem, messageOf } from "../form-problem.tsx";
import { reloadList, setOpen } from "../tree/tree-store.ts";
import { ThroughputFields } from "./throughput-fields.tsx";

/** Returns the throughput of a request for a choice. */
export function throughputOf(choice: ThroughputChoice): Throughput {
  if (choice.mode === "shared") return { kind: "none" };
  const ru = Number(choice.ru);
  return choice.mode === "manual" ? { kind: "manual", ru } : { kind: "autoscale", maxRu: ru };
}

/** Draws the dialog; creates the database and opens its page. */
export function NewDatabase({ onClose }: { readonly onClose: () => void }): JSX.Element {
  const [id, setId] = useState("");
  const [throughput, setThroughput] = useState<ThroughputChoice>({ mode: "shared", ru: "" });
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({});
  const [busy, setBusy] = useState(false);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    const found: Record<string, string> = {};
    const badId = idProblem(id);
    if (badId !== null) found["id"] = badId;
    const badRu = throughput.mode === "shared" ? null : ruProblem(throughput.mode, throughput.ru);
    if (badRu !== null) found["throughput"] = badRu;
    setProblems(found);
    if (Object.keys(found).length > 0) return;
    setBusy(true);
    try {
      await databases.create(id, throughputOf(throughput));
      reloadList("");
      setOpen(encodeURIComponent(id), true);
      toast(`Database ${id} was created.`);
      navigate(href(["data", id]));
    } catch (problem) {
      const message = messageOf(asApiError(problem));
      setProblems({ [fieldOfRefusal(message)]: message });
      setBusy(false);
    }
  };

  return (
    <Dialog title="New database" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)} noValidate>
        <TextField label="Name" value={id} onInput={setId} error={problems["id"]} mono autofocus />
        <ThroughputFields
          value={throughput}
          onChange={setThroughput}
          sharedLabel="None: each container has its own throughput"
          error={problems["throughput"]}
          help="Containers without throughput of their own share these RU/s."
        />
        <FormProblem message={problems["form"]} />
        <footer class="actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy}>
            Create database
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
