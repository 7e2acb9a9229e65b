/** Loading for views: the value, the error, and loading again, also when the server came back.
 *
 * Promises: an answer that arrives after a newer request, or after the view closed, is dropped. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { asApiError, isAborted, recoveries, type ApiError } from "../api/client.ts";
import { useStore } from "../store.ts";

export interface Resource<T> {
  /** The newest value; kept while it is read again, and after an error. */
  readonly value: T | undefined;
  readonly error: ApiError | null;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

/** Loads now and whenever `inputs` change. `load` gets a signal that aborts its requests. */
export function useResource<T>(
  load: (signal: AbortSignal) => Promise<T>,
  inputs: readonly unknown[],
): Resource<T> {
  const [round, setRound] = useState(0);
  const recovered = useStore(recoveries);
  const [state, setState] = useState<Omit<Resource<T>, "reload">>({
    value: undefined,
    error: null,
    isLoading: true,
  });
  const key = JSON.stringify(inputs);
  const shownKey = useRef(key);
  useEffect(() => {
    const aborter = new AbortController();
    const isSame = shownKey.current === key;
    shownKey.current = key;
    setState((before) => ({ value: isSame ? before.value : undefined, error: null, isLoading: true }));
    load(aborter.signal).then(
      (value) => {
        if (!aborter.signal.aborted) setState({ value, error: null, isLoading: false });
      },
      (error: unknown) => {
        if (aborter.signal.aborted || isAborted(error)) return;
        setState((before) => ({ ...before, error: asApiError(error), isLoading: false }));
      },
    );
    return () => aborter.abort();
  }, [key, round, recovered]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  // Until the effect has run, the state belongs to the inputs before.
  const current = shownKey.current === key ? state : { value: undefined, error: null, isLoading: true };
  return { ...current, reload };
}

/** Reads again every `ms` while the page is visible; never while the answer before is on its way. */
export function usePoll(resource: Pick<Resource<unknown>, "reload" | "isLoading">, ms: number, active = true): void {
  const newest = useRef(resource);
  newest.current = resource;
  useEffect(() => {
    if (!active) return undefined;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible" && !newest.current.isLoading) newest.current.reload();
    }, ms);
    return () => clearInterval(timer);
  }, [ms, active]);
}
