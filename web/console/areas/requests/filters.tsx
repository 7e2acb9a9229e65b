/** The filters of the log; the address holds them. */

import type { JSX } from "preact";
import { currentAddress, href, navigate, useAddress } from "../../router.ts";
import { Button } from "../../ui/button.tsx";
import { CheckField, SelectField, TextField } from "../../ui/field.tsx";
import { intervalText } from "../partitions/axis.ts";
import type { RecordedRequest } from "./log.ts";

export interface FilterValues {
  readonly db: string;
  readonly coll: string;
  readonly operation: string;
  readonly partition: string;
  readonly status: string;
  readonly minRu: string;
  readonly minMs: string;
  readonly from: number | null;
  readonly to: number | null;
  /** Every request is recorded while the page follows. */
  readonly all: boolean;
  /** Shows requests of the console itself. */
  readonly console: boolean;
}

export interface FilterState {
  readonly values: FilterValues;
  readonly key: string;
  readonly isActive: boolean;
  readonly set: (changed: Readonly<Record<string, string>>) => void;
}

const NAMES = ["db", "coll", "operation", "partition", "status", "minRu", "minMs", "from", "to", "console"];

const STATUSES = [
  ["", "any"],
  ["2", "2xx"],
  ["4", "4xx"],
  ["5", "5xx"],
  ["400", "400"],
  ["404", "404"],
  ["409", "409"],
  ["410", "410"],
  ["412", "412"],
  ["429", "429"],
  ["503", "503"],
] as const;

/** Reads the filters from the address. */
export function useFilters(): FilterState {
  const { query } = useAddress();
  const text = (name: string): string => query.get(name) ?? "";
  const seconds = (name: string): number | null => {
    const value = Number(text(name));
    return text(name) === "" || !Number.isFinite(value) ? null : value;
  };
  const values: FilterValues = {
    db: text("db"),
    coll: text("coll"),
    operation: text("operation"),
    partition: text("partition"),
    status: text("status"),
    minRu: text("minRu"),
    minMs: text("minMs"),
    from: seconds("from"),
    to: seconds("to"),
    all: text("all") === "yes",
    console: text("console") === "yes",
  };
  const set = (changed: Readonly<Record<string, string>>): void => {
    const now = currentAddress();
    navigate(href(now.segments, { ...Object.fromEntries(now.query), request: "", ...changed }), true);
  };
  const isActive = NAMES.some((name) => text(name) !== "");
  return { values, key: JSON.stringify(values), isActive, set };
}

/** Returns the part of the filters that the server applies, as a query string. */
export function queryOf(values: FilterValues, limit: number): string {
  const query = new URLSearchParams({ limit: String(limit) });
  if (values.db !== "") query.set("db", values.db);
  if (values.coll !== "") query.set("coll", values.coll);
  if (/^\d+$/.test(values.status)) query.set("status", values.status);
  if (/^\d+$/.test(values.minRu)) query.set("minRu", values.minRu);
  if (/^\d+$/.test(values.minMs)) query.set("minMs", values.minMs);
  if (values.all) query.set("all", "true");
  return query.toString();
}

/** Draws the fields. */
export function Filters(props: FilterState & { readonly requests: readonly RecordedRequest[] }): JSX.Element {
  const { values, set } = props;
  const time = values.from !== null && values.to !== null ? { from: values.from, to: values.to } : null;
  return (
    <div class="reqs-filters">
      <TextField label="Database" value={values.db} onInput={(db) => set({ db })} type="search" />
      <TextField label="Container" value={values.coll} onInput={(coll) => set({ coll })} type="search" />
      <SelectField
        label="Operation"
        value={values.operation}
        onChange={(operation) => set({ operation })}
        options={operations(props.requests, values.operation)}
      />
      <SelectField label="Status" value={values.status} onChange={(status) => set({ status })} options={STATUSES} />
      <TextField label="From RU" type="number" min={0} value={values.minRu} onInput={(minRu) => set({ minRu })} />
      <TextField label="From ms" type="number" min={0} value={values.minMs} onInput={(minMs) => set({ minMs })} />
      <CheckField
        label="Every request"
        checked={values.all}
        onChange={(checked) => set({ all: checked ? "yes" : "" })}
      />
      <CheckField
        label="The console's own"
        checked={values.console}
        onChange={(checked) => set({ console: checked ? "yes" : "" })}
      />
      {(time !== null || values.partition !== "") && (
        <span class="reqs-chip">
          {time === null ? "" : intervalText(time)}
          {values.partition === "" ? "" : ` partition ${values.partition}`}
          <Button
            kind="quiet"
            icon="close"
            label="Remove the time and partition"
            onClick={() => set({ from: "", to: "", partition: "" })}
          />
        </span>
      )}
      {props.isActive && (
        <Button kind="quiet" onClick={() => set(Object.fromEntries(NAMES.map((name) => [name, ""])))}>
          Remove all filters
        </Button>
      )}
    </div>
  );
}

function operations(requests: readonly RecordedRequest[], chosen: string): [string, string][] {
  const names = new Set(requests.map((request) => request.operation));
  if (chosen !== "") names.add(chosen);
  const options: [string, string][] = [["", "any"]];
  for (const name of [...names].sort()) options.push([name, name]);
  return options;
}
