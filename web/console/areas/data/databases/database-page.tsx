/** The page of a database: its containers, its users, its shared throughput. */

import type { JSX } from "preact";
import type { PageProps } from "../../../areas.ts";
import type { Container, Database, Offer } from "../../../api/data.ts";
import { databases } from "../../../api/data.ts";
import { href, navigate, useAddress } from "../../../router.ts";
import { useCommands } from "../../../commands.ts";
import { Button } from "../../../ui/button.tsx";
import { DataTable, type DataColumn } from "../../../ui/data-table.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { Menu } from "../../../ui/menu.tsx";
import { useResource } from "../../../ui/resource.ts";
import { Empty, Skeleton } from "../../../ui/states.tsx";
import { TabLinks } from "../../../ui/tabs.tsx";
import { feeds, offerOf, queryResources, useReadOnly } from "../requests.ts";
import { ThroughputPanel } from "../settings/throughput-panel.tsx";
import { UsersView } from "../users/users-view.tsx";
import { throughputText, TimeOf, useReloadOnChange } from "./databases-page.tsx";
import { DeleteContainer, DeleteDatabase } from "./delete-dialogs.tsx";
import { NewContainer } from "./new-container.tsx";

interface DatabaseState {
  readonly database: Database;
  readonly offer: Offer | null;
}

async function readDatabase(id: string, signal: AbortSignal): Promise<DatabaseState> {
  const database = await databases.read(id);
  return { database, offer: await offerOf(database._rid, signal) };
}

/** Draws the page. */
export default function DatabasePage({ parts }: PageProps): JSX.Element {
  const id = parts["database"] ?? "";
  const { query } = useAddress();
  const view = query.get("view") ?? "containers";
  const state = useResource((signal) => readDatabase(id, signal), [id]);
  const readOnly = useReadOnly();
  const open = (parameters: Record<string, string>): void => navigate(href(["data", id], parameters));
  useCommands(
    readOnly
      ? []
      : [
          {
            id: "data.new-container",
            label: "New container",
            group: "Data",
            keys: ["Alt+N C"],
            run: () => open({ new: "container" }),
          },
        ],
  );
  const tabs = [
    { id: "containers", label: "Containers", href: href(["data", id]) },
    { id: "users", label: "Users", href: href(["data", id], { view: "users" }) },
  ];
  if (state.value?.offer) {
    tabs.push({ id: "throughput", label: "Throughput", href: href(["data", id], { view: "throughput" }) });
  }
  return (
    <>
      <div class="page-head">
        <h1>{id}</h1>
        {!readOnly && (
          <div class="actions">
            <Button kind="primary" icon="plus" onClick={() => open({ new: "container" })}>
              New container
            </Button>
            <Menu
              label="More for the database"
              items={[
                { label: "Delete database", icon: "trash", danger: true, onSelect: () => open({ delete: "database" }) },
              ]}
            />
          </div>
        )}
      </div>
      <TabLinks label="Database" tabs={tabs} current={view} />
      {state.error && (
        <ErrorView error={state.error} title="The database could not be read." onRetry={state.reload} />
      )}
      {!state.value && !state.error && <Skeleton lines={6} />}
      {state.value && view === "containers" && <Containers state={state.value} />}
      {state.value && view === "users" && <UsersView database={id} />}
      {state.value?.offer && view === "throughput" && (
        <ThroughputPanel offerId={state.value.offer.id} onChanged={state.reload} />
      )}
      <Dialogs database={id} isShared={Boolean(state.value?.offer)} isKnown={state.value !== undefined} />
    </>
  );
}

/** Draws the dialog that the address names. */
function Dialogs(props: {
  readonly database: string;
  readonly isShared: boolean;
  readonly isKnown: boolean;
}): JSX.Element | null {
  const { query } = useAddress();
  const readOnly = useReadOnly();
  const view = query.get("view") ?? undefined;
  const close = (): void => navigate(href(["data", props.database], { view }), true);
  if (readOnly || !props.isKnown) return null;
  const { database } = props;
  if (query.get("new") === "container") {
    return <NewContainer database={database} isShared={props.isShared} onClose={close} />;
  }
  if (query.get("delete") === "database") return <DeleteDatabase database={database} onClose={close} />;
  const name = query.get("name");
  if (query.get("delete") === "container" && name !== null) {
    return <DeleteContainer database={database} container={name} onClose={close} />;
  }
  return null;
}

interface ContainerRow {
  readonly id: string;
  readonly keys: string;
  readonly throughput: string;
  readonly changed: number;
}

const PAGES_MAX = 20;

async function readContainers(state: DatabaseState, signal: AbortSignal): Promise<readonly ContainerRow[]> {
  const { database, offer } = state;
  const query = "SELECT c.id, c._rid, c._ts, c.partitionKey FROM c ORDER BY c.id";
  const [found, offers] = await Promise.all([
    allRows<Container>(feeds.containers(database.id), query, [], signal),
    allRows<Offer>(
      "/offers",
      "SELECT c.offerResourceId, c.content FROM c WHERE STARTSWITH(c.resource, @link)",
      [{ name: "@link", value: database._self }],
      signal,
    ),
  ]);
  const byRid = new Map(offers.map((own) => [own.offerResourceId, own]));
  return found.map((container) => {
    const own = byRid.get(container._rid);
    const shared = offer === null ? "" : "shared";
    return {
      id: container.id,
      keys: container.partitionKey.paths.join(", "),
      throughput: own ? throughputText(own) : shared,
      changed: container._ts,
    };
  });
}

async function allRows<T>(
  feed: string,
  query: string,
  parameters: readonly { readonly name: string; readonly value: string }[],
  signal: AbortSignal,
): Promise<T[]> {
  const rows: T[] = [];
  let position: string | null = null;
  for (let pages = 0; pages < PAGES_MAX; pages += 1) {
    const page: { rows: readonly T[]; continuation: string | null } = await queryResources<T>(
      feed,
      query,
      parameters,
      position,
      signal,
    );
    rows.push(...page.rows);
    position = page.continuation;
    if (position === null) break;
  }
  return rows;
}

function columnsOf(database: string): readonly DataColumn<ContainerRow>[] {
  return [
    {
      id: "id",
      header: "Name",
      value: (row) => row.id,
      cell: (row) => <a href={href(["data", database, row.id, "items"])}>{row.id}</a>,
      width: 280,
    },
    { id: "keys", header: "Partition key", value: (row) => row.keys, isMono: true, width: 220 },
    { id: "throughput", header: "Throughput", value: (row) => row.throughput, width: 180 },
    {
      id: "changed",
      header: "Changed",
      value: (row) => row.changed,
      cell: (row) => <TimeOf seconds={row.changed} />,
      width: 140,
    },
  ];
}

function Containers({ state }: { readonly state: DatabaseState }): JSX.Element {
  const { id } = state.database;
  const rows = useResource((signal) => readContainers(state, signal), [id, state.offer?._etag]);
  useReloadOnChange(rows.reload);
  const readOnly = useReadOnly();
  if (rows.error) {
    return <ErrorView error={rows.error} title="The containers could not be read." onRetry={rows.reload} />;
  }
  if (!rows.value) return <Skeleton lines={6} />;
  if (rows.value.length === 0) {
    const create = (
      <Button icon="plus" onClick={() => navigate(href(["data", id], { new: "container" }))}>
        New container
      </Button>
    );
    return (
      <Empty title="No container yet." icon="table" actions={readOnly ? undefined : create}>
        A container holds items. The partition key of a container decides in which partition an item is.
      </Empty>
    );
  }
  return (
    <DataTable
      label="Containers"
      columns={columnsOf(id)}
      rows={rows.value}
      rowId={(row) => row.id}
      onOpen={(row) => navigate(href(["data", id, row.id, "items"]))}
      storeKey="containers"
    />
  );
}
