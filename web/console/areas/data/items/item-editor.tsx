/** Editing an item: save with a comparison before, a conflict shown as such, discard, delete.
 *
 * Promises: a replace carries the etag of the version that was read, so no change of another client
 * is lost. Typed text stays after every refusal.
 * Leaves out: the list of items, and reading (`item-pane.tsx`). */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asApiError, type ApiError } from "../../../api/client.ts";
import { items, type Json } from "../../../api/data.ts";
import { useCommands, type Command } from "../../../commands.ts";
import { useUnsaved } from "../../../router.ts";
import { Button, CopyButton } from "../../../ui/button.tsx";
import { ConfirmDialog, Dialog } from "../../../ui/dialog.tsx";
import { Editor } from "../../../ui/editor.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { bytes, ru } from "../../../ui/format.ts";
import { Badge, Banner } from "../../../ui/states.tsx";
import { toast } from "../../../ui/toast.tsx";
import {
  editableText,
  indented,
  itemParts,
  membersOf,
  repeatedName,
  SYSTEM_PROPERTIES,
  type Member,
} from "../logic/json-text.ts";
import { keyOf } from "../logic/partition-key.ts";
import { ConflictView } from "./conflict-view.tsx";
import { DiffView } from "./diff-view.tsx";
import { ItemFacts } from "./item-facts.tsx";
import { NearestItems } from "./nearest-items.tsx";
import { readItem, type PaneProps, type StoredItem } from "./item-pane.tsx";
import { itemKey } from "./item-rows.ts";

export interface ItemEditorProps extends PaneProps {
  /** The version that was read; null for a new item. */
  readonly stored: StoredItem | null;
  /** The text that the editor opens with. */
  readonly first: string;
}

/** Returns the members of a typed text, or the words of its problem. */
function typedMembers(text: string): Member[] | string {
  let members: Member[];
  try {
    members = membersOf(text);
  } catch (error) {
    return `The text is not a JSON object. ${(error as Error).message}`;
  }
  const id = members.find(({ name }) => name === "id")?.text;
  if (id === undefined || !id.startsWith('"') || id === '""') {
    return 'The item has no id. Add a member "id" with a text.';
  }
  const repeated = repeatedName(members);
  if (repeated !== undefined) return `The member ${repeated} occurs twice. Keep one of the two.`;
  const system = members.find(({ name }) => SYSTEM_PROPERTIES.includes(name));
  if (system) return `The server sets the member ${system.name}. Remove the member.`;
  return members;
}

/** Returns a typed text arranged like a stored one, so that a comparison shows changes only. */
function arranged(text: string): string {
  try {
    return indented(text);
  } catch {
    return text;
  }
}

/** Draws the editor with its actions. */
export function ItemEditor(props: ItemEditorProps): JSX.Element {
  const { database, container, definition, readOnly } = props;
  const [base, setBase] = useState<StoredItem | null>(props.stored);
  const [text, setText] = useState(props.first);
  const [problem, setProblem] = useState<string | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [theirs, setTheirs] = useState<StoredItem | null>(null);
  const [isComparing, setComparing] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const [busy, setBusy] = useState(false);
  const isDirty = text !== (base?.text ?? "") && !(base === null && text === props.first);
  useUnsaved(isDirty, "id", "key");
  useEffect(() => props.onDirty(isDirty), [isDirty]);
  useEffect(() => () => props.onDirty(false), []);

  const store = async (): Promise<void> => {
    const members = typedMembers(text);
    if (typeof members === "string") return;
    const keys = keyOf(members, definition);
    const id = JSON.parse(members.find(({ name }) => name === "id")?.text ?? '""') as string;
    setBusy(true);
    setError(null);
    try {
      const reply =
        base === null
          ? await items.create(database, container, text, keys as Json[])
          : await items.replace({ database, container, id: base.place.id, partitionKey: base.place.keys }, text, base.etag);
      const stored: StoredItem = {
        place: { id, keys },
        text: editableText(reply.text),
        etag: reply.headers.get("etag") ?? "",
        system: itemParts(reply.text).system,
        charge: reply.charge,
        bytes: new Blob([reply.text]).size,
      };
      setBase(stored);
      setText(stored.text);
      setTheirs(null);
      setComparing(false);
      setBusy(false);
      toast(`${base === null ? "The item was created" : "The item was saved"}: ${ru(reply.charge)}.`);
      props.onStored(stored.place);
    } catch (refusal) {
      await refused(asApiError(refusal));
    }
  };

  /** Shows a refusal; for a changed item reads the version of the server. */
  const refused = async (refusal: ApiError): Promise<void> => {
    setComparing(false);
    setError(refusal);
    if (refusal.status === 412 && base !== null) {
      try {
        setTheirs(await readItem(database, container, base.place));
        setError(null);
      } catch (problemOfRead) {
        setError(asApiError(problemOfRead));
      }
    }
    setBusy(false);
  };

  const save = (): void => {
    if (busy || readOnly) return;
    const members = typedMembers(text);
    if (typeof members === "string") return setProblem(members);
    const keys = keyOf(members, definition);
    if (base !== null && itemKey("", keys) !== itemKey("", base.place.keys)) {
      return setProblem(
        "A replace cannot change the partition key value. Duplicate the item, then delete this one.",
      );
    }
    setProblem(null);
    if (base === null) void store();
    else if (isDirty) setComparing(true);
  };
  const discard = (): void => {
    setText(base?.text ?? props.first);
    setProblem(null);
    setError(null);
    setTheirs(null);
  };
  const remove = async (): Promise<void> => {
    if (base === null) return;
    await items.delete({ database, container, id: base.place.id, partitionKey: base.place.keys }, base.etag);
    toast(`The item ${base.place.id} was deleted.`);
    props.onDirty(false);
    props.onDeleted(base.place);
  };
  useCommands(readOnly ? [] : commandsOf(save, discard, base === null ? null : () => setDeleting(true)));

  return (
    <div class="data-item">
      <header class="data-item-head">
        <Button kind="quiet" icon="close" label="Close the item" onClick={props.onClose} />
        <h2 title={base?.place.id}>{base === null ? "New item" : base.place.id}</h2>
        {isDirty && <Badge kind="warn">unsaved</Badge>}
        <span class="data-item-actions">
          {!readOnly && (
            <Button kind="primary" icon="save" busy={busy} disabled={base !== null && !isDirty} onClick={save}>
              {base === null ? "Create item" : "Save"}
            </Button>
          )}
          {isDirty && <Button onClick={discard}>Discard</Button>}
          {base !== null && !readOnly && (
            <Button kind="quiet" icon="plus" label="Duplicate the item" onClick={() => props.onDuplicate(text)} />
          )}
          <CopyButton text={() => text} label="Copy the item" />
          {base !== null && !readOnly && (
            <Button kind="quiet" icon="trash" label="Delete the item" onClick={() => setDeleting(true)} />
          )}
        </span>
      </header>
      {problem !== null && <Banner kind="bad">{problem}</Banner>}
      {error && <ErrorView error={error} title="The item was not saved." />}
      {theirs && base && (
        <ConflictView
          theirs={theirs}
          mine={arranged(text)}
          onKeepMine={() => {
            setBase(theirs);
            setTheirs(null);
          }}
          onTakeTheirs={() => {
            setBase(theirs);
            setText(theirs.text);
            setTheirs(null);
          }}
        />
      )}
      <Editor
        label="Item as JSON"
        language="json"
        value={text}
        onChange={setText}
        readOnly={readOnly || busy}
        size="fill"
      />
      {base !== null && <ItemFacts {...{ database, container, definition }} stored={base} defaultTtl={props.defaultTtl} />}
      {base !== null && <NearestItems key={base.etag} database={database} definition={props.whole} stored={base} />}
      {base === null && <p class="help">{bytes(new Blob([text]).size)}. The server adds its own properties.</p>}
      {isComparing && base && (
        <Dialog title="Save these changes" onClose={() => setComparing(false)} wide>
          <DiffView before={base.text} after={arranged(text)} names={["Saved", "Yours"]} />
          <footer class="actions">
            <Button onClick={() => setComparing(false)}>Continue editing</Button>
            <Button kind="primary" busy={busy} onClick={() => void store()}>
              Replace item
            </Button>
          </footer>
        </Dialog>
      )}
      {isDeleting && base && (
        <ConfirmDialog title="Delete the item" action="Delete item" onConfirm={remove} onClose={() => setDeleting(false)}>
          <p>
            The item <code>{base.place.id}</code> goes. Deletion cannot be undone.
          </p>
        </ConfirmDialog>
      )}
    </div>
  );
}

function commandsOf(save: () => void, discard: () => void, remove: (() => void) | null): Command[] {
  const commands: Command[] = [
    { id: "item.save", label: "Save the item", group: "Items", keys: ["Mod+S"], run: save },
    { id: "item.discard", label: "Discard the changes of the item", group: "Items", run: discard },
  ];
  if (remove !== null) {
    commands.push({ id: "item.delete", label: "Delete the item", group: "Items", keys: ["Alt+D"], run: remove });
  }
  return commands;
}

