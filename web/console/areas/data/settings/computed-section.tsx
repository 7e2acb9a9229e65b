/** Computed properties: a name and a query of one value for each item. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useUnsaved } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { ComputedRows } from "../databases/container-options.tsx";
import { FormProblem } from "../form-problem.tsx";
import { computedProblems, type ComputedRow, type FieldProblem } from "../logic/container-form.ts";
import { replaceMembers } from "./replace.ts";
import type { SectionProps } from "./settings-tab.tsx";

/** Returns the row that a refusal names, or the whole list. */
export function computedField(message: string, rows: readonly ComputedRow[]): string {
  const index = rows.findIndex(({ name }) => message.includes(`'${name}'`));
  return index < 0 ? "computed" : `computed/${index}`;
}

/** Draws the section. */
export function ComputedSection({ database, definition, readOnly, onChanged }: SectionProps): JSX.Element {
  const saved: ComputedRow[] = (definition.computedProperties ?? []).map(({ name, query }) => ({ name, query }));
  const [rows, setRows] = useState(saved);
  const [problems, setProblems] = useState<readonly FieldProblem[]>([]);
  const [busy, setBusy] = useState(false);
  const isDirty = JSON.stringify(rows) !== JSON.stringify(saved);
  useUnsaved(isDirty, "section");
  const problem = (field: string): string | undefined =>
    problems.find((found) => found.field === field)?.message;

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    const found = computedProblems(rows);
    setProblems(found);
    if (found.length > 0 || busy) return;
    setBusy(true);
    const refusal = await replaceMembers(database, definition, { computedProperties: rows });
    setBusy(false);
    if (refusal === null) onChanged();
    else setProblems([{ field: computedField(refusal, rows), message: refusal }]);
  };

  return (
    <form class="stack" onSubmit={(event) => void save(event)} noValidate>
      <p class="help">
        A computed property has a value in queries and may be indexed; it is not part of the stored item.
      </p>
      <ComputedRows rows={rows} onChange={setRows} problem={(index) => problem(`computed/${index}`)} />
      <FormProblem message={problem("computed")} />
      {!readOnly && (
        <div class="row">
          <Button kind="primary" type="submit" busy={busy} disabled={!isDirty}>
            Save computed properties
          </Button>
          {isDirty && <Button onClick={() => setRows(saved)}>Discard</Button>}
        </div>
      )}
    </form>
  );
}
