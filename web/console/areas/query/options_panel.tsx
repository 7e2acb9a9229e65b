/** The scope, the parameters and the bounds of a query. */

import type { JSX } from "preact";
import { settings } from "../../settings.ts";
import { useStore } from "../../store.ts";
import { Button } from "../../ui/button.tsx";
import { RadioField, SelectField, TextField } from "../../ui/field.tsx";
import { count } from "../../ui/format.ts";
import { type TypedBounds, typedBounds } from "./settings.ts";
import { type ParameterText, parsedValue, type QueryTab } from "./workspace.ts";

export interface OptionsProps {
  readonly tab: QueryTab;
  readonly keyPaths: readonly string[];
  readonly onChange: (tab: QueryTab) => void;
}

/** Draws the panel. */
export function OptionsPanel({ tab, keyPaths, onChange }: OptionsProps): JSX.Element {
  return (
    <div class="query-options card">
      <Scope tab={tab} keyPaths={keyPaths} onChange={onChange} />
      <Parameters
        parameters={tab.parameters}
        onChange={(parameters) => onChange({ ...tab, parameters })}
      />
      <Bounds />
    </div>
  );
}

function Scope({ tab, keyPaths, onChange }: OptionsProps): JSX.Element {
  const key = tab.key;
  const setLevel = (level: number, text: string): void => {
    const values = keyPaths.map((_, at) => (at === level ? text : (key?.[at] ?? "")));
    onChange({ ...tab, key: values });
  };
  return (
    <div class="query-scope">
      <RadioField
        label="Scope"
        value={key === null ? "all" : "one"}
        options={[
          ["all", "All partitions"],
          ["one", "One partition key"],
        ]}
        onChange={(scope) => onChange({ ...tab, key: scope === "all" ? null : keyPaths.map(() => "") })}
      />
      {key !== null &&
        keyPaths.map((path, level) => (
          <TextField
            key={path}
            label={`Partition key ${path}`}
            value={key[level] ?? ""}
            onInput={(text) => setLevel(level, text)}
            mono
            {...(level === 0 && { help: "A text, or JSON such as 12, true, null." })}
          />
        ))}
    </div>
  );
}

interface ParametersProps {
  readonly parameters: readonly ParameterText[];
  readonly onChange: (parameters: readonly ParameterText[]) => void;
}

function Parameters({ parameters, onChange }: ParametersProps): JSX.Element {
  const change = (at: number, part: Partial<ParameterText>): void => {
    onChange(parameters.map((known, index) => (index === at ? { ...known, ...part } : known)));
  };
  return (
    <fieldset class="query-parameters">
      <legend>Parameters</legend>
      {parameters.map((parameter, at) => (
        <div class="query-parameter" key={at}>
          <TextField
            label={`Name of parameter ${at + 1}`}
            hideLabel
            value={parameter.name}
            placeholder="@name"
            onInput={(name) => change(at, { name })}
            mono
            error={/^@\w+$/.test(parameter.name) ? null : "A name is @ and letters, digits or _."}
          />
          <TextField
            label={`Value of parameter ${at + 1}`}
            hideLabel
            value={parameter.text}
            placeholder='"text", 12, true, [1]'
            onInput={(text) => change(at, { text })}
            mono
            error={parsedValue(parameter.text).error}
          />
          <Button
            kind="quiet"
            icon="trash"
            label={`Remove parameter ${at + 1}`}
            onClick={() => onChange(parameters.filter((_, index) => index !== at))}
          />
        </div>
      ))}
      <Button
        kind="quiet"
        icon="plus"
        onClick={() => onChange([...parameters, { name: nextName(parameters), text: '""' }])}
      >
        Add a parameter
      </Button>
    </fieldset>
  );
}

function nextName(parameters: readonly ParameterText[]): string {
  let number = parameters.length + 1;
  while (parameters.some(({ name }) => name === `@p${number}`)) number += 1;
  return `@p${number}`;
}

const PRIORITIES = [
  ["", "Default"],
  ["High", "High"],
  ["Low", "Low"],
] as const;

const BUCKETS = [["", "None"], ...["1", "2", "3", "4", "5"].map((id) => [id, id] as const)] as const;

function Bounds(): JSX.Element {
  const typed = useStore(typedBounds);
  const limits = useStore(settings);
  const set = (part: Partial<TypedBounds>): void => typedBounds.set({ ...typed, ...part });
  return (
    <div class="query-bounds">
      <TextField
        label="Items of a page"
        type="number"
        min={1}
        max={1000}
        value={shown(typed.pageSize)}
        placeholder={`${count(limits.pageSize)}, from the settings`}
        onInput={(text) => set({ pageSize: bound(text, 1) })}
      />
      <TextField
        label="RU limit of a run, 0 for none"
        type="number"
        min={0}
        value={shown(typed.ruLimit)}
        placeholder={limits.queryRuLimit > 0 ? `${count(limits.queryRuLimit)}, from the settings` : "no limit"}
        onInput={(text) => set({ ruLimit: bound(text, 0) })}
      />
      <TextField
        label="Timeout of a page in seconds"
        type="number"
        min={0}
        value={shown(typed.timeoutSeconds)}
        placeholder="no limit"
        onInput={(text) => set({ timeoutSeconds: bound(text, 0) })}
      />
      <SelectField
        label="Priority"
        value={typed.priority}
        options={PRIORITIES}
        onChange={(priority) => set({ priority })}
      />
      <SelectField
        label="Throughput bucket"
        value={typed.bucket}
        options={BUCKETS}
        onChange={(bucket) => set({ bucket })}
      />
    </div>
  );
}

function shown(value: number | null): string {
  return value === null ? "" : String(value);
}

/** Returns the number of a text, or null for a text that is none. */
function bound(text: string, least: number): number | null {
  const value = Number(text);
  return text.trim() === "" || !Number.isFinite(value) || value < least ? null : value;
}
