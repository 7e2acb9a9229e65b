/** The options of a new container below its name, key and throughput, each group folded. */

import type { ComponentChildren, JSX } from "preact";
import { Button } from "../../../ui/button.tsx";
import { CheckField, RadioField, SelectField, TextField } from "../../../ui/field.tsx";
import { FormProblem } from "../form-problem.tsx";
import {
  DATA_TYPES,
  DISTANCE_FUNCTIONS,
  LANGUAGES,
  VECTOR_INDEXES,
  type ComputedRow,
  type TextRow,
  type VectorRow,
} from "../logic/container-form.ts";
import { PolicyEditor } from "../settings/policy-editor.tsx";
import type { FormPart } from "./new-container.tsx";

/** Draws the groups. */
export function MoreOptions(part: FormPart): JSX.Element {
  const { form, change, problem } = part;
  return (
    <div class="data-folds">
      <Fold title="Unique keys" problems={[problem("unique"), ...indexed(part, "unique", form.uniqueKeys)]}>
        <p class="help">
          No two items of one partition key may have the same values at these paths. Unique keys cannot be
          changed later.
        </p>
        <UniqueKeys {...part} />
      </Fold>
      <Fold title="Indexing" problems={[problem("policy")]}>
        <RadioField
          label="Indexing policy"
          value={form.indexing}
          options={[
            ["default", "All properties are indexed"],
            ["none", "No index: items are read by id only"],
            ["policy", "A policy of your own"],
          ]}
          onChange={(indexing) => change({ indexing })}
        />
        {form.indexing === "policy" && (
          <PolicyEditor
            value={form.policyText}
            onChange={(policyText) => change({ policyText })}
            error={problem("policy")}
          />
        )}
        {form.indexing !== "policy" && <FormProblem message={problem("policy")} />}
      </Fold>
      <Fold title="Time to live" problems={[problem("ttl")]}>
        <TtlFields
          mode={form.ttl}
          seconds={form.ttlSeconds}
          error={problem("ttl")}
          onChange={(ttl, ttlSeconds) => change({ ttl, ttlSeconds })}
        />
      </Fold>
      <Fold title="Vectors" problems={[problem("vectors"), ...indexed(part, "vectors", form.vectors)]}>
        <VectorRows
          rows={form.vectors}
          onChange={(vectors) => change({ vectors })}
          problem={(index) => problem(`vectors/${index}`)}
        />
        <FormProblem message={problem("vectors")} />
      </Fold>
      <Fold title="Full text" problems={[problem("texts"), ...indexed(part, "texts", form.texts)]}>
        <TextRows
          rows={form.texts}
          defaultLanguage={form.defaultLanguage}
          onChange={(texts, defaultLanguage) => change({ texts, defaultLanguage })}
          problem={(index) => problem(`texts/${index}`)}
        />
        <FormProblem message={problem("texts")} />
      </Fold>
      <Fold title="Computed properties" problems={[problem("computed"), ...indexed(part, "computed", form.computed)]}>
        <ComputedRows
          rows={form.computed}
          onChange={(computed) => change({ computed })}
          problem={(index) => problem(`computed/${index}`)}
        />
        <FormProblem message={problem("computed")} />
      </Fold>
      <Fold title="Geospatial, conflicts, change feed" problems={[problem("conflict"), problem("retention")]}>
        <OtherFields {...part} />
      </Fold>
    </div>
  );
}

function indexed(part: FormPart, field: string, rows: readonly unknown[]): (string | undefined)[] {
  return rows.map((_, index) => part.problem(`${field}/${index}`));
}

/** Draws a group that opens on a click, and by itself if a field in it has a problem. */
function Fold(props: {
  readonly title: string;
  readonly problems: readonly (string | undefined)[];
  readonly children: ComponentChildren;
}): JSX.Element {
  const hasProblem = props.problems.some((found) => found !== undefined);
  return (
    <details class="data-fold" open={hasProblem || undefined}>
      <summary>{props.title}</summary>
      <div class="stack">{props.children}</div>
    </details>
  );
}

function UniqueKeys({ form, change, problem }: FormPart): JSX.Element {
  const { uniqueKeys } = form;
  return (
    <>
      {uniqueKeys.map((line, index) => (
        <div key={index} class="data-line">
          <TextField
            label={`Unique key ${index + 1}`}
            value={line}
            placeholder="/email, /address/zip"
            onInput={(text) => change({ uniqueKeys: uniqueKeys.with(index, text) })}
            error={problem(`unique/${index}`) ?? (index === 0 ? problem("unique") : undefined)}
            mono
          />
          <Button
            kind="quiet"
            icon="trash"
            label={`Remove unique key ${index + 1}`}
            onClick={() => change({ uniqueKeys: uniqueKeys.toSpliced(index, 1) })}
          />
        </div>
      ))}
      <div>
        <Button kind="quiet" icon="plus" onClick={() => change({ uniqueKeys: [...uniqueKeys, ""] })}>
          Add a unique key
        </Button>
      </div>
    </>
  );
}

export type TtlMode = "off" | "on" | "seconds";

/** Draws the choice of the time to live. */
export function TtlFields(props: {
  readonly mode: TtlMode;
  readonly seconds: string;
  readonly error?: string | undefined;
  readonly onChange: (mode: TtlMode, seconds: string) => void;
}): JSX.Element {
  return (
    <>
      <RadioField
        label="Time to live"
        value={props.mode}
        options={[
          ["off", "Off: items stay until they are deleted"],
          ["on", "On, no default: an item expires if it has a ttl of its own"],
          ["seconds", "On, with a default for items without a ttl"],
        ]}
        onChange={(mode) => props.onChange(mode, props.seconds)}
      />
      {props.mode === "seconds" && (
        <TextField
          label="Seconds after the last write"
          type="number"
          min={1}
          value={props.seconds}
          onInput={(seconds) => props.onChange(props.mode, seconds)}
          error={props.error}
        />
      )}
      {props.mode !== "seconds" && <FormProblem message={props.error} />}
    </>
  );
}

function options(words: readonly string[]): readonly (readonly [string, string])[] {
  return words.map((word) => [word, word] as const);
}

/** Draws the rows of the vector policy. */
export function VectorRows(props: {
  readonly rows: VectorRow[];
  readonly onChange: (rows: VectorRow[]) => void;
  readonly problem: (index: number) => string | undefined;
  /** Without indexes: these are in the indexing policy. */
  readonly hideIndex?: boolean | undefined;
}): JSX.Element {
  const { rows, onChange } = props;
  const set = (index: number, row: VectorRow): void => onChange(rows.with(index, row));
  const add = (): void => {
    const row = { path: "", dataType: "float32", dimensions: "256", distanceFunction: "cosine", index: "flat" };
    onChange([...rows, row]);
  };
  return (
    <>
      {rows.map((row, index) => (
        <fieldset key={index} class="data-row">
          <legend class="visually-hidden">Vector {index + 1}</legend>
          <TextField
            label="Path"
            value={row.path}
            placeholder="/vector"
            onInput={(path) => set(index, { ...row, path })}
            error={props.problem(index)}
            mono
          />
          <SelectField
            label="Type"
            value={row.dataType}
            options={options(DATA_TYPES)}
            onChange={(dataType) => set(index, { ...row, dataType })}
          />
          <TextField
            label="Dimensions"
            type="number"
            value={row.dimensions}
            onInput={(dimensions) => set(index, { ...row, dimensions })}
          />
          <SelectField
            label="Distance"
            value={row.distanceFunction}
            options={options(DISTANCE_FUNCTIONS)}
            onChange={(distanceFunction) => set(index, { ...row, distanceFunction })}
          />
          {!props.hideIndex && (
            <SelectField
              label="Index"
              value={row.index}
              options={options(VECTOR_INDEXES)}
              onChange={(kind) => set(index, { ...row, index: kind })}
            />
          )}
          <Button
            kind="quiet"
            icon="trash"
            label={`Remove vector ${index + 1}`}
            onClick={() => onChange(rows.toSpliced(index, 1))}
          />
        </fieldset>
      ))}
      <div>
        <Button kind="quiet" icon="plus" onClick={add}>
          Add a vector path
        </Button>
      </div>
    </>
  );
}

/** Draws the rows of the full-text policy. */
export function TextRows(props: {
  readonly rows: TextRow[];
  readonly defaultLanguage: string;
  readonly onChange: (rows: TextRow[], defaultLanguage: string) => void;
  readonly problem: (index: number) => string | undefined;
  readonly hideIndex?: boolean | undefined;
}): JSX.Element {
  const { rows, defaultLanguage, onChange } = props;
  const set = (index: number, row: TextRow): void => onChange(rows.with(index, row), defaultLanguage);
  return (
    <>
      {rows.length > 0 && (
        <SelectField
          label="Default language"
          value={defaultLanguage}
          options={options(LANGUAGES)}
          onChange={(language) => onChange(rows, language)}
        />
      )}
      {rows.map((row, index) => (
        <fieldset key={index} class="data-row">
          <legend class="visually-hidden">Text {index + 1}</legend>
          <TextField
            label="Path"
            value={row.path}
            placeholder="/text"
            onInput={(path) => set(index, { ...row, path })}
            error={props.problem(index)}
            mono
          />
          <SelectField
            label="Language"
            value={row.language}
            options={options(LANGUAGES)}
            onChange={(language) => set(index, { ...row, language })}
          />
          {!props.hideIndex && (
            <CheckField
              label="Index"
              checked={row.hasIndex}
              onChange={(hasIndex) => set(index, { ...row, hasIndex })}
            />
          )}
          <Button
            kind="quiet"
            icon="trash"
            label={`Remove text ${index + 1}`}
            onClick={() => onChange(rows.toSpliced(index, 1), defaultLanguage)}
          />
        </fieldset>
      ))}
      <div>
        <Button
          kind="quiet"
          icon="plus"
          onClick={() => onChange([...rows, { path: "", language: defaultLanguage, hasIndex: true }], defaultLanguage)}
        >
          Add a text path
        </Button>
      </div>
    </>
  );
}

/** Draws the rows of computed properties. */
export function ComputedRows(props: {
  readonly rows: ComputedRow[];
  readonly onChange: (rows: ComputedRow[]) => void;
  readonly problem: (index: number) => string | undefined;
}): JSX.Element {
  const { rows, onChange } = props;
  const set = (index: number, row: ComputedRow): void => onChange(rows.with(index, row));
  return (
    <>
      {rows.map((row, index) => (
        <fieldset key={index} class="data-row">
          <legend class="visually-hidden">Computed property {index + 1}</legend>
          <TextField label="Name" value={row.name} onInput={(name) => set(index, { ...row, name })} mono />
          <TextField
            label="Query"
            class="data-wide"
            value={row.query}
            placeholder="SELECT VALUE LOWER(c.name) FROM c"
            onInput={(query) => set(index, { ...row, query })}
            error={props.problem(index)}
            mono
          />
          <Button
            kind="quiet"
            icon="trash"
            label={`Remove computed property ${index + 1}`}
            onClick={() => onChange(rows.toSpliced(index, 1))}
          />
        </fieldset>
      ))}
      <div>
        <Button kind="quiet" icon="plus" onClick={() => onChange([...rows, { name: "", query: "" }])}>
          Add a computed property
        </Button>
      </div>
    </>
  );
}

function OtherFields({ form, change, problem }: FormPart): JSX.Element {
  return (
    <>
      <RadioField
        label="Geospatial functions"
        value={form.geospatial}
        options={[
          ["Geography", "Geography: on the round Earth"],
          ["Geometry", "Geometry: in a plane"],
        ]}
        onChange={(geospatial) => change({ geospatial })}
      />
      <TextField
        label="Path that decides between conflicting writes"
        value={form.conflictPath}
        onInput={(conflictPath) => change({ conflictPath })}
        error={problem("conflict")}
        help="Last writer wins. The path has no effect in an account with one write region, such as this one."
        mono
      />
      <TextField
        label="Minutes for which the change feed keeps all versions"
        type="number"
        min={0}
        value={form.retentionMinutes}
        onInput={(retentionMinutes) => change({ retentionMinutes })}
        error={problem("retention")}
        help="Empty: the change feed has the latest version of each item only."
      />
    </>
  );
}
