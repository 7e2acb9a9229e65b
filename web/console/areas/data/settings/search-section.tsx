/** Vector and full-text policies of a container, below the state of their indexes. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Container, Json, JsonObject } from "../../../api/data.ts";
import { href, useUnsaved } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { TextRows, VectorRows } from "../databases/container-options.tsx";
import { FormProblem } from "../form-problem.tsx";
import {
  fieldOfRefusal,
  textPolicyOf,
  vectorPolicyOf,
  type TextRow,
  type VectorRow,
} from "../logic/container-form.ts";
import { replaceMembers } from "./replace.ts";
import { SearchIndexes } from "./search-indexes.tsx";
import type { SectionProps } from "./settings-tab.tsx";

interface Values {
  readonly vectors: VectorRow[];
  readonly texts: TextRow[];
  readonly language: string;
}

function entries(policy: JsonObject | undefined, name: string): readonly JsonObject[] {
  const list: Json | undefined = policy?.[name];
  return Array.isArray(list) ? (list as readonly JsonObject[]) : [];
}

function valuesOf(definition: Container): Values {
  const { vectorEmbeddingPolicy, fullTextPolicy } = definition;
  const language = String(fullTextPolicy?.["defaultLanguage"] ?? "en-US");
  const vectors = entries(vectorEmbeddingPolicy, "vectorEmbeddings").map((entry) => ({
    path: String(entry["path"]),
    dataType: String(entry["dataType"]),
    dimensions: String(entry["dimensions"]),
    distanceFunction: String(entry["distanceFunction"]),
    index: "none",
  }));
  const texts = entries(fullTextPolicy, "fullTextPaths").map((entry) => ({
    path: String(entry["path"]),
    language: String(entry["language"] ?? language),
    hasIndex: false,
  }));
  return { vectors, texts, language };
}

/** Returns both policies; a policy without rows is removed. */
function policiesOf(values: Values): Record<string, unknown> {
  return {
    vectorEmbeddingPolicy: undefined,
    fullTextPolicy: undefined,
    ...vectorPolicyOf(values.vectors),
    ...textPolicyOf(values.texts, values.language),
  };
}

/** Draws the section. */
export function SearchSection({ database, definition, readOnly, onChanged }: SectionProps): JSX.Element {
  const saved = valuesOf(definition);
  const [values, setValues] = useState<Values>(saved);
  const [problem, setProblem] = useState<{ field: string; message: string } | null>(null);
  const [busy, setBusy] = useState(false);
  const isDirty = JSON.stringify(policiesOf(values)) !== JSON.stringify(policiesOf(saved));
  useUnsaved(isDirty, "section");

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    const refusal = await replaceMembers(database, definition, policiesOf(values));
    setBusy(false);
    setProblem(refusal === null ? null : { field: fieldOfRefusal(refusal), message: refusal });
    if (refusal === null) onChanged();
  };

  const messageFor = (field: string): string | undefined =>
    problem?.field === field ? problem.message : undefined;
  const isElsewhere = problem !== null && problem.field !== "vectors" && problem.field !== "texts";
  return (
    <div class="stack">
      <SearchIndexes database={database} container={definition.id} />
      <form class="stack" onSubmit={(event) => void save(event)} noValidate>
        <h2>Vectors</h2>
        <p class="help">Properties with vectors, for VECTORDISTANCE. The description of a path cannot be changed.</p>
        <VectorRows
          rows={values.vectors}
          onChange={(vectors) => setValues({ ...values, vectors })}
          problem={() => undefined}
          hideIndex
        />
        <FormProblem message={messageFor("vectors")} />
        <h2>Full text</h2>
        <p class="help">Properties with texts and their languages, for FULLTEXTCONTAINS and FULLTEXTSCORE.</p>
        <TextRows
          rows={values.texts}
          defaultLanguage={values.language}
          onChange={(texts, language) => setValues({ ...values, texts, language })}
          problem={() => undefined}
          hideIndex
        />
        <FormProblem message={messageFor("texts")} />
        <p class="help">
          Indexes on these paths are in the{" "}
          <a href={href(["data", database, definition.id, "settings"], { section: "indexing" })}>indexing policy</a>.
        </p>
        <FormProblem message={isElsewhere ? problem.message : undefined} />
        {!readOnly && (
          <div class="row">
            <Button kind="primary" type="submit" busy={busy} disabled={!isDirty}>
              Save policies
            </Button>
            {isDirty && <Button onClick={() => setValues(saved)}>Discard</Button>}
          </div>
        )}
      </form>
    </div>
  );
}
