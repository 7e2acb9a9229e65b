/** The rows of the items tab: pages of a query, kept together until the filter or columns change.
 *
 * Promises: an answer to an older query is dropped; after an error the rows so far stay.
 * Leaves out: the drawing of rows. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { asApiError, isAborted, recoveries, type ApiError } from "../../../api/client.ts";
import type { Json } from "../../../api/data.ts";
import { queryPage } from "../../../api/query.ts";
import { useStore } from "../../../store.ts";
import type { KeyComponent } from "../logic/partition-key.ts";
import { pageQuery, type PageColumns } from "../logic/predicates.ts";

/** A row: where the item is, and the values of the columns. */
export interface ItemRow {
  readonly id: string;
  readonly keys: readonly KeyComponent[];
  readonly etag: string;
  readonly ts: number;
  readonly picked: readonly (Json | undefined)[];
}

/** Rows so far. */
export interface ItemRows {
  readonly rows: readonly ItemRow[];
  readonly hasMore: boolean;
  readonly isLoading: boolean;
  readonly error: ApiError | null;
  /** The query that was sent, to find the place of an error in the filter. */
  readonly query: string;
  readonly charge: number;
  readonly loadMore: () => void;
  readonly reload: () => void;
  /** Takes rows out of the list, after their items were deleted. */
  readonly drop: (ids: ReadonlySet<string>) => void;
}

/** Returns the identity of an item in its container. */
export function itemKey(id: string, keys: readonly KeyComponent[]): string {
  // Undefined has no JSON; an empty object stands for it, as in the protocol.
  return JSON.stringify([id, ...keys.map((key) => (key === undefined ? {} : key))]);
}

type Answer = Record<string, Json | undefined>;

/** Returns the place of the item of a row with `id` and the levels of the key as `k0`…. */
export function placeOfRow(row: Answer, levels: number): { id: string; keys: KeyComponent[] } {
  const keys: KeyComponent[] = [];
  for (let level = 0; level < levels; level++) keys.push(scalar(row[`k${level}`]));
  return { id: String(row["id"]), keys };
}

function rowOf(value: Json, columns: PageColumns): ItemRow {
  const row = value as Answer;
  return {
    ...placeOfRow(row, columns.keys.length),
    etag: String(row["etag"]),
    ts: Number(row["ts"]),
    picked: columns.picked.map((_, index) => row[`p${index}`]),
  };
}

/** Arrays and objects are no values of a partition key; the server takes them as undefined. */
function scalar(value: Json | undefined): KeyComponent {
  return typeof value === "object" && value !== null ? undefined : (value as KeyComponent);
}

interface State {
  readonly rows: readonly ItemRow[];
  readonly position: string | null;
  readonly isLoading: boolean;
  readonly error: ApiError | null;
  readonly charge: number;
}

const START: State = { rows: [], position: null, isLoading: true, error: null, charge: 0 };

export const ITEMS_PER_PAGE = 100;

/** Reads the rows of a container page by page. */
export function useItemRows(
  database: string,
  container: string,
  columns: PageColumns | null,
  filter: string,
): ItemRows {
  const [state, setState] = useState<State>(START);
  const [round, setRound] = useState(0);
  const recovered = useStore(recoveries);
  const aborter = useRef<AbortController | null>(null);
  const query = columns === null ? "" : pageQuery(columns, filter);

  const read = async (before: State): Promise<void> => {
    if (columns === null) return;
    const abort = new AbortController();
    aborter.current?.abort();
    aborter.current = abort;
    setState({ ...before, isLoading: true, error: null });
    try {
      const page = await queryPage(database, container, query, [], {
        maxItemCount: ITEMS_PER_PAGE,
        continuation: before.position,
        signal: abort.signal,
      });
      if (abort.signal.aborted) return;
      const rows = [...before.rows, ...page.rows.map((row) => rowOf(row, columns))];
      const charge = before.charge + page.charge;
      setState({ rows, position: page.continuation, isLoading: false, error: null, charge });
    } catch (problem) {
      if (abort.signal.aborted || isAborted(problem)) return;
      setState({ ...before, isLoading: false, error: asApiError(problem) });
    }
  };

  useEffect(() => {
    void read(START);
    return () => aborter.current?.abort();
  }, [database, container, query, round, recovered]);

  const reload = useCallback(() => setRound((before) => before + 1), []);
  const drop = useCallback((ids: ReadonlySet<string>) => {
    setState((before) => {
      const rows = before.rows.filter((row) => !ids.has(itemKey(row.id, row.keys)));
      return { ...before, rows };
    });
  }, []);
  const { rows, isLoading, error, charge, position } = state;
  const loadMore = (): void => {
    if (!isLoading) void read(state);
  };
  return { rows, isLoading, error, charge, query, hasMore: position !== null, loadMore, reload, drop };
}
