/** The items of a container: filter, list, and the open item beside the list.
 *
 * The address holds the filter and the open item, so a reload shows both again.
 * Leaves out: editing (`item-editor.tsx`), upload and download (`../transfer`). */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ContainerProps } from "../../../areas.ts";
import { containers, type Container, type Json } from "../../../api/data.ts";
import { useCommands } from "../../../commands.ts";
import { href, navigate, useAddress } from "../../../router.ts";
import { useStore } from "../../../store.ts";
import { Button } from "../../../ui/button.tsx";
import { DataTable, type DataColumn } from "../../../ui/data-table.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { plural, ru } from "../../../ui/format.ts";
import { Menu } from "../../../ui/menu.tsx";
import { useResource } from "../../../ui/resource.ts";
import { Empty, Skeleton } from "../../../ui/states.tsx";
import { TimeOf } from "../databases/databases-page.tsx";
import { pathNames, shownComponent, typedKey } from "../logic/partition-key.ts";
import { keyNames } from "../logic/predicates.ts";
import { useReadOnly } from "../requests.ts";
import { TransferDialog } from "../transfer/transfer-dialog.tsx";
import { BulkDelete } from "./bulk-delete.tsx";
import { ColumnsDialog, pickedColumns } from "./columns-dialog.tsx";
import { FilterBar, FilterProblem } from "./filter-bar.tsx";
import { ItemEditor } from "./item-editor.tsx";
import { keyText, OpenItem, type ItemPlace, type PaneProps } from "./item-pane.tsx";
import { itemKey, useItemRows, type ItemRow } from "./item-rows.ts";

/** Draws the tab. */
export default function ItemsTab({ database, container }: ContainerProps): JSX.Element {
  const definition = useResource(() => containers.definition(database, container), [database, container]);
  if (definition.error) {
    return (
      <ErrorView error={definition.error} title="The container could not be read." onRetry={definition.reload} />
    );
  }
  if (!definition.value) return <Skeleton lines={8} />;
  return <Items database={database} definition={definition.value} />;
}

/** Returns the item that the address names, or null. */
function placeOf(query: URLSearchParams, levels: number): ItemPlace | null {
  const id = query.get("id");
  const key = query.get("key");
  if (id === null || key === null) return null;
  const keys = typedKey(key, levels);
  return "problem" in keys ? null : { id, keys };
}

function templateOf(definition: Container): string {
  const lines = ['  "id": ""'];
  for (const path of definition.partitionKey.paths) {
    const names = pathNames(path);
    if (names?.length === 1 && names[0] !== "id") lines.push(`  ${JSON.stringify(names[0])}: ""`);
  }
  return `{\n${lines.join(",\n")}\n}`;
}

function Items(props: { readonly database: string; readonly definition: Container }): JSX.Element {
  const { database, definition } = props;
  const container = definition.id;
  const place = `${encodeURIComponent(database)}/${encodeURIComponent(container)}`;
  const readOnly = useReadOnly();
  const { query } = useAddress();
  const filter = query.get("filter") ?? "";
  const picked = useStore(pickedColumns)[place] ?? [];
  const pageColumns = useMemo(
    () => ({ keys: keyNames(definition.partitionKey), picked: picked.map((path) => pathNames(path) ?? []) }),
    [definition, picked.join("\n")],
  );
  const list = useItemRows(database, container, pageColumns, filter);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [isDeleting, setDeleting] = useState(false);
  const [isPicking, setPicking] = useState(false);
  const [draft, setDraft] = useState<string | null>(null);
  const isDirty = useRef(false);
  const [waiting, setWaiting] = useState<(() => void) | null>(null);

  const show = (parameters: Record<string, string | undefined>): void => {
    const now = { filter, id: query.get("id") ?? undefined, key: query.get("key") ?? undefined };
    navigate(href(["data", database, container, "items"], { ...now, ...parameters }), true);
  };
  /** Runs an action that closes the open item, after a question if the item has unsaved changes. */
  const guarded = (action: () => void): void => {
    if (isDirty.current) setWaiting(() => action);
    else action();
  };
  const open = (row: ItemPlace): void =>
    guarded(() => {
      setDraft(null);
      show({ id: row.id, key: keyText(row) });
    });
  const create = (text = templateOf(definition)): void =>
    guarded(() => {
      show({ id: undefined, key: undefined });
      setDraft(text);
    });
  // A link to an item closes a new one; the router has asked before.
  useEffect(() => {
    if (query.has("id")) setDraft(null);
  }, [query.get("id"), query.get("key")]);
  const wantsNew = query.get("new") === "1";
  useEffect(() => {
    if (wantsNew) create();
  }, [wantsNew]);
  const close = (): void =>
    guarded(() => {
      setDraft(null);
      show({ id: undefined, key: undefined });
    });
  const current = draft === null ? placeOf(query, definition.partitionKey.paths.length) : null;
  const isOpen = draft !== null || current !== null;
  const pane: PaneProps = {
    database,
    container,
    definition: definition.partitionKey,
    whole: definition,
    defaultTtl: definition.defaultTtl,
    readOnly,
    onDirty: (dirty) => {
      isDirty.current = dirty;
    },
    onStored: (stored) => {
      isDirty.current = false;
      if (draft !== null || stored.id !== current?.id) {
        setDraft(null);
        show({ id: stored.id, key: keyText(stored) });
      }
      list.reload();
    },
    onDeleted: (gone) => {
      isDirty.current = false;
      list.drop(new Set([itemKey(gone.id, gone.keys)]));
      close();
    },
    onDuplicate: (text) => create(text),
    onClose: close,
  };
  const rows = list.rows.filter((row) => selected.has(itemKey(row.id, row.keys)));
  const transfer = (kind: string): void => show({ transfer: kind });
  const columns = useMemo(() => columnsOf(definition, picked), [definition, picked.join("\n")]);
  useCommands([
    ...(readOnly
      ? []
      : [{ id: "items.new", label: "New item", group: "Items", keys: ["Alt+N I"], run: () => create() }]),
    { id: "items.download", label: "Download items", group: "Items", keys: ["Mod+Shift+S"], run: () => transfer("download") },
  ]);

  return (
    <div class={isOpen ? "data-items has-open" : "data-items"}>
      <section class="data-items-list" aria-label="List of items">
        <FilterBar
          place={place}
          definition={definition.partitionKey}
          applied={filter}
          onApply={(text) => show({ filter: text })}
          onReload={list.reload}
        />
        <div class="data-bar">
          {!readOnly && (
            <Button kind="primary" icon="plus" onClick={() => create()}>
              New item
            </Button>
          )}
          {rows.length > 0 && !readOnly && (
            <Button kind="danger" icon="trash" onClick={() => setDeleting(true)}>
              {`Delete ${rows.length} selected`}
            </Button>
          )}
          <span class="data-bar-end">
            <Button kind="quiet" icon="table" onClick={() => setPicking(true)}>
              Columns
            </Button>
            <Menu
              label="Upload and download"
              items={[
                ...(readOnly
                  ? []
                  : [{ label: "Upload items", icon: "upload" as const, onSelect: () => transfer("upload") }]),
                { label: "Download items", icon: "download" as const, onSelect: () => transfer("download") },
              ]}
            />
          </span>
        </div>
        {list.error && (
          <>
            <ErrorView error={list.error} title="The items could not be read." onRetry={list.reload} />
            <FilterProblem error={list.error} query={list.query} filter={filter} />
          </>
        )}
        {list.isLoading && list.rows.length === 0 && <Skeleton lines={8} />}
        {!list.isLoading && !list.error && list.rows.length === 0 && !list.hasMore && (
          <NoItems isFiltered={filter !== ""} onNew={readOnly ? null : () => create()} onUpload={() => transfer("upload")} />
        )}
        {list.rows.length > 0 && (
          <DataTable
            label="Items"
            columns={columns}
            rows={list.rows}
            rowId={(row) => itemKey(row.id, row.keys)}
            onOpen={open}
            openId={current ? itemKey(current.id, current.keys) : undefined}
            selected={readOnly ? undefined : selected}
            onSelect={readOnly ? undefined : setSelected}
            storeKey={`items.${place}`}
            fill
          />
        )}
        <footer class="data-list-foot">
          <span class="soft" role="status">
            {plural(list.rows.length, "item")} shown{list.hasMore ? ", more on the server" : ""} · {ru(list.charge)}
          </span>
          {list.hasMore && (
            <Button busy={list.isLoading} onClick={list.loadMore}>
              Load more
            </Button>
          )}
        </footer>
      </section>
      {isOpen && (
        <section class="data-items-pane" aria-label="Open item">
          {draft !== null && <ItemEditor key={`new ${draft}`} {...pane} stored={null} first={draft} />}
          {current && <OpenItem {...pane} place={current} />}
        </section>
      )}
      {isDeleting && (
        <BulkDelete
          database={database}
          container={container}
          rows={rows}
          onDeleted={(ids) => {
            list.drop(ids);
            setSelected(new Set());
            if (current && ids.has(itemKey(current.id, current.keys))) show({ id: undefined, key: undefined });
          }}
          onClose={() => setDeleting(false)}
        />
      )}
      {isPicking && (
        <ColumnsDialog
          database={database}
          container={container}
          place={place}
          keyPaths={definition.partitionKey.paths}
          picked={picked}
          onClose={() => setPicking(false)}
        />
      )}
      {waiting && (
        <ConfirmDialog
          title="Discard the changes"
          action="Discard changes"
          onConfirm={async () => {
            isDirty.current = false;
            setWaiting(null);
            waiting();
          }}
          onClose={() => setWaiting(null)}
        >
          <p>The open item has changes that are not saved.</p>
        </ConfirmDialog>
      )}
      <TransferDialog
        kind={query.get("transfer")}
        database={database}
        definition={definition}
        filter={filter}
        onClose={() => show({ transfer: undefined })}
        onUploaded={list.reload}
      />
    </div>
  );
}

function NoItems(props: {
  readonly isFiltered: boolean;
  readonly onNew: (() => void) | null;
  readonly onUpload: () => void;
}): JSX.Element {
  if (props.isFiltered) return <Empty title="No item matches the filter." icon="search" />;
  const actions = props.onNew && (
    <>
      <Button icon="plus" onClick={props.onNew}>
        New item
      </Button>
      <Button icon="upload" onClick={props.onUpload}>
        Upload items
      </Button>
    </>
  );
  return (
    <Empty title="No item yet." icon="table" actions={actions}>
      Items are JSON objects with an id and a value of the partition key.
    </Empty>
  );
}

function columnsOf(definition: Container, picked: readonly string[]): readonly DataColumn<ItemRow>[] {
  const columns: DataColumn<ItemRow>[] = [
    { id: "id", header: "id", value: (row) => row.id, isMono: true, width: 200 },
  ];
  for (const [level, path] of definition.partitionKey.paths.entries()) {
    if (path === "/id") continue;
    columns.push({
      id: `key ${path}`,
      header: path,
      value: (row) => {
        const value = row.keys[level];
        return value === undefined ? undefined : value;
      },
      cell: (row) => {
        const value = row.keys[level];
        return typeof value === "string" ? value : <span class="soft">{shownComponent(value)}</span>;
      },
      isMono: true,
      width: 160,
    });
  }
  for (const [index, path] of picked.entries()) {
    columns.push({
      id: `picked ${path}`,
      header: path,
      value: (row) => cellText(row.picked[index]),
      width: 160,
    });
  }
  columns.push({
    id: "_ts",
    header: "Written",
    value: (row) => row.ts,
    cell: (row) => <TimeOf seconds={row.ts} />,
    width: 120,
  });
  return columns;
}

const CELL_MAX = 200;

function cellText(value: Json | undefined): string | number | boolean | null | undefined {
  if (value === undefined || value === null || typeof value === "number" || typeof value === "boolean") return value;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > CELL_MAX ? `${text.slice(0, CELL_MAX)}…` : text;
}
