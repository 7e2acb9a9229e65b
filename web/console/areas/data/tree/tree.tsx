/** The tree of databases at the left: lazy, filtered, virtual, and a tree by WAI-ARIA.
 *
 * The tree itself has the focus; `aria-activedescendant` names the active row, so that rows outside
 * of the visible part need no element.
 * Leaves out: loading (`tree-store.ts`), rows (`logic/tree-model.ts`), the menu (`row-menu.tsx`). */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { recoveries } from "../../../api/client.ts";
import { href, navigate, useAddress } from "../../../router.ts";
import { useStore } from "../../../store.ts";
import { Button } from "../../../ui/button.tsx";
import { Icon, type IconName } from "../../../ui/icons.tsx";
import { useScrolled } from "../../../ui/scrolled.ts";
import { moveOf, treeRows, type TreeRow } from "../logic/tree-model.ts";
import { useReadOnly } from "../requests.ts";
import { RowMenu, type MenuPlace } from "./row-menu.tsx";
import { loadList, loadTree, setFilter, setOpen, tree } from "./tree-store.ts";

const ROW_PX = 28;
const SPARE_ROWS = 12;

/** Draws the tree with its filter. */
export default function Tree(): JSX.Element {
  const state = useStore(tree);
  const recovered = useStore(recoveries);
  useEffect(() => void loadTree(), [recovered]);
  const rows = useMemo(() => treeRows(state), [state]);
  const readOnly = useReadOnly();
  const isEmpty = rows.length === 0;
  return (
    <section class="data-tree" aria-label="Tree of databases">
      <div class="data-tree-tools">
        <input
          type="search"
          aria-label="Filter databases and containers"
          placeholder="Filter"
          value={state.filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
        <Button kind="quiet" icon="reload" label="Load the tree again" onClick={() => void loadTree()} />
        {!readOnly && (
          <Button
            kind="quiet"
            icon="plus"
            label="New database"
            onClick={() => navigate(href(["data"], { new: "database" }))}
          />
        )}
      </div>
      {isEmpty && (
        <p class="data-tree-empty">{state.filter === "" ? "No database yet." : "No name matches the filter."}</p>
      )}
      {!isEmpty && <Rows rows={rows} />}
    </section>
  );
}

/** Returns the address that a row opens, or null. */
export function addressOf(row: TreeRow): string | null {
  const [database = "", container = "", third = "", fourth = ""] = row.path;
  switch (row.kind) {
    case "database":
      return href(["data", database]);
    case "container":
    case "favourite":
      return href(["data", database, container, "items"]);
    case "tab":
      return href(["data", database, container, third]);
    case "script-group":
      return href(["data", database, container, "scripts", third]);
    case "script":
      return href(["data", database, container, "scripts", third, fourth]);
    case "users":
      return href(["data", database], { view: "users" });
    case "user":
      return href(["data", database], { view: "users", user: container });
    default:
      return null;
  }
}

function Rows({ rows }: { readonly rows: readonly TreeRow[] }): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const [menu, setMenu] = useState<MenuPlace | null>(null);
  const { first, end } = useSpan(scroller, rows.length);
  const current = useCurrent(rows);
  const focus = Math.min(active, rows.length - 1);

  const move = (index: number): void => {
    setActive(index);
    reveal(scroller.current, index);
  };
  const choose = (index: number): void => {
    const row = rows[index];
    if (!row) return;
    setActive(index);
    if (row.kind === "more") void loadList(listKey(row));
    else if (row.kind === "error") void loadList(listKey(row), true);
    else if (row.canOpen && !row.isOpen) setOpen(row.key, true);
    const address = addressOf(row);
    if (address !== null) navigate(address);
  };
  const openMenu = (index: number): void => {
    const row = rows[index];
    const element = document.getElementById(rowId(index));
    if (!row || !element) return;
    setActive(index);
    const box = element.getBoundingClientRect();
    setMenu({ row, left: box.left + 24, top: box.bottom });
  };
  const press = (event: KeyboardEvent): void => {
    if (event.target !== scroller.current) return;
    const isMenuKey = event.key === "ContextMenu" || (event.shiftKey && event.key === "F10");
    const next = event.ctrlKey || event.metaKey || event.altKey ? null : moveOf(event.key, [...rows], focus);
    if (isMenuKey) openMenu(focus);
    else if (next === null) return;
    else if ("focus" in next) move(next.focus);
    else if ("choose" in next) choose(next.choose);
    else if ("open" in next) setOpen(next.open, true);
    else setOpen(next.close, false);
    event.preventDefault();
  };

  return (
    <>
      <div
        class="data-tree-rows"
        role="tree"
        aria-label="Databases and containers"
        tabIndex={0}
        ref={scroller}
        aria-activedescendant={rowId(focus)}
        onKeyDown={press}
      >
        <div class="data-tree-space" style={{ height: `${rows.length * ROW_PX}px` }} role="none">
          {visible(rows, first, end, focus).map(([index, row]) => (
            <Row
              key={row.key}
              row={row}
              index={index}
              isActive={index === focus}
              isCurrent={row.key === current}
              onChoose={choose}
              onMenu={openMenu}
            />
          ))}
        </div>
      </div>
      {menu && (
        <RowMenu
          place={menu}
          onClose={() => {
            setMenu(null);
            scroller.current?.focus();
          }}
        />
      )}
    </>
  );
}

function rowId(index: number): string {
  return `data-tree-row-${index}`;
}

/** Returns the key of the list that a row at the end of the list belongs to. */
function listKey(row: TreeRow): string {
  return row.key.slice(row.key.indexOf("/") + 1);
}

/** Returns the rows to draw; the active row is always among them. */
function visible(
  rows: readonly TreeRow[],
  first: number,
  end: number,
  focus: number,
): readonly (readonly [number, TreeRow])[] {
  const drawn: (readonly [number, TreeRow])[] = [];
  for (let index = first; index < end; index += 1) {
    const row = rows[index];
    if (row) drawn.push([index, row]);
  }
  const active = rows[focus];
  if (active && (focus < first || focus >= end)) drawn.push([focus, active]);
  return drawn;
}

/** Returns the key of the row that belongs to the address. */
function useCurrent(rows: readonly TreeRow[]): string | null {
  const { segments, query } = useAddress();
  const hash = href(segments, { view: query.get("view") ?? undefined, user: query.get("user") ?? undefined });
  return useMemo(() => {
    const found = rows.find((row) => row.kind !== "favourite" && row.kind !== "container" && addressOf(row) === hash);
    if (found) return found.key;
    const inContainer = segments[0] === "data" && segments.length > 2;
    const container = inContainer ? segments.slice(1, 3).map(encodeURIComponent).join("/") : null;
    return container;
  }, [rows, hash]);
}

function reveal(scroller: HTMLElement | null, index: number): void {
  if (!scroller) return;
  const top = index * ROW_PX;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  const bottom = top + ROW_PX - scroller.clientHeight;
  if (bottom > scroller.scrollTop) scroller.scrollTop = bottom;
}

/** Returns the rows that are visible, with some to spare. */
function useSpan(
  scroller: { readonly current: HTMLElement | null },
  length: number,
): { first: number; end: number } {
  const span = useScrolled(scroller, 600);
  const first = Math.max(0, Math.floor(span.top / ROW_PX) - SPARE_ROWS);
  const end = Math.min(length, Math.ceil((span.top + span.seen) / ROW_PX) + SPARE_ROWS);
  return { first: Math.min(first, end), end };
}

const ICONS: Partial<Record<TreeRow["kind"], IconName>> = {
  database: "data",
  container: "table",
  favourite: "bolt",
  more: "down",
  error: "warn",
  user: "key",
};

/** Kinds of rows that have a menu. */
const WITH_MENU = ["database", "container", "favourite", "script-group", "users"];

interface RowProps {
  readonly row: TreeRow;
  readonly index: number;
  readonly isActive: boolean;
  readonly isCurrent: boolean;
  readonly onChoose: (index: number) => void;
  readonly onMenu: (index: number) => void;
}

function Row({ row, index, isActive, isCurrent, onChoose, onMenu }: RowProps): JSX.Element {
  const icon = ICONS[row.kind];
  const names = ["data-tree-row", `kind-${row.kind}`, isActive ? "active" : "", isCurrent ? "current" : ""];
  const toggle = (event: MouseEvent): void => {
    event.stopPropagation();
    setOpen(row.key, !row.isOpen);
  };
  const contextMenu = (event: MouseEvent): void => {
    if (!WITH_MENU.includes(row.kind)) return;
    event.preventDefault();
    onMenu(index);
  };
  const more = (event: MouseEvent): void => {
    event.stopPropagation();
    onMenu(index);
  };
  return (
    <div
      id={rowId(index)}
      role="treeitem"
      class={names.filter(Boolean).join(" ")}
      style={{ top: `${index * ROW_PX}px`, paddingInlineStart: `${(row.level - 1) * 14 + 4}px` }}
      aria-level={row.level}
      aria-posinset={row.position}
      aria-setsize={row.size}
      aria-expanded={row.canOpen ? row.isOpen : undefined}
      aria-selected={isCurrent}
      aria-label={row.label}
      title={row.label}
      onClick={() => onChoose(index)}
      onContextMenu={contextMenu}
    >
      <span class="data-tree-arrow" aria-hidden="true" onClick={row.canOpen ? toggle : undefined}>
        {row.canOpen && <Icon name={row.isOpen ? "down" : "right"} />}
      </span>
      {icon && <Icon name={icon} />}
      <span class="data-tree-label">{row.label}</span>
      {WITH_MENU.includes(row.kind) && (
        <span class="data-tree-more" aria-hidden="true" onClick={more}>
          <Icon name="more" />
        </span>
      )}
    </div>
  );
}
