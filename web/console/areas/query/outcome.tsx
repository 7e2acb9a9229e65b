/** Everything below the editor: the figures of the run, the plan, and the views of the rows. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { ApiError } from "../../api/client.ts";
import { type Container, containers, type Json, type PartitionRange } from "../../api/data.ts";
import { usePoll, useResource } from "../../ui/resource.ts";
import { statements } from "./statements.ts";
import { useStore } from "../../store.ts";
import { Button } from "../../ui/button.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { count, plural, ru } from "../../ui/format.ts";
import { Banner, Empty, Skeleton } from "../../ui/states.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { adviceFrom } from "../../advice/advice.ts";
import { QUERY_RULES, type QueryFacts } from "../../advice/query-rules.ts";
import { AdviceView } from "./advice_view.tsx";
import { mergedUses } from "./advice.ts";
import { hintsOf } from "./answers.ts";
import { ChartView } from "./chart_view.tsx";
import { plainMessage } from "./diagnostics.ts";
import type { SavedQuery } from "./history.ts";
import { HistoryView } from "./history_view.tsx";
import { planOf } from "./plan.ts";
import { PlanView } from "./plan_view.tsx";
import { JsonView, ResultActions, TableView } from "./results_view.tsx";
import { type QueryRun, ROWS_MAX, type RunState, totalsOf } from "./run.ts";
import { StatisticsLine, StatisticsView } from "./statistics_view.tsx";
import { TreeView } from "./tree_view.tsx";

export interface OutcomeProps {
  readonly run: QueryRun | null;
  readonly ranges: readonly PartitionRange[];
  readonly database: string;
  readonly definition: Container;
  readonly onDefinition: (definition: Container) => void;
  readonly onEdit: (row: Json) => void;
  readonly onRunAgain: () => void;
  readonly onOpen: (query: SavedQuery) => void;
  /** The text of the tab if it changed since the run, otherwise null. */
  readonly text: string | null;
  /** Parameters and partition key as they would run now. */
  readonly settings: string;
  readonly view: ViewName;
  readonly onView: (view: ViewName) => void;
}

export type ViewName = "advice" | "chart" | "history" | "json" | "statistics" | "table" | "tree";

/** Draws the outcome of the newest run, or the history before the first. */
export function Outcome(props: OutcomeProps): JSX.Element {
  const history = (
    <HistoryView database={props.database} container={props.definition.id} onOpen={props.onOpen} />
  );
  if (!props.run) {
    return (
      <div class="query-outcome">
        <h2 class="visually-hidden">Queries of this container</h2>
        {history}
      </div>
    );
  }
  return <RunOutcome key={props.run.id} {...props} run={props.run} history={history} />;
}

function RunOutcome(
  props: OutcomeProps & { readonly run: QueryRun; readonly history: JSX.Element },
): JSX.Element {
  const state = useStore(props.run.state);
  const { view } = props;
  const plan = useMemo(() => planOfRun(state, props.ranges), [state.pages, props.ranges]);
  const reasons = useMemo(
    () => (plan ? adviceFrom(QUERY_RULES, costFacts(state, plan, props)) : []),
    [plan, state.pages],
  );
  const isFirst = state.pages.length === 0;
  const missing = mergedUses(state.pages.map((page) => page.indexes)).filter((use) => !use.isUsed);
  const tabs: readonly (readonly [ViewName, string])[] = [
    ["table", "Table"],
    ["json", "JSON"],
    ["tree", "Tree"],
    ["chart", "Chart"],
    ["statistics", "Statistics"],
    ["advice", missing.length > 0 ? `Index advice (${missing.length})` : "Index advice"],
    ["history", "History"],
  ];
  return (
    <div class={plan ? "query-outcome with-plan" : "query-outcome"} data-status={state.status}>
      <div class="query-results">
        <h2 class="visually-hidden">Results</h2>
        {!isFirst && <StatisticsLine run={state} plan={plan} />}
        {state.status !== "running" && <Stale {...props} state={state} />}
        {hintsOf(state.pages.map((page) => page.explanation)).map((hint) => (
          <Banner key={hint}>{hint}</Banner>
        ))}
        {state.error && <ErrorView error={worded(state.error)} onRetry={() => void props.run.loadPage()} />}
        <Tabs label="Views of the result" tabs={tabs} current={view} onChange={props.onView}>
          {view !== "history" && isFirst ? (
            <Waiting state={state} />
          ) : (
            <View {...props} state={state} />
          )}
        </Tabs>
        {!isFirst && <More run={props.run} state={state} />}
      </div>
      {plan && <PlanView plan={plan} reasons={reasons} />}
    </div>
  );
}

const CHANGES_MS = 5_000;

/** Says that the query, its parameters or the container changed since the run. */
function Stale(props: OutcomeProps & { readonly state: RunState }): JSX.Element | null {
  const { state, database, definition, settings } = props;
  const [ran] = useState({ settings, etag: "" });
  const container = useResource(
    async (signal) => (await containers.read(database, definition.id, { signal, poll: true })).json() as Container,
    [definition._etag],
  );
  usePoll(container, CHANGES_MS);
  const etag = container.value?._etag ?? "";
  ran.etag ||= etag;
  const isOther = props.text !== null && !statements(props.text).some(({ text }) => text === state.request.query);
  const hasOther = settings !== ran.settings;
  if (!isOther && !hasOther && (etag === "" || etag === ran.etag)) return null;
  const what = isOther ? "The query" : hasOther ? "A parameter" : "The container";
  return (
    <Banner kind="warn" actions={<Button onClick={props.onRunAgain}>Run the query again</Button>}>
      {what} changed since this run. The results are those of before.
    </Banner>
  );
}

function planOfRun(state: RunState, ranges: readonly PartitionRange[]): ReturnType<typeof planOf> {
  const explanations = state.pages.map((page) => page.explanation);
  return planOf(
    explanations.filter((explanation) => explanation !== null),
    ranges,
  );
}

function costFacts(
  state: RunState,
  plan: NonNullable<ReturnType<typeof planOf>>,
  props: OutcomeProps,
): QueryFacts {
  const { ru: charge, metrics, parts } = totalsOf(state.pages);
  let walked = 0;
  for (const row of plan.rows) {
    if (row.access.some((access) => access.startsWith("order "))) walked += row.candidates;
  }
  return {
    text: state.request.query,
    keyPaths: props.definition.partitionKey.paths,
    asked: plan.asked,
    all: plan.all,
    isSinglePartition: state.request.partitionKey !== null,
    retrieved: metrics.retrievedCount,
    rows: metrics.outputCount,
    rowBytes: metrics.outputBytes,
    ru: charge,
    parts,
    access: { isScan: plan.rows.some((row) => row.access.includes("full scan")), walked },
    missing: [],
    missingComposite: [],
  };
}

/** Returns the error with the server's message in plain words. */
function worded(error: ApiError): ApiError {
  const { status, code, activityId, retryAfterMs, substatus, body } = error;
  return new ApiError(status, code, plainMessage(error.message), activityId, retryAfterMs, substatus, body);
}

function Waiting({ state }: { readonly state: RunState }): JSX.Element {
  if (state.status === "running") return <Skeleton lines={6} />;
  if (state.status === "failed") return <p class="soft">The query returned no rows, because it failed.</p>;
  return <p class="soft">{STOPS[state.stop ?? "cancelled"]}</p>;
}

interface ViewProps extends OutcomeProps {
  readonly state: RunState;
  readonly history: JSX.Element;
}

function View({ view, state, history, ...props }: ViewProps): JSX.Element {
  const hasRows = state.rows.length > 0;
  if (view === "statistics") return <StatisticsView run={state} />;
  if (view === "history") return history;
  if (view === "advice") {
    return (
      <AdviceView
        run={state}
        database={props.database}
        definition={props.definition}
        onDefinition={props.onDefinition}
        onRunAgain={props.onRunAgain}
      />
    );
  }
  if (!hasRows) {
    return (
      <Empty title={state.continuation === null ? "The query returned no rows." : "No rows so far."} icon="table">
        {state.continuation === null
          ? "No item fulfils the condition in the chosen scope."
          : "The page ended before a row was found. Load more."}
      </Empty>
    );
  }
  if (view === "json") return <JsonView run={state} />;
  if (view === "tree") return <TreeView rows={state.rows} />;
  if (view === "chart") return <ChartView run={state} />;
  return <TableView run={state} definition={props.definition} onEdit={props.onEdit} />;
}

const STOPS = {
  cancelled: "The query was cancelled. What was loaded is shown.",
  page: "",
  rows: `The browser keeps at most ${count(ROWS_MAX)} rows. Narrow the query to see others.`,
  "ru-limit": "The RU limit of a run is reached, so no further page was loaded.",
  timeout: "A page took longer than the timeout, so it was cancelled.",
};

function More({ run, state }: { readonly run: QueryRun; readonly state: RunState }): JSX.Element {
  const isRunning = state.status === "running";
  const stop = state.stop === null ? "" : STOPS[state.stop];
  const charge = totalsOf(state.pages).ru;
  return (
    <div class="query-more">
      {stop !== "" && <Banner kind="warn">{stop}</Banner>}
      <div class="row">
        <span class="soft" role="status">
          {plural(state.rows.length, "row")} of {plural(state.pages.length, "page")}
          {isRunning ? `, loading, ${ru(charge)} so far` : state.continuation === null ? ", complete" : ""}
        </span>
        {state.continuation !== null && !isRunning && (
          <>
            <Button onClick={() => void run.loadPage()}>Load more</Button>
            <Button onClick={() => void run.loadAll()}>Load all</Button>
          </>
        )}
        {isRunning && (
          <Button icon="stop" onClick={() => run.cancel()}>
            Stop
          </Button>
        )}
        <ResultActions run={state} name="rows" />
      </div>
    </div>
  );
}
