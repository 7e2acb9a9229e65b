/** The prediction tab: proposes other settings of a container, and shows what the recorded requests would
 * cost under them.
 *
 * The address holds partition key, throughput and number of partitions. The server predicts on copies
 * in memory; nothing is written. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import type { ContainerProps } from "../../areas.ts";
import { asApiError, isAborted, type ApiError } from "../../api/client.ts";
import { containers, type Container } from "../../api/data.ts";
import { listKeyCandidates, predict, type Prediction, type PredictionSide } from "../../api/management.ts";
import { joinedPaths, splitPaths } from "../../api/names.ts";
import { adviceFrom } from "../../advice/advice.ts";
import { AdviceList } from "../../advice/advice-list.tsx";
import { CONTAINER_RULES, type ContainerFacts } from "../../advice/container-rules.ts";
import { readFigures } from "../overview/figures.ts";
import { useParameter } from "../../router.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { count, plural } from "../../ui/format.ts";
import { useResource } from "../../ui/resource.ts";
import { Banner, Empty, Skeleton } from "../../ui/states.tsx";
import { Classes } from "./classes.tsx";
import { Figures, PartitionBars } from "./figures.tsx";
import { ProposalForm } from "./form.tsx";
import { requestOf, type Mistake, type ProposalText, type ThroughputKind } from "./proposal.ts";

/** Draws the tab. */
export default function PredictionTab({ database, container }: ContainerProps): JSX.Element {
  const definition = useResource(async (signal) => readDefinition(database, container, signal), [database, container]);
  if (definition.value) return <Loaded database={database} definition={definition.value} />;
  if (definition.error) {
    return <ErrorView error={definition.error} title="The container could not be read." onRetry={definition.reload} />;
  }
  return <Skeleton lines={8} />;
}

async function readDefinition(database: string, container: string, signal: AbortSignal): Promise<Container> {
  return (await containers.read(database, container, { signal })).json() as Container;
}

type State =
  | { readonly kind: "none" }
  | { readonly kind: "running" }
  | { readonly kind: "failed"; readonly error: ApiError }
  | { readonly kind: "done"; readonly answer: Prediction };

function Loaded({ database, definition }: { readonly database: string; readonly definition: Container }): JSX.Element {
  const current = definition.partitionKey.paths;
  const [proposal, change] = useProposal(definition);
  const [mistake, setMistake] = useState<Mistake | null>(null);
  const [state, setState] = useState<State>({ kind: "none" });
  const running = useRef<AbortController | null>(null);
  const found = useResource(
    async (signal) => listKeyCandidates(database, definition.id, { signal }),
    [database, definition.id],
  );
  const figures = useResource(
    async (signal) => readFigures([{ database, container: definition.id }], signal),
    [database, definition.id],
  );
  const run = async (): Promise<void> => {
    const made = requestOf(proposal, current);
    setMistake("field" in made ? made : null);
    if ("field" in made) return;
    const aborter = new AbortController();
    running.current = aborter;
    setState({ kind: "running" });
    try {
      const answer = await predict(database, definition.id, made.request, { signal: aborter.signal });
      setState({ kind: "done", answer });
    } catch (error) {
      setState(isAborted(error) ? { kind: "none" } : { kind: "failed", error: asApiError(error) });
    }
  };
  return (
    <div class="prediction">
      <ProposalForm
        proposal={proposal}
        onChange={change}
        candidates={found.value?.candidates ?? []}
        sampled={found.value?.items ?? 0}
        mistake={mistake}
        isRunning={state.kind === "running"}
        onRun={() => void run()}
        onStop={() => running.current?.abort()}
      />
      <div class="prediction-answer" aria-live="polite">
        {state.kind === "none" && <AdviceList advice={figures.value?.[0]?.advice ?? []} />}
        <Answer state={state} onRetry={() => void run()} />
      </div>
    </div>
  );
}

/** The proposal: what a reload keeps is in the address, the rest in memory. */
function useProposal(definition: Container): [ProposalText, (change: Partial<ProposalText>) => void] {
  const current = joinedPaths(definition.partitionKey.paths);
  const [keys, setKeys] = useParameter("key", current);
  const [throughput, setThroughput] = useParameter("throughput", "keep");
  const [ru, setRu] = useParameter("ru", "4000");
  const [partitions, setPartitions] = useParameter("partitions");
  const [rest, setRest] = useState({
    changesPolicy: false,
    policy: JSON.stringify(definition.indexingPolicy, null, 2),
    query: "",
  });
  const change = ({ keys: levels, throughput: kind, ru: rate, partitions: number, ...more }: Partial<ProposalText>): void => {
    if (levels !== undefined) setKeys(joinedPaths(levels));
    if (kind !== undefined) setThroughput(kind);
    if (rate !== undefined) setRu(rate);
    if (number !== undefined) setPartitions(number);
    if (Object.keys(more).length > 0) setRest((before) => ({ ...before, ...more }));
  };
  const proposal = { keys: splitPaths(keys), throughput: throughput as ThroughputKind, ru, partitions, ...rest };
  return [proposal, change];
}

function Answer({ state, onRetry }: { readonly state: State; readonly onRetry: () => void }): JSX.Element {
  switch (state.kind) {
    case "none":
      return (
        <Empty title="What would the recorded requests cost?" icon="bolt">
          Change a setting and predict. The server copies the items into memory, once with the settings as they are and
          once as proposed, and repeats the recorded requests on both. Nothing is written.
        </Empty>
      );
    case "running":
      return (
        <>
          <p class="soft">Copying items and repeating requests; at most half a minute.</p>
          <Skeleton lines={8} />
        </>
      );
    case "failed":
      return <ErrorView error={state.error} title="There is no prediction." onRetry={onRetry} />;
    case "done":
      return <Done answer={state.answer} />;
  }
}

function Done({ answer }: { readonly answer: Prediction }): JSX.Element {
  const { current, proposed, classes, words, sample } = answer;
  const [first, ...rest] = words;
  const hasRequests = classes.length > 0;
  const advice = adviceFrom(CONTAINER_RULES, factsOf(proposed));
  return (
    <>
      <section class="card stack" aria-labelledby="prediction-words">
        <h2 id="prediction-words">{first}</h2>
        {rest.length > 0 && (
          <ul class="prediction-words">
            {rest.map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        )}
        <p class="help">
          Measured on {sample.complete ? "all" : count(sample.items)} {sample.complete ? "" : "of "}
          {plural(sample.containerItems, "item")}.
        </p>
      </section>
      {proposed.conflicts + proposed.refused > 0 && (
        <Banner kind="warn">
          {plural(proposed.conflicts + proposed.refused, "copied item")} cannot be stored under the proposed settings.
        </Banner>
      )}
      {advice.length > 0 && (
        <section class="stack" aria-label="Advice for the proposed settings">
          <AdviceList advice={advice.map((one) => ({ ...one, ways: [], database: "", container: "" }))} />
        </section>
      )}
      <section class="card" aria-label="Figures">
        <div class="prediction-scroll" role="region" aria-label="Figures of both settings" tabIndex={0}>
          <Figures current={current} proposed={proposed} />
        </div>
      </section>
      {hasRequests && (
        <>
          <section class="card stack" aria-labelledby="prediction-partitions">
            <h3 id="prediction-partitions">Request units at each physical partition</h3>
            <PartitionBars current={current} proposed={proposed} />
          </section>
          <section class="card stack" aria-labelledby="prediction-classes">
            <h3 id="prediction-classes">Charge of a request</h3>
            <Classes classes={classes} />
          </section>
        </>
      )}
    </>
  );
}

/** Returns the proposed settings as the rules of containers see them. */
function factsOf(side: PredictionSide): ContainerFacts {
  const { throughput, ruShares, partitionBytes, largestKeys, keyLimitBytes, throttledShare = 0, partitionKey } = side;
  const budget = throughput === undefined ? null : throughput / ruShares.length;
  // The rates of the requests are not known here, so no partition is judged as hot.
  const partitions = partitionBytes.map((bytes, at) => ({
    id: String(at),
    bytes,
    indexBytes: 0,
    ruPerSecond: budget,
    busyRu: 0,
    requests: Math.round((1 - throttledShare) * 10_000),
    throttled: Math.round(throttledShare * 10_000),
    largestKeys: at === 0 ? largestKeys : [],
  }));
  return {
    keyPaths: partitionKey,
    partitions,
    physicalPartitionBytesMax: Infinity,
    logicalPartitionBytesMax: keyLimitBytes,
    hotKey: null,
    forms: [],
  };
}
