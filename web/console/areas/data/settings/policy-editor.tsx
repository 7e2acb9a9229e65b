/** An editor for an indexing policy: completion of members, values and paths, problems underlined.
 *
 * Leaves out: saving and the comparison with the policy in force (`settings-tab.tsx`). */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Editor } from "../../../ui/editor.tsx";
import { useResource } from "../../../ui/resource.ts";

export interface PolicyEditorProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error?: string | undefined;
  /** Paths of items, offered where a path is written. */
  readonly paths?: readonly string[] | undefined;
  readonly readOnly?: boolean | undefined;
}

const NO_PATHS: readonly string[] = [];

/** Draws the editor, and the problem below. */
export function PolicyEditor(props: PolicyEditorProps): JSX.Element {
  const help = useResource(async () => import("./policy-completion.ts"), []);
  const paths = props.paths ?? NO_PATHS;
  const extensions = useMemo(
    () => (help.value ? [help.value.policyHelp(paths)] : []),
    [help.value, paths],
  );
  return (
    <div class="stack">
      <Editor
        label="Indexing policy"
        language="json"
        value={props.value}
        onChange={props.onChange}
        extensions={extensions}
        readOnly={props.readOnly}
        size="medium"
      />
      {props.error !== undefined && (
        <p class="field-error" role="alert">
          {props.error}
        </p>
      )}
    </div>
  );
}
