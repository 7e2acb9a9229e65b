/** The areas of the console, and what an area adds: pages, tabs of a container, commands, a tree.
 *
 * An area is a folder `areas/<name>/` whose `index.ts` exports `area`. Pages and tabs are loaded when
 * a person opens them, so `index.ts` itself imports nothing heavy. */

import type { ComponentType } from "preact";
import { area as connect } from "./areas/connect/index.ts";
import { area as explorer } from "./areas/data/index.ts";
import { area as feed } from "./areas/feed/index.ts";
import { area as live } from "./areas/live/index.ts";
import { area as overview } from "./areas/overview/index.ts";
import { area as partitions } from "./areas/partitions/index.ts";
import { area as queries } from "./areas/queries/index.ts";
import { area as query } from "./areas/query/index.ts";
import { area as requests } from "./areas/requests/index.ts";
import { area as settings } from "./areas/settings/index.ts";
import { area as prediction } from "./areas/prediction/index.ts";
import type { Command } from "./commands.ts";
import type { IconName } from "./ui/icons.tsx";

export type Load<Props> = () => Promise<{ readonly default: ComponentType<Props> }>;

/** What a page gets: the named parts of its path. */
export interface PageProps {
  readonly parts: Readonly<Record<string, string>>;
}

/** What a tab of a container gets. */
export interface ContainerProps {
  readonly database: string;
  readonly container: string;
}

export interface AreaPage {
  /** Segments of the address; `:name` stands for any segment, `*` at the end for all that follow. */
  readonly path: string;
  readonly title: string;
  readonly load: Load<PageProps>;
}

export interface NavigationEntry {
  readonly label: string;
  readonly icon: IconName;
  readonly segments: readonly string[];
  /** Entries are in ascending order: overview 10, data 20, requests 30, live 40, connect 50, settings 60. */
  readonly order: number;
}

export interface ContainerTab {
  /** The segment of the address after the container. */
  readonly id: string;
  readonly label: string;
  /** items 10, query 20, settings 30, scripts 40, feed 50, partitions 60, queries 70, prediction 80. */
  readonly order: number;
  readonly load: Load<ContainerProps>;
}

export interface Area {
  readonly navigation?: readonly NavigationEntry[];
  readonly pages?: readonly AreaPage[];
  readonly tabs?: readonly ContainerTab[];
  /** Commands that are there on every page; a page adds its own by `useCommands`. */
  readonly commands?: readonly Command[];
  /** Drawn below the navigation, such as the tree of databases. */
  readonly tree?: Load<Record<string, never>>;
}

export const AREAS: readonly Area[] = [
  overview,
  explorer,
  query,
  feed,
  partitions,
  queries,
  prediction,
  requests,
  live,
  connect,
  settings,
];

function inOrder<T extends { readonly order: number }>(entries: readonly T[]): readonly T[] {
  return [...entries].sort((left, right) => left.order - right.order);
}

export const NAVIGATION = inOrder(AREAS.flatMap((area) => area.navigation ?? []));
export const TABS = inOrder(AREAS.flatMap((area) => area.tabs ?? []));
export const TREES = AREAS.flatMap((area) => area.tree ?? []);
export const COMMANDS = AREAS.flatMap((area) => area.commands ?? []);
const PAGES = AREAS.flatMap((area) => area.pages ?? []);

/** Returns the page for these segments and the named parts, or null. */
export function pageFor(segments: readonly string[]): { page: AreaPage; parts: Record<string, string> } | null {
  for (const page of PAGES) {
    const parts = partsOf(page.path, segments);
    if (parts) return { page, parts };
  }
  return null;
}

function partsOf(path: string, segments: readonly string[]): Record<string, string> | null {
  const wanted = path === "" ? [] : path.split("/");
  const isOpen = wanted.at(-1) === "*";
  const fixed = isOpen ? wanted.slice(0, -1) : wanted;
  if (segments.length < fixed.length || (!isOpen && segments.length > fixed.length)) return null;
  const parts: Record<string, string> = {};
  for (const [at, name] of fixed.entries()) {
    const segment = segments[at] ?? "";
    if (name.startsWith(":")) parts[name.slice(1)] = segment;
    else if (name !== segment) return null;
  }
  return parts;
}
