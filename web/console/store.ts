/** Values that several components show: read, set, and a hook that draws again when they change. */

import { useEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(next: T): void;
  update(change: (value: T) => T): void;
  subscribe(listener: () => void): () => void;
}

/** Returns a store with this first value. */
export function createStore<T>(first: T): Store<T> {
  let value = first;
  const listeners = new Set<() => void>();
  const set = (next: T): void => {
    if (Object.is(value, next)) return;
    value = next;
    for (const listener of [...listeners]) listener();
  };
  return {
    get: () => value,
    set,
    update: (change) => set(change(value)),
    subscribe: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

/** Returns a store whose value stays in this browser under `orrery.<key>`. */
export function createKeptStore<T>(key: string, first: T, accepts: (value: unknown) => value is T): Store<T> {
  const name = `orrery.${key}`;
  const store = createStore(kept(name, first, accepts));
  store.subscribe(() => {
    try {
      localStorage.setItem(name, JSON.stringify(store.get()));
    } catch {
      // Without storage the value lasts until the page closes.
    }
  });
  return store;
}

function kept<T>(name: string, first: T, accepts: (value: unknown) => value is T): T {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(name) ?? "null");
    return accepts(value) ? value : first;
  } catch {
    return first;
  }
}

/** Returns the value of a store; the component is drawn again when the value changes. */
export function useStore<T>(store: Store<T>): T {
  const [, draw] = useState({});
  useEffect(() => {
    // The value may have changed between the drawing and this effect.
    draw({});
    return store.subscribe(() => draw({}));
  }, [store]);
  return store.get();
}
