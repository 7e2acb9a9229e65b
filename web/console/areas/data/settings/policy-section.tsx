/** The indexing policy: editor, comparison before saving, progress of the index afterwards. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useUnsaved } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { useResource } from "../../../ui/resource.ts";
import { Banner } from "../../../ui/states.tsx";
import { DiffView } from "../items/diff-view.tsx";
import { pathsOfSample } from "../items/columns-dialog.tsx";
import { policyTextProblem } from "../logic/container-form.ts";
import { ProgressBar } from "../transfer/progress-bar.tsx";
import { PolicyEditor } from "./policy-editor.tsx";
import { replaceMembers } from "./replace.ts";
import type { SectionProps } from "./settings-tab.tsx";

/** Draws the section. */
export function PolicySection(props: SectionProps & { readonly progress: number | null }): JSX.Element {
  const { database, definition, readOnly, onChanged, progress } = props;
  const saved = JSON.stringify(definition.indexingPolicy, null, 2);
  /** The typed policy; null while it is the one in force. */
  const [draft, setText] = useState<string | null>(null);
  const text = draft ?? saved;
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const [isComparing, setComparing] = useState(false);
  const [busy, setBusy] = useState(false);
  const paths = useResource((signal) => pathsOfSample(database, definition.id, signal), [database, definition.id]);
  const isDirty = text !== saved;
  useUnsaved(isDirty, "section");
  const isRunning = progress !== null && progress < 100;

  const compare = (): void => {
    const found = policyTextProblem(text);
    setProblem(found ?? undefined);
    if (found === null) setComparing(true);
  };
  const save = async (): Promise<void> => {
    if (busy) return;
    setBusy(true);
    const indexingPolicy: unknown = JSON.parse(text);
    const refusal = await replaceMembers(database, definition, { indexingPolicy });
    setBusy(false);
    setComparing(false);
    setProblem(refusal ?? undefined);
    if (refusal !== null) return;
    // The server completes a policy; the editor shows the completed one after the next read.
    setText(null);
    onChanged();
  };

  return (
    <div class="stack">
      {isRunning && (
        <Banner>
          The index follows the new policy. Queries use what both policies have in common until then.
          <ProgressBar label="Progress of the index" done={progress} total={100} />
        </Banner>
      )}
      <PolicyEditor value={text} onChange={setText} error={problem} paths={paths.value} readOnly={readOnly} />
      {!readOnly && (
        <div class="row">
          <Button kind="primary" disabled={!isDirty} onClick={compare}>
            Review and save
          </Button>
          {isDirty && <Button onClick={() => setText(null)}>Discard</Button>}
          {!isRunning && <span class="soft">The index is complete.</span>}
        </div>
      )}
      {isComparing && (
        <Dialog title="Save this indexing policy" onClose={() => setComparing(false)} wide>
          <DiffView before={saved} after={text} names={["In force", "Yours"]} />
          <p class="help">The server builds the index again in the background and charges RU for the work.</p>
          <footer class="actions">
            <Button onClick={() => setComparing(false)}>Continue editing</Button>
            <Button kind="primary" busy={busy} onClick={() => void save()}>
              Replace policy
            </Button>
          </footer>
        </Dialog>
      )}
    </div>
  );
}
