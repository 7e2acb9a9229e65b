/** The workbench: queries in tabs, the editor, runs, results, plan, advice, history. */

import type { EditorView } from "@codemirror/view";
import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { session } from "../../api/client.ts";
import { type Container, containers, type Json, type PartitionRange } from "../../api/data.ts";
import { jsonText } from "../../api/exact-json.ts";
import { useCommands } from "../../commands.ts";
import { href, navigate } from "../../router.ts";
import { useStore } from "../../store.ts";
import { Editor } from "../../ui/editor.tsx";
import { toast } from "../../ui/toast.tsx";
import type { Language } from "./completion.ts";
import type { QueryParameter } from "./copy/index.ts";
import { CopyDialog } from "./copy_dialog.tsx";
import { type EditorContext, editorSupport } from "./editor_support.ts";
import { formatSql } from "./format_sql.ts";
import { addHistory } from "./history.ts";
import { QueryChecker } from "./knowledge.ts";
import { MissingParameters } from "./missing_parameters.tsx";
import { OptionsPanel } from "./options_panel.tsx";
import { Outcome, type ViewName } from "./outcome.tsx";
import { NO_RUN, QueryRun, type RunRequest, type RunState, totalsOf } from "./run.ts";
import type { Property } from "./sample.ts";
import { SaveDialog } from "./save_dialog.tsx";
import { layout, runBounds } from "./settings.ts";
import { textToRun } from "./statements.ts";
import { isRecord } from "./table.ts";
import { TabStrip } from "./tab_strip.tsx";
import { downloadQuery, Toolbar } from "./toolbar.tsx";
import { useWorkspace } from "./use_workspace.ts";
import { keyValueOf, parsedValue, type ParameterText, type QueryTab } from "./workspace.ts";

export interface WorkbenchProps {
  readonly database: string;
  readonly definition: Container;
  readonly language: Language;
  readonly properties: readonly Property[];
  readonly onDefinition: (definition: Container) => void;
}

/** Draws the workbench of a container. */
export function Workbench(props: WorkbenchProps): JSX.Element {
  const { database, definition, language } = props;
  const container = definition.id;
  const open = useWorkspace(database, container, props.properties);
  const tab = open.current;
  const view = useRef<EditorView | null>(null);
  const [runs, setRuns] = useState<ReadonlyMap<string, QueryRun>>(new Map());
  /** The text of the tab when each run began. */
  const sources = useRef(new WeakMap<QueryRun, string>());
  const [ranges, setRanges] = useState<readonly PartitionRange[]>([]);
  const [dialog, setDialog] = useState<"copy" | "save" | null>(null);
  const [shownView, setView] = useState<ViewName>("table");
  const place = useStore(layout);
  const fileInput = useRef<HTMLInputElement>(null);
  const [hasOptions, setOptions] = useState(tab.key !== null || tab.parameters.length > 0);
  const run = runs.get(tab.id) ?? null;
  const keyPaths = definition.partitionKey.paths;

  const requestOf = (query: string): RunRequest => ({
    database,
    container,
    query,
    parameters: parametersOf(tab.parameters),
    partitionKey: tab.key?.map(keyValueOf) ?? null,
    ...runBounds(),
  });
  const start = async (request: RunRequest): Promise<void> => {
    const next = new QueryRun(request);
    sources.current.set(next, tab.text);
    run?.cancel();
    setRuns((before) => new Map(before).set(tab.id, next));
    // The ranges as they are now: a split may have taken place since the last run.
    const reading = containers.ranges(database, container).then(setRanges, () => undefined);
    await next.loadPage();
    await reading;
    remember(next, tab);
  };
  const chosenText = (): string | null => {
    const selection = view.current?.state.selection.main;
    const text = view.current?.state.doc.toString() ?? tab.text;
    return textToRun(text, selection?.from ?? 0, selection?.to ?? 0)?.text ?? null;
  };
  const runNow = (): void => {
    const query = chosenText();
    const wrong = tab.parameters.find(({ text }) => parsedValue(text).error !== null);
    if (query === null) toast("There is no query to run. Type one, such as SELECT * FROM c.", "bad");
    else if (wrong) toast(`The value of ${wrong.name} is no JSON. Correct the parameter.`, "bad");
    else void start(requestOf(query));
  };
  const cancel = (): boolean => {
    if (run?.state.get().status !== "running") return false;
    run.cancel();
    return true;
  };
  const format = (): void => {
    open.change({ ...tab, text: formatSql(tab.text, new Set(language.keywords)) });
  };
  const addParameters = (changed: QueryTab): void => {
    setOptions(true);
    open.change(changed);
  };
  const context = useEditorContext(props, tab, runNow, cancel);
  const extensions = useMemo(() => editorSupport(language, context), [language, context]);
  // Escape belongs to dialogs and menus while nothing runs.
  const cancelKeys = useStore<RunState | null>(run?.state ?? NO_RUN)?.status === "running" ? ["Escape"] : [];
  useCommands([
    { id: "query.run", label: "Run the query", keys: ["Shift+Enter", "F5", "Mod+Enter"], group: "Query", run: runNow },
    { id: "query.cancel", label: "Cancel the query", keys: cancelKeys, group: "Query", run: () => void cancel() },
    { id: "query.new", label: "New query", keys: ["Mod+J", "Alt+N Q"], group: "Query", run: () => open.open({ text: "" }) },
    { id: "query.save", label: "Save the query", keys: ["Mod+S"], group: "Query", run: () => setDialog("save") },
    { id: "query.format", label: "Format the query", keys: ["Alt+Shift+F"], group: "Query", run: format },
    { id: "query.download", label: "Download the query", keys: ["Mod+Shift+S"], group: "Query", run: () => downloadQuery(tab) },
    { id: "query.open", label: "Open a saved query", keys: ["Mod+O"], group: "Query", run: () => setView("history") },
    { id: "query.file", label: "Open a .sql file", keys: ["Mod+Shift+O"], group: "Query", run: () => fileInput.current?.click() },
    { id: "query.next", label: "Next query", keys: ["Mod+Alt+]"], group: "Query", run: () => open.step(1) },
    { id: "query.previous", label: "Previous query", keys: ["Mod+Alt+["], group: "Query", run: () => open.step(-1) },
    { id: "query.close", label: "Close the query", keys: ["Mod+Alt+W"], group: "Query", run: () => open.close(tab.id) },
    { id: "query.copy", label: "Copy the query as a program", group: "Query", run: () => setDialog("copy") },
  ]);
  const openQuery = (query: Partial<QueryTab>): void => open.open(named(query));
  const endpoint = useStore(session)?.endpoint ?? "";
  return (
    <div class={`query-page ${place}`}>
      <TabStrip
        workspace={open.workspace}
        onSelect={open.select}
        onNew={() => open.open({ text: "" })}
        onClose={open.close}
      />
      <Toolbar
        run={run}
        tab={tab}
        hasOptions={hasOptions}
        onRun={runNow}
        onCancel={() => void cancel()}
        onOptions={() => setOptions(!hasOptions)}
        onFormat={format}
        onSave={() => setDialog("save")}
        onCopyAs={() => setDialog("copy")}
        fileInput={fileInput}
        onOpenFile={(text, name) => openQuery({ text, name })}
      />
      <MissingParameters tab={tab} properties={props.properties} onChange={addParameters} />
      {hasOptions && <OptionsPanel tab={tab} keyPaths={keyPaths} onChange={open.change} />}
      <Editor
        key={tab.id}
        label="Query"
        value={tab.text}
        onChange={(text) => open.change({ ...tab, text })}
        language="text"
        extensions={extensions}
        size="small"
        onReady={(ready) => {
          view.current = ready;
        }}
      />
      <Outcome
        run={run}
        ranges={ranges}
        database={database}
        definition={definition}
        onDefinition={props.onDefinition}
        onEdit={(row) => navigate(itemAddress(database, definition, row))}
        onRunAgain={runNow}
        text={run && sources.current.get(run) !== tab.text ? tab.text : null}
        settings={JSON.stringify([tab.parameters, tab.key])}
        onOpen={openQuery}
        view={shownView}
        onView={setView}
      />
      {dialog === "copy" && (
        <CopyDialog
          copy={{ endpoint, ...requestOf(chosenText() ?? tab.text) }}
          onClose={() => setDialog(null)}
        />
      )}
      {dialog === "save" && (
        <SaveDialog database={database} container={container} tab={tab} onClose={() => setDialog(null)} />
      )}
    </div>
  );
}

/** Returns what the editor asks of the page: one object, whose members are always the newest. */
function useEditorContext(
  props: WorkbenchProps,
  tab: QueryTab,
  run: () => void,
  cancel: () => boolean,
): EditorContext {
  const { database, definition, language, properties } = props;
  const checker = useMemo(() => new QueryChecker(database, definition.id), [database, definition.id]);
  const context = useRef<EditorContext | null>(null);
  const input = { language, properties, parameters: tab.parameters.map(({ name }) => name) };
  const check: EditorContext["check"] = async (query, offset) =>
    checker.check(query, offset, parametersOf(tab.parameters));
  context.current ??= { input, check, run, cancel };
  Object.assign(context.current, { input, check, run, cancel });
  return context.current;
}

/** Returns the parameters whose value is JSON. */
function parametersOf(texts: readonly ParameterText[]): QueryParameter[] {
  const parameters: QueryParameter[] = [];
  for (const { name, text } of texts) {
    const { value, error } = parsedValue(text);
    if (error === null) parameters.push({ name, value });
  }
  return parameters;
}

function remember(run: QueryRun, tab: QueryTab): void {
  const { request, pages, status, startedAt } = run.state.get();
  const totals = totalsOf(pages);
  addHistory(request.database, request.container, {
    at: startedAt,
    text: request.query,
    parameters: tab.parameters,
    key: tab.key,
    ru: totals.ru,
    ms: totals.ms,
    rows: totals.rows,
    failed: status === "failed",
  });
}

/** Returns the query with a name only if the name says something. */
function named(query: Partial<QueryTab>): Partial<QueryTab> {
  const { name, ...rest } = query;
  return name ? { ...rest, name: name.slice(0, 60) } : rest;
}

/** Returns the address of an item in the items tab. */
function itemAddress(database: string, definition: Container, row: Json): string {
  const key = definition.partitionKey.paths.map((path) => valueAt(row, path) ?? {});
  const id = isRecord(row) ? String(row["id"]) : "";
  return href(["data", database, definition.id, "items"], { id, key: jsonText(key) });
}

/** Returns the value at a path of a partition key, such as `/a/b` or `/"a b"`. */
function valueAt(row: Json, path: string): unknown {
  let value: unknown = row;
  for (const [, quoted, plain] of path.matchAll(/\/(?:"((?:[^"\\]|\\.)*)"|([^/]*))/g)) {
    const name = quoted === undefined ? (plain ?? "") : quoted.replace(/\\(.)/g, "$1");
    value = isRecord(value) ? value[name] : undefined;
  }
  return value;
}
