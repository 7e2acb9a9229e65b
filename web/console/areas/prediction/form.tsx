/** The form of a prediction: another partition key, throughput, number of partitions, indexing policy, and
 * a query that has not run yet. */

import type { JSX } from "preact";
import { useId } from "preact/hooks";
import type { KeyCandidate } from "../../api/management.ts";
import { Button } from "../../ui/button.tsx";
import { Editor } from "../../ui/editor.tsx";
import { CheckField, Field, SelectField, TextField } from "../../ui/field.tsx";
import { percent, plural } from "../../ui/format.ts";
import { LEVELS, type Mistake, type ProposalText, type ThroughputKind } from "./proposal.ts";

export interface FormProps {
  readonly proposal: ProposalText;
  readonly onChange: (change: Partial<ProposalText>) => void;
  readonly candidates: readonly KeyCandidate[];
  /** The items from which the candidates come. */
  readonly sampled: number;
  readonly mistake: Mistake | null;
  readonly isRunning: boolean;
  readonly onRun: () => void;
  readonly onStop: () => void;
}

const THROUGHPUTS: readonly (readonly [ThroughputKind, string])[] = [
  ["keep", "As it is"],
  ["manual", "Manual"],
  ["autoscale", "Autoscale"],
];
/** Candidates that are listed; further ones can be typed. */
const LISTED = 6;

/** Draws the form. */
export function ProposalForm(props: FormProps): JSX.Element {
  const { proposal, onChange, mistake, isRunning } = props;
  const errorOf = (field: Mistake["field"]): string | undefined =>
    mistake?.field === field ? mistake.message : undefined;
  const run = (event: SubmitEvent): void => {
    event.preventDefault();
    if (!isRunning) props.onRun();
  };
  return (
    <form class="card prediction-form" noValidate onSubmit={run} aria-label="Proposed settings">
      <KeyFields {...props} error={errorOf("key")} />
      <div class="prediction-pair">
        <SelectField
          label="Throughput"
          value={proposal.throughput}
          options={THROUGHPUTS}
          onChange={(throughput) => onChange({ throughput })}
        />
        {proposal.throughput !== "keep" && (
          <TextField
            label={proposal.throughput === "manual" ? "RU/s" : "Maximum RU/s"}
            type="number"
            min={proposal.throughput === "manual" ? 400 : 1_000}
            step={proposal.throughput === "manual" ? 100 : 1_000}
            value={proposal.ru}
            error={errorOf("ru")}
            onInput={(ru) => onChange({ ru })}
          />
        )}
        <TextField
          label="Physical partitions"
          type="number"
          min={1}
          max={100}
          placeholder="automatic"
          value={proposal.partitions}
          error={errorOf("partitions")}
          onInput={(partitions) => onChange({ partitions })}
        />
      </div>
      <CheckField
        label="Another indexing policy"
        checked={proposal.changesPolicy}
        onChange={(changesPolicy) => onChange({ changesPolicy })}
      />
      {proposal.changesPolicy && (
        <>
          <Editor
            label="Proposed indexing policy"
            language="json"
            size="small"
            value={proposal.policy}
            onChange={(policy) => onChange({ policy })}
          />
          {errorOf("policy") && (
            <p class="field-error" role="alert">
              {errorOf("policy")}
            </p>
          )}
        </>
      )}
      <Field label="A query that has not run yet" help="Counted once, beside the recorded requests.">
        {(control) => (
          <textarea
            {...control}
            class="mono prediction-query"
            rows={2}
            spellcheck={false}
            placeholder="SELECT * FROM c WHERE c.status = 'open'"
            value={proposal.query}
            onInput={(event) => onChange({ query: event.currentTarget.value })}
          />
        )}
      </Field>
      <div class="actions">
        {isRunning && (
          <Button icon="stop" onClick={props.onStop}>
            Stop waiting
          </Button>
        )}
        <Button kind="primary" icon="play" type="submit" busy={isRunning}>
          Predict
        </Button>
      </div>
    </form>
  );
}

/** The levels of the key as fields, and the candidates as buttons that fill them. */
function KeyFields(props: FormProps & { readonly error: string | undefined }): JSX.Element {
  const { proposal, onChange, candidates, error } = props;
  const list = useId();
  const { keys } = proposal;
  const set = (level: number, text: string): void =>
    onChange({ keys: keys.map((key, at) => (at === level ? text : key)) });
  const drop = (level: number): void => onChange({ keys: keys.filter((_, at) => at !== level) });
  return (
    <fieldset class="prediction-keys">
      <legend>Partition key</legend>
      <datalist id={list}>
        {candidates.map(({ path }) => (
          <option key={path} value={path} />
        ))}
      </datalist>
      {keys.map((key, level) => (
        <div class="prediction-level" key={level}>
          <Field
            label={keys.length > 1 ? `Level ${level + 1}` : "Path"}
            hideLabel={keys.length === 1}
            error={level === 0 ? error : undefined}
          >
            {(control) => (
              <input
                {...control}
                class="mono"
                list={list}
                spellcheck={false}
                autocomplete="off"
                value={key}
                onInput={(event) => set(level, event.currentTarget.value)}
              />
            )}
          </Field>
          {level > 0 && (
            <Button kind="quiet" icon="close" label={`Remove level ${level + 1}`} onClick={() => drop(level)} />
          )}
        </div>
      ))}
      {keys.length < LEVELS && (
        <div>
          <Button kind="quiet" icon="plus" onClick={() => onChange({ keys: [...keys, ""] })}>
            Add a level
          </Button>
        </div>
      )}
      <Candidates {...props} onUse={(path) => set(keys.length - 1, path)} />
    </fieldset>
  );
}

function Candidates(props: FormProps & { readonly onUse: (path: string) => void }): JSX.Element | null {
  const { candidates, sampled, onUse } = props;
  if (candidates.length === 0) return null;
  return (
    <div class="prediction-candidates">
      <p class="help">
        Paths in {plural(sampled, "item")}, with the number of values and the share of the most frequent one
      </p>
      <ul>
        {candidates.slice(0, LISTED).map(({ path, values, largest, present }) => (
          <li key={path}>
            <button type="button" class="quiet prediction-candidate" onClick={() => onUse(path)}>
              <code>{path}</code>
              <span class="soft">
                {plural(values, "value")}, {percent(largest)}
                {present < 1 ? `, in ${percent(present)} of the items` : ""}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
