/** The filter of the items tab: a SQL predicate, with suggestions from the partition key and from
 * the filters that were used before. */

import type { JSX } from "preact";
import { useLayoutEffect, useId, useState } from "preact/hooks";
import { queryErrors, type ApiError } from "../../../api/client.ts";
import { createKeptStore, useStore } from "../../../store.ts";
import { Button } from "../../../ui/button.tsx";
import type { KeyDefinition } from "../logic/partition-key.ts";
import { defaultFilters, rememberFilter } from "../logic/predicates.ts";

type Histories = Readonly<Record<string, readonly string[]>>;

function areHistories(value: unknown): value is Histories {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const histories = createKeptStore<Histories>("items.filters", {}, areHistories);

export interface FilterBarProps {
  /** The container, as the key of its history. */
  readonly place: string;
  readonly definition: KeyDefinition;
  readonly applied: string;
  readonly onApply: (filter: string) => void;
  readonly onReload: () => void;
}

/** Draws the field and its buttons. */
export function FilterBar(props: FilterBarProps): JSX.Element {
  const { place, definition, applied, onApply } = props;
  const [text, setText] = useState(applied);
  const list = useId();
  const history = useStore(histories)[place] ?? [];
  useLayoutEffect(() => setText(applied), [applied]);
  const apply = (filter: string): void => {
    histories.update((all) => ({ ...all, [place]: rememberFilter([...(all[place] ?? [])], filter) }));
    if (filter === applied) props.onReload();
    else onApply(filter);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    apply(text);
  };
  const suggestions = [...new Set([...history, ...defaultFilters(definition)])];
  return (
    <form class="data-filter" role="search" onSubmit={submit}>
      <label class="mono" for={`${list}-filter`}>
        SELECT * FROM c WHERE
      </label>
      <input
        id={`${list}-filter`}
        class="mono"
        list={list}
        value={text}
        placeholder={'c.name = "…"'}
        aria-label="Filter as a SQL predicate"
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <datalist id={list}>
        {suggestions.map((filter) => (
          <option key={filter} value={filter} />
        ))}
      </datalist>
      <Button type="submit" icon="search">
        Apply filter
      </Button>
      {applied !== "" && (
        <Button kind="quiet" icon="close" label="Remove the filter" onClick={() => apply("")} />
      )}
      <Button kind="quiet" icon="reload" label="Load the items again" onClick={props.onReload} />
    </form>
  );
}

/** Draws the part of a filter that the server names in an error. */
export function FilterProblem(props: {
  readonly error: ApiError;
  readonly query: string;
  readonly filter: string;
}): JSX.Element | null {
  const [first] = queryErrors(props.error);
  if (!first?.location || props.filter === "") return null;
  const offset = props.query.indexOf(props.filter.trim());
  const start = Math.max(0, first.location.start - offset);
  const end = Math.max(start, first.location.end - offset);
  if (offset < 0 || start >= props.filter.length) return null;
  return (
    <p class="mono data-filter-problem">
      {props.filter.slice(0, start)}
      <mark>{props.filter.slice(start, end)}</mark>
      {props.filter.slice(end)}
    </p>
  );
}
