/** The address: the part after `#` holds what a page shows, so that reload, Back and sharing work.
 *
 *     #/data/<database>/<container>/query?page=2
 *
 * Segments are percent-encoded, so names may contain anything.
 * Promises: while a page has unsaved changes (`useUnsaved`), another page, or other values of the
 * parameters that name what is edited, open only after a person agrees. Leaves out: what a page looks like. */

import { useEffect, useState } from "preact/hooks";
import { createStore, useStore } from "./store.ts";

export interface Address {
  readonly segments: readonly string[];
  readonly query: URLSearchParams;
}

/** Returns the text after `#` for these segments. Undefined and empty parameters are left out. */
export function href(segments: readonly string[], query: Readonly<Record<string, string | undefined>> = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") parameters.set(name, value);
  }
  const path = segments.map(encodeURIComponent).join("/");
  const suffix = parameters.toString();
  return suffix === "" ? `#/${path}` : `#/${path}?${suffix}`;
}

/** Reads the text after `#`; a segment that is not well encoded is taken as it is. */
export function parse(hash: string): Address {
  const text = hash.replace(/^#?\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const segments = path === "" ? [] : path.replace(/\/$/, "").split("/").map(decoded);
  return { segments, query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)) };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

const address = createStore<Address>(parse(location.hash));
let shownHash = location.hash;
/** For each place with unsaved changes, the parameters that name what is edited. */
const unsaved = new Set<readonly string[]>();

/** The hash that a person wants to open while changes are unsaved, or null. */
export const wanted = createStore<string | null>(null);

window.addEventListener("hashchange", () => {
  const hash = location.hash;
  if (hash === shownHash) return;
  if (isLeaving(parse(shownHash), parse(hash))) {
    history.pushState(null, "", shownHash === "" ? "#/" : shownHash);
    wanted.set(hash);
    return;
  }
  show(hash);
});

window.addEventListener("beforeunload", (event) => {
  if (unsaved.size > 0) event.preventDefault();
});

/** Returns true if the way from one address to the other closes unsaved changes. */
function isLeaving(from: Address, to: Address): boolean {
  const isOther = href(from.segments) !== href(to.segments);
  return [...unsaved].some((names) => isOther || names.some((name) => from.query.get(name) !== to.query.get(name)));
}

function show(hash: string): void {
  shownHash = hash;
  address.set(parse(hash));
}

/** Returns the current address; the component is drawn again when it changes. */
export function useAddress(): Address {
  return useStore(address);
}

/** Returns the current address outside components. */
export function currentAddress(): Address {
  return address.get();
}

/** Opens a page. With `replace`, Back does not return to the current one. */
export function navigate(hash: string, replace = false): void {
  if (replace) {
    history.replaceState(null, "", hash);
    show(hash);
  } else {
    location.hash = hash;
  }
}

/** Discards unsaved changes and opens the wanted page, or stays. */
export function decideWanted(leave: boolean): void {
  const hash = wanted.get();
  wanted.set(null);
  if (!leave || hash === null) return;
  unsaved.clear();
  navigate(hash);
}

/** Keeps the page open while `dirty` is true, and the values of the parameters `names`. */
export function useUnsaved(dirty: boolean, ...names: readonly string[]): void {
  useEffect(() => {
    if (!dirty) return undefined;
    unsaved.add(names);
    return () => {
      unsaved.delete(names);
    };
  }, [dirty]);
}

/** Returns a parameter of the address, and a setter that replaces the address, not adding to Back. */
export function useParameter(name: string, fallback = ""): [string, (value: string) => void] {
  const { query } = useAddress();
  const set = (value: string): void => {
    const now = currentAddress();
    const all = Object.fromEntries(now.query);
    const hash = href(now.segments, { ...all, [name]: value === fallback ? undefined : value });
    if (isLeaving(now, parse(hash))) wanted.set(hash);
    else navigate(hash, true);
  };
  return [query.get(name) ?? fallback, set];
}

/** Returns true once `ms` have passed while `active` is true. */
export function useAfter(ms: number, active: boolean): boolean {
  const [passed, setPassed] = useState(false);
  useEffect(() => {
    setPassed(false);
    if (!active) return undefined;
    const timer = setTimeout(() => setPassed(true), ms);
    return () => clearTimeout(timer);
  }, [ms, active]);
  return active && passed;
}
