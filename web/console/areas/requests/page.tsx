/** The log of slow, expensive, refused and failed requests; follows new ones. The address holds the
 * filters. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { asApiError, isAborted, manage, recoveries, session, type ApiError } from "../../api/client.ts";
import { useParameter } from "../../router.ts";
import { useStore } from "../../store.ts";
import { Button } from "../../ui/button.tsx";
import { copyText, csv } from "../../ui/clipboard.ts";
import { DataTable, type DataColumn } from "../../ui/data-table.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { clock, count, duration, moment, plural, ru, ruNumber } from "../../ui/format.ts";
import { Badge, Empty, Skeleton } from "../../ui/states.tsx";
import { ChargeBar } from "./charge-bar.tsx";
import { Details } from "./details.tsx";
import { Filters, queryOf, useFilters, type FilterValues } from "./filters.tsx";
import { RequestLog, matching, type LogPage, type RecordedRequest } from "./log.ts";
import { Thresholds, type LogSettings } from "./thresholds.tsx";
import { statusKind, statusText } from "./words.ts";

interface Answer extends LogPage {
  readonly leftOut: number;
  readonly settings: LogSettings;
}

interface State {
  readonly requests: readonly RecordedRequest[];
  readonly dropped: number;
  readonly leftOut: number;
  readonly settings: LogSettings | null;
  readonly error: ApiError | null;
}

const PAUSE_MS = 1_000;
const PAGE = 1_000;
const FIRST: State = { requests: [], dropped: 0, leftOut: 0, settings: null, error: null };

/** Draws the page. */
export default function RequestsPage(): JSX.Element {
  const filters = useFilters();
  const [isPaused, setPaused] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const [open, setOpen] = useParameter("request");
  const isReadOnly = useStore(session)?.readOnly ?? false;
  const log = useLog(filters.values, isPaused);
  const shown = useMemo(() => matching(log.requests, clientFilter(filters.values)), [log.requests, filters.key]);
  const opened = log.requests.find((request) => String(request.number) === open);
  return (
    <div class="reqs-page">
      <div class="page-head">
        <h1>Requests</h1>
        <div class="actions">
          <Button icon={isPaused ? "play" : "stop"} pressed={isPaused} onClick={() => setPaused(!isPaused)}>
            {isPaused ? "Go on" : "Pause"}
          </Button>
          <Button
            icon="settings"
            disabled={isReadOnly || log.settings === null}
            onClick={() => setAsking(true)}
          >
            Thresholds
          </Button>
          <Button kind="quiet" icon="copy" onClick={() => void copyText(csv(csvRows(shown)))}>
            Copy as CSV
          </Button>
        </div>
      </div>
      <Filters {...filters} requests={log.requests} />
      {log.error && <ErrorView error={log.error} title="The log could not be read." onRetry={log.retry} />}
      {log.settings && <Note shown={shown} log={log} isFollowing={filters.values.all} />}
      {!log.settings && !log.error && <Skeleton lines={8} />}
      {log.settings && shown.length === 0 && <Nothing settings={log.settings} isFiltered={filters.isActive} />}
      {shown.length > 0 && (
        <DataTable
          label="Requests"
          columns={columnsFor(shown)}
          rows={shown}
          rowId={(request) => String(request.number)}
          openId={open}
          onOpen={(request) => setOpen(String(request.number))}
          storeKey="requests"
          hasPicker
        />
      )}
      {opened && <Details request={opened} onClose={() => setOpen("")} />}
      {isAsking && log.settings && (
        <Thresholds settings={log.settings} onChanged={log.retry} onClose={() => setAsking(false)} />
      )}
    </div>
  );
}

function clientFilter(values: FilterValues): Parameters<typeof matching>[1] {
  return {
    hasConsole: values.console,
    ...(values.operation === "" ? {} : { operation: values.operation }),
    ...(values.partition === "" ? {} : { partition: values.partition }),
    ...(values.from === null ? {} : { from: values.from }),
    ...(values.to === null ? {} : { to: values.to }),
  };
}

/** Reads the log and follows it, one request at a time. */
function useLog(values: FilterValues, isPaused: boolean): State & { readonly retry: () => void } {
  const [state, setState] = useState<State>(FIRST);
  const [round, setRound] = useState(0);
  const log = useRef(new RequestLog());
  const recovered = useStore(recoveries);
  const query = queryOf(values, PAGE);
  useEffect(() => {
    log.current.clear();
    setState((before) => ({ ...FIRST, settings: before.settings }));
  }, [query]);
  useEffect(() => {
    const aborter = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async (): Promise<void> => {
      try {
        const answer = await pageAfter(query, log.current.after, aborter.signal);
        if (aborter.signal.aborted) return;
        const fresh = log.current.add(answer);
        const { requests, dropped } = log.current;
        setState((before) => {
          const isSame = fresh === 0 && sameSettings(before, answer);
          return isSame ? before : { requests, dropped, leftOut: answer.leftOut, settings: answer.settings, error: null };
        });
      } catch (error) {
        if (aborter.signal.aborted || isAborted(error)) return;
        setState((before) => ({ ...before, error: asApiError(error) }));
      }
      if (!isPaused) timer = setTimeout(() => void whenVisible(), PAUSE_MS);
    };
    const whenVisible = async (): Promise<void> => {
      if (document.visibilityState === "visible") await read();
      else timer = setTimeout(() => void whenVisible(), PAUSE_MS);
    };
    void read();
    return () => {
      aborter.abort();
      clearTimeout(timer);
    };
  }, [query, isPaused, round, recovered]);
  return { ...state, retry: () => setRound(round + 1) };
}

async function pageAfter(query: string, after: number | null, signal: AbortSignal): Promise<Answer> {
  const suffix = after === null ? "" : `&after=${after}`;
  return (await manage(`/requests?${query}${suffix}`, { signal, poll: true })).json() as Answer;
}

function sameSettings(before: State, answer: Answer): boolean {
  if (before.error !== null || before.leftOut !== answer.leftOut) return false;
  return JSON.stringify(before.settings) === JSON.stringify(answer.settings);
}

function Note(props: {
  readonly shown: readonly RecordedRequest[];
  readonly log: State;
  readonly isFollowing: boolean;
}): JSX.Element {
  const { shown, log } = props;
  const sum = shown.reduce((total, request) => total + request.ru, 0);
  const { settings } = log;
  const threshold =
    settings && !props.isFollowing
      ? ` The server records requests from ${ru(settings.minRu)} or ${duration(settings.minMs)}, and refused and failed ones.`
      : " The server records every request while this page follows.";
  return (
    <p class="soft reqs-note" role="status">
      {plural(shown.length, "request")}, {ru(sum)}.{threshold}
      {log.leftOut > 0 && ` ${count(log.leftOut)} were left out because too many came in one second.`}
      {log.dropped > 0 && ` ${count(log.dropped)} older ones are no longer in this list.`}
    </p>
  );
}

function Nothing(props: { readonly settings: LogSettings; readonly isFiltered: boolean }): JSX.Element {
  if (props.isFiltered) {
    return (
      <Empty title="No request matches the filters" icon="requests">
        The list goes on with new requests. Remove a filter to see others.
      </Empty>
    );
  }
  return (
    <Empty title="No slow or expensive requests" icon="requests">
      Requests from {ru(props.settings.minRu)} or {duration(props.settings.minMs)} are recorded, and all
      refused and failed ones. Tick “Every request” to see all that come from now on.
    </Empty>
  );
}

function columnsFor(shown: readonly RecordedRequest[]): DataColumn<RecordedRequest>[] {
  let full = 0;
  for (const request of shown) full = Math.max(full, request.ru);
  return [
    {
      id: "time",
      header: "Time",
      value: (request) => request.number,
      cell: (request) => <span title={moment(new Date(request.time))}>{clock(new Date(request.time))}</span>,
      width: 90,
    },
    { id: "operation", header: "Operation", value: (request) => request.operation, width: 170 },
    {
      id: "container",
      header: "Container",
      value: (request) => [request.db, request.coll].filter(Boolean).join("/"),
      width: 150,
    },
    {
      id: "status",
      header: "Status",
      value: (request) => request.status,
      cell: (request) => <Badge kind={statusKind(request.status)}>{statusText(request)}</Badge>,
      width: 110,
    },
    {
      id: "ru",
      header: "RU",
      value: (request) => request.ru,
      cell: (request) => ruNumber(request.ru),
      width: 80,
      isNumber: true,
    },
    {
      id: "parts",
      header: "Parts of the charge",
      value: (request) => request.ru,
      cell: (request) => <ChargeBar parts={request.parts} full={full} />,
      width: 180,
    },
    {
      id: "ms",
      header: "Duration",
      value: (request) => request.ms,
      cell: (request) => duration(request.ms),
      width: 90,
      isNumber: true,
    },
    {
      id: "partitions",
      header: "Partitions",
      value: (request) => request.partitionCount,
      cell: (request) => partitionsText(request),
      width: 100,
      isNumber: true,
    },
    { id: "reason", header: "Reason", value: (request) => request.reason, width: 100, isHidden: true },
    { id: "id", header: "Id", value: (request) => request.id ?? "", width: 140, isHidden: true, isMono: true },
    { id: "client", header: "Client", value: (request) => request.userAgent ?? "", width: 200, isHidden: true },
  ];
}

function partitionsText(request: RecordedRequest): string {
  if (request.partitionCount <= 3) return request.partitions.join(", ");
  return plural(request.partitionCount, "partition");
}

function csvRows(requests: readonly RecordedRequest[]): (string | number)[][] {
  const rows: (string | number)[][] = [
    ["time", "operation", "db", "coll", "id", "status", "substatus", "ru", "ms", "partitions", "reason", "activityId"],
  ];
  for (const request of requests) {
    rows.push([
      new Date(request.time).toISOString(),
      request.operation,
      request.db ?? "",
      request.coll ?? "",
      request.id ?? "",
      request.status,
      request.substatus,
      request.ru,
      request.ms,
      request.partitions.join(" "),
      request.reason,
      request.activityId,
    ]);
  }
  return rows;
}
