/** The item that is open beside the list: a new one, or one that the server has.
 *
 * Leaves out: editing itself (`item-editor.tsx`). */

import type { JSX } from "preact";
import { items, type Container } from "../../../api/data.ts";
import { ErrorView } from "../../../ui/error-view.tsx";
import { useResource } from "../../../ui/resource.ts";
import { Empty, Skeleton } from "../../../ui/states.tsx";
import { Button } from "../../../ui/button.tsx";
import { editableText, itemParts, type Member } from "../logic/json-text.ts";
import type { KeyComponent, KeyDefinition } from "../logic/partition-key.ts";
import { ItemEditor, type ItemEditorProps } from "./item-editor.tsx";

/** Where an item is in its container. */
export interface ItemPlace {
  readonly id: string;
  readonly keys: readonly KeyComponent[];
}

/** Returns the key of an item as links have it. */
export function keyText(place: ItemPlace): string {
  return JSON.stringify(place.keys.map((key) => (key === undefined ? {} : key)));
}

/** An item as the server has it: its text without system properties, and these apart. */
export interface StoredItem {
  readonly place: ItemPlace;
  readonly text: string;
  readonly etag: string;
  readonly system: readonly Member[];
  readonly charge: number;
  readonly bytes: number;
}

export interface PaneProps {
  readonly database: string;
  readonly container: string;
  readonly definition: KeyDefinition;
  /** The whole definition of the container. */
  readonly whole: Container;
  readonly defaultTtl: number | undefined;
  readonly readOnly: boolean;
  readonly onDirty: (isDirty: boolean) => void;
  /** Called after an item was stored, with its place. */
  readonly onStored: (place: ItemPlace) => void;
  readonly onDeleted: (place: ItemPlace) => void;
  readonly onDuplicate: (text: string) => void;
  readonly onClose: () => void;
}

/** Reads an item with what a person may edit and what the server sets. */
export async function readItem(
  database: string,
  container: string,
  place: ItemPlace,
  signal?: AbortSignal,
): Promise<StoredItem> {
  const reply = await items.read({ database, container, id: place.id, partitionKey: place.keys }, signal);
  return {
    place,
    text: editableText(reply.text),
    etag: reply.headers.get("etag") ?? "",
    system: itemParts(reply.text).system,
    charge: reply.charge,
    bytes: new Blob([reply.text]).size,
  };
}

/** Draws an item of the server. */
export function OpenItem(props: PaneProps & { readonly place: ItemPlace }): JSX.Element {
  const { database, container, place } = props;
  const stored = useResource(
    (signal) => readItem(database, container, place, signal),
    [database, container, place.id, place.keys.map((key) => key ?? { none: key === undefined })],
  );
  if (stored.error && !stored.value) {
    const isGone = stored.error.status === 404;
    if (isGone) return <GoneItem onClose={props.onClose} />;
    return <ErrorView error={stored.error} title="The item could not be read." onRetry={stored.reload} />;
  }
  if (!stored.value) return <Skeleton lines={10} />;
  const editor: ItemEditorProps = { ...props, stored: stored.value, first: stored.value.text };
  return <ItemEditor {...editor} />;
}

function GoneItem({ onClose }: { readonly onClose: () => void }): JSX.Element {
  return (
    <Empty title="The item does not exist any more." icon="search" actions={<Button onClick={onClose}>Close</Button>}>
      Another client deleted the item, or its time to live has ended.
    </Empty>
  );
}
