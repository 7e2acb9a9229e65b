/** The open queries of a container, in step with the browser's storage and with the address. */

import { useEffect, useRef, useState } from "preact/hooks";
import { currentAddress, href, navigate, useAddress } from "../../router.ts";
import { withoutPlaceholders } from "./placeholders.ts";
import type { Property } from "./sample.ts";
import {
  ADDRESS_QUERY_MAX,
  keepWorkspace,
  newTab,
  type QueryTab,
  readWorkspace,
  withAddress,
  type Workspace,
} from "./workspace.ts";

const KEEP_DELAY_MS = 300;

export interface OpenQueries {
  readonly workspace: Workspace;
  readonly current: QueryTab;
  readonly change: (tab: QueryTab) => void;
  readonly select: (id: string) => void;
  readonly close: (id: string) => void;
  /** Selects the neighbour of the current query. */
  readonly step: (by: 1 | -1) => void;
  /** Opens a query in a new tab. */
  readonly open: (query: Partial<QueryTab>) => void;
}

/** Returns the open queries. */
export function useWorkspace(database: string, container: string, properties: readonly Property[]): OpenQueries {
  const { query } = useAddress();
  const [workspace, setWorkspace] = useState(() =>
    addressed(readWorkspace(database, container), query, properties),
  );
  const newest = useRef(workspace);
  newest.current = workspace;
  const newestProperties = useRef(properties);
  newestProperties.current = properties;
  // The address that this page wrote last, which may be older than the text.
  const written = useRef("");
  const first = workspace.tabs[0] ?? newTab([], "");
  const current = workspace.tabs.find((tab) => tab.id === workspace.current) ?? first;

  const keep = (): void => {
    keepWorkspace(database, container, newest.current);
    written.current = showInAddress(newest.current) ?? written.current;
  };
  useEffect(() => {
    const timer = setTimeout(keep, KEEP_DELAY_MS);
    return () => clearTimeout(timer);
  }, [workspace]);
  // What was typed in the last moment before the page goes away.
  useEffect(() => {
    const hide = (): void => {
      keepWorkspace(database, container, newest.current);
    };
    window.addEventListener("pagehide", hide);
    return () => {
      window.removeEventListener("pagehide", hide);
      hide();
    };
  }, [database, container]);
  // A link to another query of the same container, or Back.
  const text = query.get("text");
  const key = query.get("pk");
  useEffect(() => {
    if (JSON.stringify([text, key]) === written.current) return;
    setWorkspace((before) => addressed(before, currentAddress().query, newestProperties.current));
  }, [text, key]);

  return {
    workspace,
    current,
    change: (tab) =>
      setWorkspace((before) => ({
        ...before,
        tabs: before.tabs.map((known) => (known.id === tab.id ? tab : known)),
      })),
    select: (id) => setWorkspace((before) => ({ ...before, current: id })),
    step: (by) =>
      setWorkspace((before) => {
        const { length } = before.tabs;
        const at = before.tabs.findIndex((tab) => tab.id === before.current);
        const next = before.tabs[(at + by + length) % length];
        return next ? { ...before, current: next.id } : before;
      }),
    close: (id) => setWorkspace((before) => without(before, id)),
    open: (opened) =>
      setWorkspace((before) => {
        const tab = { ...newTab(before.tabs, ""), ...opened };
        return { tabs: [...before.tabs, tab], current: tab.id };
      }),
  };
}

function without(workspace: Workspace, id: string): Workspace {
  const at = workspace.tabs.findIndex((tab) => tab.id === id);
  const tabs = workspace.tabs.filter((tab) => tab.id !== id);
  const neighbour = tabs[Math.max(0, at - 1)];
  if (!neighbour) return workspace;
  return { tabs, current: workspace.current === id ? neighbour.id : workspace.current };
}

/** Returns the workspace with the query that the address names. The text of a query form has
 * placeholders, which become parameters. */
function addressed(
  workspace: Workspace,
  query: URLSearchParams,
  properties: readonly Property[],
): Workspace {
  const text = query.get("text");
  if (text === null) return workspace;
  const shown = workspace.tabs.find((tab) => tab.id === workspace.current);
  const key = keyOf(query.get("pk"));
  if (shown?.text === text && JSON.stringify(shown.key) === JSON.stringify(key)) return workspace;
  const filled = withoutPlaceholders(text, properties);
  return withAddress(workspace, filled.text, filled.parameters, key);
}

function keyOf(text: string | null): string[] | null {
  if (text === null) return null;
  try {
    const values: unknown = JSON.parse(text);
    const isList = Array.isArray(values) && values.every((value) => typeof value === "string");
    return isList ? values : null;
  } catch {
    return null;
  }
}

/** Writes the current query into the address and returns what was written, or null. */
function showInAddress(workspace: Workspace): string | null {
  const tab = workspace.tabs.find((known) => known.id === workspace.current);
  const { segments, query } = currentAddress();
  // Another page may be open by now.
  if (!tab || segments[3] !== "query") return null;
  const others = Object.fromEntries(query);
  const text = tab.text.length <= ADDRESS_QUERY_MAX ? tab.text : undefined;
  const pk = tab.key === null ? undefined : JSON.stringify(tab.key);
  const next = href(segments, { ...others, text, pk });
  if (next !== href(segments, others)) navigate(next, true);
  return JSON.stringify([text || null, pk ?? null]);
}
