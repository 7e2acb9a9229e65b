/** Index advice: the indexes that a query used and could use, the change of the policy, its effect
 * measured before it is applied, and the way back. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, asApiError, isAborted, session } from "../../api/client.ts";
import type { Container } from "../../api/data.ts";
import { useStore } from "../../store.ts";
import { Button } from "../../ui/button.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { CheckField } from "../../ui/field.tsx";
import { bytes, count, plural, ru } from "../../ui/format.ts";
import { Badge, Banner, Empty } from "../../ui/states.tsx";
import { toast } from "../../ui/toast.tsx";
import { type IndexingPolicy, indexName, jsonDiff, mergedUses, withContext, withIndexes } from "./advice.ts";
import type { IndexUse } from "./answers.ts";
import { applyPolicy, indexProgress, measure, type MeasuredSide, type Measurement } from "./measure.ts";
import type { RunState } from "./run.ts";

const PROGRESS_MS = 500;

export interface AdviceProps {
  readonly run: RunState;
  readonly database: string;
  readonly definition: Container;
  readonly onDefinition: (definition: Container) => void;
  readonly onRunAgain: () => void;
}

/** Draws the advice for a run. */
export function AdviceView(props: AdviceProps): JSX.Element {
  const uses = mergedUses(props.run.pages.map((page) => page.indexes));
  const potential = uses.filter((use) => !use.isUsed);
  const used = uses.filter((use) => use.isUsed);
  return (
    <div class="query-advice">
      <section class="card">
        <h3>Indexes that would help</h3>
        {potential.length === 0 ? (
          <Empty title="No index is missing." icon="check">
            The server knows no index that would serve this query better.
          </Empty>
        ) : (
          <Potential {...props} potential={potential} />
        )}
      </section>
      <section class="card">
        <h3>Indexes in use</h3>
        {used.length === 0 ? (
          <p class="soft">The query used no index.</p>
        ) : (
          <ul class="query-indexes">
            {used.map((use) => (
              <li key={indexName(use)}>
                <IndexLabel use={use} />
              </li>
            ))}
          </ul>
        )}
      </section>
      <Undo {...props} />
    </div>
  );
}

function IndexLabel({ use }: { readonly use: IndexUse }): JSX.Element {
  return (
    <>
      <code>{indexName(use)}</code> {use.isComposite && <Badge>composite</Badge>}{" "}
      <Badge kind={use.impact === "High" ? "good" : "info"}>
        {use.impact === "High" ? "High impact" : "Low impact"}
      </Badge>
    </>
  );
}

function Potential(props: AdviceProps & { readonly potential: readonly IndexUse[] }): JSX.Element {
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const chosen = props.potential.filter((use) => !left.has(indexName(use)));
  const before = props.definition.indexingPolicy as IndexingPolicy;
  const policy = withIndexes(before, chosen);
  const toggle = (name: string): void => {
    const next = new Set(left);
    if (!next.delete(name)) next.add(name);
    setLeft(next);
  };
  return (
    <>
      {props.potential.map((use) => (
        <CheckField
          key={indexName(use)}
          label={<IndexLabel use={use} />}
          checked={!left.has(indexName(use))}
          onChange={() => toggle(indexName(use))}
        />
      ))}
      {chosen.length > 0 && (
        <>
          <Diff before={before} after={policy} />
          <MeasureAndApply key={JSON.stringify(policy)} {...props} policy={policy} />
        </>
      )}
    </>
  );
}

function Diff({ before, after }: { readonly before: unknown; readonly after: unknown }): JSX.Element {
  const signs = { added: "+", gap: " ", removed: "−", same: " " };
  const lines = withContext(jsonDiff(before, after), 3);
  return (
    <pre class="query-diff" role="region" tabIndex={0} aria-label="Change of the indexing policy">
      {lines.map((line, at) => (
        <span key={at} class={`query-diff-line ${line.kind}`}>
          {`${signs[line.kind]} ${line.text}\n`}
        </span>
      ))}
    </pre>
  );
}

function MeasureAndApply(props: AdviceProps & { readonly policy: IndexingPolicy }): JSX.Element {
  const [measurement, setMeasurement] = useState<Measurement | null>(null);
  const [busy, setBusy] = useState<"apply" | "measure" | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const isReadOnly = useStore(session)?.readOnly ?? false;
  const aborter = useRef<AbortController | null>(null);
  useEffect(() => () => aborter.current?.abort(), []);

  const attempt = async (kind: "apply" | "measure", work: () => Promise<void>): Promise<void> => {
    setBusy(kind);
    setError(null);
    try {
      await work();
    } catch (problem) {
      if (!isAborted(problem)) setError(asApiError(problem));
    }
    setBusy(null);
  };
  const runMeasure = async (): Promise<void> => {
    aborter.current = new AbortController();
    const { request, pages } = props.run;
    setMeasurement(await measure(request, pages.length, props.policy, aborter.current.signal));
  };
  const apply = async (): Promise<void> => {
    const before = props.definition.indexingPolicy as IndexingPolicy;
    const definition = await applyPolicy(props.database, props.definition, props.policy);
    keepUndo(props.database, props.definition.id, before);
    props.onDefinition(definition);
    toast("The indexing policy was replaced.");
  };
  return (
    <>
      <div class="actions">
        <Button
          kind={measurement ? "plain" : "primary"}
          icon="bolt"
          busy={busy === "measure"}
          onClick={() => void attempt("measure", runMeasure)}
        >
          Measure before applying
        </Button>
        <Button
          kind={measurement ? "primary" : "plain"}
          busy={busy === "apply"}
          disabled={isReadOnly}
          title={isReadOnly ? "The console is read-only." : undefined}
          onClick={() => void attempt("apply", apply)}
        >
          Apply to the container
        </Button>
      </div>
      {error && <ErrorView error={error} onRetry={() => setError(null)} />}
      {measurement && <Comparison measurement={measurement} />}
    </>
  );
}

function Comparison({ measurement }: { readonly measurement: Measurement }): JSX.Element {
  const { now, proposed, sample } = measurement;
  const most = Math.max(now.ru, proposed.ru, 0.01);
  const factor = proposed.ru > 0 ? now.ru / proposed.ru : 1;
  return (
    <div class="query-comparison" role="status">
      <p class="query-factor">{factorWords(factor)}</p>
      <SideBar label="Now" side={now} most={most} />
      <SideBar label="Proposed" side={proposed} most={most} />
      <p class="soft">
        Measured on a copy of {plural(sample.items, "item")}
        {sample.complete ? ", all items of the container" : ` of ${count(sample.containerItems)}`}. The
        container was not charged. The index grows by {bytes(Math.max(0, proposed.indexBytes - now.indexBytes))}
        , and writes cost more for each path of an index.
      </p>
    </div>
  );
}

function factorWords(factor: number): string {
  if (factor >= 1.05) return `${factor.toFixed(factor < 10 ? 1 : 0)} times cheaper with the index`;
  if (factor <= 0.95) return `${(1 / factor).toFixed(1)} times more expensive with the index`;
  return "The index changes nothing for this query";
}

interface SideBarProps {
  readonly label: string;
  readonly side: MeasuredSide;
  readonly most: number;
}

function SideBar({ label, side, most }: SideBarProps): JSX.Element {
  if (side.error) {
    return (
      <p>
        <strong>{label}</strong>: the query is refused. {side.error}
      </p>
    );
  }
  return (
    <div class="query-bar query-side" data-side={label} data-ru={side.ru}>
      <span class="query-bar-label">{label}</span>
      <span class="query-bar-track">
        <span class="query-bar-fill ru" style={{ width: `${Math.max(1, Math.round((side.ru / most) * 100))}%` }} />
      </span>
      <span class="query-bar-value">
        <strong>{ru(side.ru)}</strong>, {plural(side.retrieved, "item")} loaded, {plural(side.rows, "row")}
      </span>
    </div>
  );
}

const undone = new Map<string, IndexingPolicy>();

function keepUndo(database: string, container: string, policy: IndexingPolicy): void {
  undone.set(JSON.stringify([database, container]), policy);
}

/** Draws the progress of the index after a change, and the button that restores the policy before. */
function Undo(props: AdviceProps): JSX.Element | null {
  const key = JSON.stringify([props.database, props.definition.id]);
  const before = undone.get(key);
  const [progress, setProgress] = useState<number | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const etag = props.definition._etag;
  useEffect(() => {
    if (!before) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isGone = false;
    const poll = async (): Promise<void> => {
      const found = await indexProgress(props.database, props.definition.id).catch(() => null);
      if (isGone) return;
      setProgress(found);
      if (found !== 100) timer = setTimeout(() => void poll(), PROGRESS_MS);
    };
    void poll();
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [key, etag]);
  if (!before) return null;
  const undo = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const definition = await applyPolicy(props.database, props.definition, before);
      undone.delete(key);
      props.onDefinition(definition);
      toast("The indexing policy is the one before.");
    } catch (problem) {
      setError(asApiError(problem));
    }
    setBusy(false);
  };
  const isReady = progress === 100;
  return (
    <section class="card query-applied" aria-label="Applied index">
      <Banner kind={isReady ? "good" : "info"}>
        {isReady ? "The index is complete. Run the query again." : "The index is being built."}
      </Banner>
      {!isReady && (
        <progress class="query-progress" max={100} value={progress ?? 0} aria-label="Progress of the index" />
      )}
      <div class="actions">
        <Button kind="primary" icon="play" disabled={!isReady} onClick={props.onRunAgain}>
          Run again
        </Button>
        <Button busy={busy} onClick={() => void undo()}>
          Undo the change
        </Button>
      </div>
      {error && <ErrorView error={error} />}
    </section>
  );
}
