/** The page of all databases. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { asApiError } from "../../../api/client.ts";
import type { Offer, System } from "../../../api/data.ts";
import { href, navigate, useParameter } from "../../../router.ts";
import { useStore } from "../../../store.ts";
import { Button } from "../../../ui/button.tsx";
import { DataTable, type DataColumn } from "../../../ui/data-table.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { ago, count, moment } from "../../../ui/format.ts";
import { useResource } from "../../../ui/resource.ts";
import { Empty, Skeleton } from "../../../ui/states.tsx";
import { toast } from "../../../ui/toast.tsx";
import { queryResources, useReadOnly } from "../requests.ts";
import { changes, reloadList } from "../tree/tree-store.ts";
import { NewDatabase } from "./new-database.tsx";
import { loadSample, SAMPLE_DATABASE } from "./sample.ts";

interface DatabaseRow {
  readonly id: string;
  readonly changed: number;
  readonly throughput: string;
}

/** Returns the throughput of an offer in words. */
export function throughputText(offer: Pick<Offer, "content"> | undefined): string {
  if (offer === undefined) return "";
  const { offerAutopilotSettings, offerThroughput } = offer.content;
  if (offerAutopilotSettings) return `autoscale to ${count(offerAutopilotSettings.maxThroughput)} RU/s`;
  return `${count(offerThroughput ?? 0)} RU/s`;
}

async function readDatabases(signal: AbortSignal): Promise<readonly DatabaseRow[]> {
  const found: System[] = [];
  let position: string | null = null;
  do {
    const query = "SELECT c.id, c._rid, c._ts FROM c ORDER BY c.id";
    const page: { rows: readonly System[]; continuation: string | null } = await queryResources<System>(
      "/dbs",
      query,
      [],
      position,
      signal,
    );
    found.push(...page.rows);
    position = page.continuation;
  } while (position !== null);
  const shared = await queryResources<Offer>(
    "/offers",
    'SELECT c.offerResourceId, c.content FROM c WHERE NOT CONTAINS(c.resource, "/colls/")',
    [],
    null,
    signal,
  );
  const offers = new Map(shared.rows.map((offer) => [offer.offerResourceId, offer]));
  return found.map(({ id, _rid, _ts }) => ({
    id,
    changed: _ts,
    throughput: throughputText(offers.get(_rid)),
  }));
}

const COLUMNS: readonly DataColumn<DatabaseRow>[] = [
  {
    id: "id",
    header: "Name",
    value: (row) => row.id,
    cell: (row) => <a href={href(["data", row.id])}>{row.id}</a>,
    width: 320,
  },
  { id: "throughput", header: "Shared throughput", value: (row) => row.throughput, width: 200 },
  {
    id: "changed",
    header: "Created",
    value: (row) => row.changed,
    cell: (row) => <TimeOf seconds={row.changed} />,
    width: 160,
  },
];

/** Draws a time as a distance, the exact time on hover. */
export function TimeOf({ seconds }: { readonly seconds: number }): JSX.Element {
  const at = new Date(seconds * 1_000);
  return (
    <time dateTime={at.toISOString()} title={moment(at)}>
      {ago(at)}
    </time>
  );
}

/** Loads a list again after this page created or deleted a resource; the list stays meanwhile. */
export function useReloadOnChange(reload: () => void): void {
  const count = useStore(changes);
  const first = useRef(count);
  useEffect(() => {
    if (count === first.current) return;
    first.current = count;
    reload();
  }, [count]);
}

/** Draws the page. */
export default function DatabasesPage(): JSX.Element {
  const rows = useResource(readDatabases, []);
  useReloadOnChange(rows.reload);
  const [opened, setOpened] = useParameter("new");
  const readOnly = useReadOnly();
  const create = readOnly ? null : (
    <Button kind="primary" icon="plus" onClick={() => setOpened("database")}>
      New database
    </Button>
  );
  return (
    <>
      <div class="page-head">
        <h1>Databases</h1>
        {create}
      </div>
      {rows.error && (
        <ErrorView error={rows.error} title="The databases could not be read." onRetry={rows.reload} />
      )}
      {!rows.value && !rows.error && <Skeleton lines={5} />}
      {rows.value?.length === 0 && (
        <Empty title="No database yet." actions={!readOnly && <SampleButton />}>
          A database holds containers, and containers hold items. Create a database, or load a sample with
          a container of orders.
        </Empty>
      )}
      {rows.value && rows.value.length > 0 && (
        <DataTable
          label="Databases"
          columns={COLUMNS}
          rows={rows.value}
          rowId={(row) => row.id}
          onOpen={(row) => navigate(href(["data", row.id]))}
        />
      )}
      {opened === "database" && !readOnly && <NewDatabase onClose={() => setOpened("")} />}
    </>
  );
}

function SampleButton(): JSX.Element {
  const [done, setDone] = useState<number | null>(null);
  const load = async (): Promise<void> => {
    setDone(0);
    try {
      const container = await loadSample(setDone);
      reloadList("");
      navigate(href(["data", SAMPLE_DATABASE, container, "items"]));
    } catch (problem) {
      toast(asApiError(problem).message, "bad");
      setDone(null);
    }
  };
  return (
    <Button icon="download" busy={done !== null} onClick={() => void load()}>
      {done === null ? "Load a sample" : `Loading, ${done} items`}
    </Button>
  );
}
