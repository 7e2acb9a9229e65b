/** Settings that a replace may change: time to live, geospatial, conflicts, change feed. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button } from "../../../ui/button.tsx";
import { RadioField, TextField } from "../../../ui/field.tsx";
import { useUnsaved } from "../../../router.ts";
import type { Container } from "../../../api/data.ts";
import { TtlFields, type TtlMode } from "../databases/container-options.tsx";
import { FormProblem } from "../form-problem.tsx";
import { fieldOfRefusal, retentionProblem, ttlProblem } from "../logic/container-form.ts";
import { replaceMembers } from "./replace.ts";
import type { SectionProps } from "./settings-tab.tsx";

interface Values {
  readonly ttl: TtlMode;
  readonly seconds: string;
  readonly geospatial: "Geography" | "Geometry";
  readonly conflictPath: string;
  readonly retention: string;
}

function valuesOf(definition: Container): Values {
  const { defaultTtl } = definition;
  const type = definition.geospatialConfig?.["type"];
  const path = definition.conflictResolutionPolicy?.["conflictResolutionPath"];
  const minutes = definition.changeFeedPolicy?.["retentionDuration"];
  return {
    ttl: defaultTtl === undefined ? "off" : defaultTtl === -1 ? "on" : "seconds",
    seconds: defaultTtl === undefined || defaultTtl === -1 ? "" : String(defaultTtl),
    geospatial: type === "Geometry" ? "Geometry" : "Geography",
    conflictPath: typeof path === "string" ? path : "/_ts",
    retention: typeof minutes === "number" ? String(minutes) : "",
  };
}

function membersOf(values: Values): Record<string, unknown> {
  const { ttl, seconds, retention } = values;
  const conflictResolutionPath = values.conflictPath;
  return {
    defaultTtl: ttl === "off" ? undefined : ttl === "on" ? -1 : Number(seconds),
    geospatialConfig: { type: values.geospatial },
    conflictResolutionPolicy: { mode: "LastWriterWins", conflictResolutionPath },
    changeFeedPolicy: retention === "" ? undefined : { retentionDuration: Number(retention) },
  };
}

/** Draws the section. */
export function GeneralSection({ database, definition, readOnly, onChanged }: SectionProps): JSX.Element {
  const saved = valuesOf(definition);
  const [values, setValues] = useState<Values>(saved);
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({});
  const [busy, setBusy] = useState(false);
  // Seconds that were typed for another mode are no change.
  const isDirty = JSON.stringify(membersOf(values)) !== JSON.stringify(membersOf(saved));
  useUnsaved(isDirty, "section");
  const change = (part: Partial<Values>): void => setValues({ ...values, ...part });

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    const found: Record<string, string> = {};
    const badTtl = values.ttl === "seconds" ? ttlProblem(values.seconds) : null;
    if (badTtl !== null) found["ttl"] = badTtl;
    const badRetention = values.retention === "" ? null : retentionProblem(values.retention);
    if (badRetention !== null) found["retention"] = badRetention;
    setProblems(found);
    if (Object.keys(found).length > 0) return;
    setBusy(true);
    const refusal = await replaceMembers(database, definition, membersOf(values));
    setBusy(false);
    if (refusal === null) onChanged();
    else setProblems({ [fieldOfRefusal(refusal)]: refusal });
  };

  const shownAtFields = ["ttl", "conflict", "retention"];
  const rest = Object.entries(problems).find(([field]) => !shownAtFields.includes(field));
  return (
    <form class="stack data-form" onSubmit={(event) => void save(event)} noValidate>
      <TtlFields
        mode={values.ttl}
        seconds={values.seconds}
        error={problems["ttl"]}
        onChange={(ttl, seconds) => change({ ttl, seconds })}
      />
      <RadioField
        label="Geospatial functions"
        value={values.geospatial}
        options={[
          ["Geography", "Geography: on the round Earth"],
          ["Geometry", "Geometry: in a plane"],
        ]}
        onChange={(geospatial) => change({ geospatial })}
      />
      <TextField
        label="Path that decides between conflicting writes"
        value={values.conflictPath}
        onInput={(conflictPath) => change({ conflictPath })}
        error={problems["conflict"]}
        help="Last writer wins. The path has no effect in an account with one write region, such as this one."
        mono
      />
      <TextField
        label="Minutes for which the change feed keeps all versions"
        type="number"
        min={0}
        value={values.retention}
        onInput={(retention) => change({ retention })}
        error={problems["retention"]}
        help="Empty: the change feed has the latest version of each item only."
      />
      <FormProblem message={rest?.[1]} />
      {!readOnly && (
        <div class="row">
          <Button kind="primary" type="submit" busy={busy} disabled={!isDirty}>
            Save settings
          </Button>
          {isDirty && <Button onClick={() => setValues(saved)}>Discard</Button>}
        </div>
      )}
    </form>
  );
}
