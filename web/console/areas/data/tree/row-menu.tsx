/** The menu of a row of the tree: what can be created, opened, copied and deleted there.
 *
 * The menu lies over the page at the row, outside of the scrolling part of the tree.
 * Leaves out: the dialogs, which are on the pages that the entries open. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { href, navigate } from "../../../router.ts";
import { focusItem, MenuEntries, type MenuItem } from "../../../ui/menu.tsx";
import type { TreeRow } from "../logic/tree-model.ts";
import { useReadOnly } from "../requests.ts";
import { isFavourite, loadList, toggleFavourite } from "./tree-store.ts";

/** A row and the place of its menu in the window, in pixels. */
export interface MenuPlace {
  readonly row: TreeRow;
  readonly left: number;
  readonly top: number;
}

const MENU_HEIGHT = 320;
const MENU_WIDTH = 220;

/** Draws the menu of a row. */
export function RowMenu(props: { readonly place: MenuPlace; readonly onClose: () => void }): JSX.Element {
  const { place, onClose } = props;
  const root = useRef<HTMLDivElement>(null);
  const readOnly = useReadOnly();
  useEffect(() => {
    focusItem(root.current, 0);
    const outside = (event: Event): void => {
      if (event.target instanceof Node && !root.current?.contains(event.target)) onClose();
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, []);
  const press = (event: KeyboardEvent): void => {
    if (event.key === "Escape" || event.key === "Tab") onClose();
    else if (event.key === "ArrowDown") focusItem(root.current, 1);
    else if (event.key === "ArrowUp") focusItem(root.current, -1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const select = (item: MenuItem): void => {
    onClose();
    item.onSelect();
  };
  const left = Math.max(8, Math.min(place.left, innerWidth - MENU_WIDTH));
  const top = Math.max(8, Math.min(place.top, innerHeight - MENU_HEIGHT));
  return (
    <div
      class="menu-list data-row-menu"
      role="menu"
      aria-label={`Menu of ${place.row.label}`}
      ref={root}
      style={{ left: `${left}px`, top: `${top}px` }}
      onKeyDown={press}
    >
      <MenuEntries items={entriesOf(place.row, readOnly)} onSelect={select} />
    </div>
  );
}

function copyName(name: string): MenuItem {
  const onSelect = (): void => {
    void import("../../../ui/clipboard.ts").then(({ copyText }) => copyText(name));
  };
  return { label: "Copy name", icon: "copy", onSelect };
}

function entriesOf(row: TreeRow, readOnly: boolean): readonly MenuItem[] {
  const [database = "", container = "", third = ""] = row.path;
  const open = (segments: readonly string[], query: Record<string, string> = {}) => (): void =>
    navigate(href(segments, query));
  const entries: MenuItem[] = [];
  if (row.kind === "database") {
    if (!readOnly) {
      entries.push({
        label: "New container",
        icon: "plus",
        onSelect: open(["data", database], { new: "container" }),
      });
    }
    entries.push({ label: "Load again", icon: "reload", onSelect: () => void loadList(row.key, true) });
    entries.push(copyName(database));
    if (!readOnly) {
      const onSelect = open(["data", database], { delete: "database" });
      entries.push({ label: "Delete database", icon: "trash", danger: true, onSelect });
    }
  } else if (row.kind === "container" || row.kind === "favourite") {
    entries.push(...containerEntries(database, container, readOnly));
  } else if (row.kind === "users") {
    const onSelect = open(["data", database], { view: "users", new: "user" });
    if (!readOnly) entries.push({ label: "New user", icon: "plus", onSelect });
    entries.push({ label: "Load again", icon: "reload", onSelect: () => void loadList(row.key, true) });
  } else {
    const onSelect = open(["data", database, container, "scripts", third], { new: "1" });
    if (!readOnly) entries.push({ label: "New script", icon: "plus", onSelect });
    entries.push({ label: "Load again", icon: "reload", onSelect: () => void loadList(row.key, true) });
  }
  return entries;
}

function containerEntries(database: string, container: string, readOnly: boolean): MenuItem[] {
  const tab = (name: string, query: Record<string, string> = {}) => (): void =>
    navigate(href(["data", database, container, name], query));
  const path = [database, container];
  const entries: MenuItem[] = [{ label: "New query", icon: "play", onSelect: tab("query") }];
  if (!readOnly) {
    entries.push(
      { label: "New item", icon: "plus", onSelect: tab("items", { new: "1" }) },
      { label: "Upload items", icon: "upload", onSelect: tab("items", { transfer: "upload" }) },
    );
  }
  entries.push(
    { label: "Download items", icon: "download", onSelect: tab("items", { transfer: "download" }) },
    {
      label: isFavourite(path) ? "Remove from favourites" : "Add to favourites",
      icon: "bolt",
      onSelect: () => toggleFavourite(path),
    },
    copyName(container),
  );
  if (!readOnly) {
    entries.push({
      label: "Delete container",
      icon: "trash",
      danger: true,
      onSelect: () => navigate(href(["data", database], { delete: "container", name: container })),
    });
  }
  return entries;
}
