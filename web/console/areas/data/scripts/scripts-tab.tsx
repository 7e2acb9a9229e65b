/** Scripts of a container: stored procedures, triggers, user-defined functions.
 *
 * The address names the kind and the script: `…/scripts/sprocs/<id>`.
 * Leaves out: the editor (`script-editor.tsx`) and the run panel (`run-panel.tsx`). */

import type { JSX } from "preact";
import type { ContainerProps } from "../../../areas.ts";
import { containers, scripts, type Script, type ScriptKind } from "../../../api/data.ts";
import { useCommands } from "../../../commands.ts";
import { href, navigate, useAddress } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { useResource } from "../../../ui/resource.ts";
import { Empty, Skeleton } from "../../../ui/states.tsx";
import { TabLinks } from "../../../ui/tabs.tsx";
import { useReadOnly } from "../requests.ts";
import { reloadList } from "../tree/tree-store.ts";
import { ScriptEditor } from "./script-editor.tsx";

/** Names of a kind of script. */
export interface KindNames {
  readonly kind: ScriptKind;
  readonly label: string;
  readonly one: string;
  readonly about: string;
}

export const KINDS: readonly KindNames[] = [
  {
    kind: "sprocs",
    label: "Stored procedures",
    one: "stored procedure",
    about: "A stored procedure runs in one logical partition, as one transaction.",
  },
  {
    kind: "triggers",
    label: "Triggers",
    one: "trigger",
    about: "A trigger runs before or after a write that names the trigger.",
  },
  {
    kind: "udfs",
    label: "User-defined functions",
    one: "function",
    about: "A query calls a function as udf.name(…).",
  },
];

/** Draws the tab. */
export default function ScriptsTab({ database, container }: ContainerProps): JSX.Element {
  const { segments, query } = useAddress();
  const names = KINDS.find(({ kind }) => kind === segments[4]) ?? (KINDS[0] as KindNames);
  const { kind } = names;
  const id = segments[5];
  const isNew = query.get("new") === "1";
  const readOnly = useReadOnly();
  const list = useResource(() => scripts.all(database, container, kind), [database, container, kind]);
  const definition = useResource(() => containers.definition(database, container), [database, container]);
  const base = ["data", database, container, "scripts"];
  const openNew = (of: ScriptKind): void => navigate(href([...base, of], { new: "1" }));
  const changed = (): void => {
    list.reload();
    reloadList(`@${kind}/${encodeURIComponent(database)}/${encodeURIComponent(container)}`);
  };
  useCommands(
    readOnly
      ? []
      : [
          { id: "scripts.new-sproc", label: "New stored procedure", group: "Scripts", keys: ["Alt+N P"], run: () => openNew("sprocs") },
          { id: "scripts.new-function", label: "New user-defined function", group: "Scripts", keys: ["Alt+N F"], run: () => openNew("udfs") },
          { id: "scripts.new-trigger", label: "New trigger", group: "Scripts", keys: ["Alt+N T"], run: () => openNew("triggers") },
        ],
  );
  const tabs = KINDS.map((each) => ({ id: each.kind, label: each.label, href: href([...base, each.kind]) }));
  const open = list.value?.find((script) => script.id === id);
  return (
    <div class="data-scripts">
      <TabLinks label="Kinds of scripts" tabs={tabs} current={kind} />
      {list.error && <ErrorView error={list.error} title="The scripts could not be read." onRetry={list.reload} />}
      {!list.value && !list.error && <Skeleton lines={6} />}
      {list.value && (
        <div class={open || isNew ? "data-split has-open" : "data-split"}>
          <ScriptList names={names} base={base} list={list.value} openId={id} readOnly={readOnly} onNew={() => openNew(kind)} />
          {(open || isNew) && (
            <ScriptEditor
              key={isNew ? `new ${kind}` : `${kind}/${id}`}
              database={database}
              container={container}
              names={names}
              script={isNew ? null : (open ?? null)}
              keyPaths={definition.value?.partitionKey.paths ?? []}
              readOnly={readOnly}
              onChanged={changed}
            />
          )}
          {!open && !isNew && id !== undefined && !list.isLoading && (
            <Empty title={`No ${names.one} has this name.`} icon="search" />
          )}
        </div>
      )}
    </div>
  );
}

function ScriptList(props: {
  readonly names: KindNames;
  readonly base: readonly string[];
  readonly list: readonly Script[];
  readonly openId: string | undefined;
  readonly readOnly: boolean;
  readonly onNew: () => void;
}): JSX.Element {
  const { names, list, base } = props;
  const create = (
    <Button icon="plus" onClick={props.onNew}>
      {`New ${names.one}`}
    </Button>
  );
  if (list.length === 0) {
    return (
      <Empty title={`No ${names.one} yet.`} icon="bolt" actions={props.readOnly ? undefined : create}>
        {names.about}
      </Empty>
    );
  }
  return (
    <nav class="data-list" aria-label={names.label}>
      {!props.readOnly && create}
      <ul>
        {list.map((script) => (
          <li key={script.id}>
            <a
              class="mono"
              href={href([...base, names.kind, script.id])}
              aria-current={script.id === props.openId ? "page" : undefined}
            >
              {script.id}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
