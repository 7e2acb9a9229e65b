/** The throughput of a container or database: read, replace, change between manual and autoscale.
 *
 * Leaves out: throughput buckets (`bucket-panel.tsx`). */

import type { JSX } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { asApiError } from "../../../api/client.ts";
import { Button } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { TextField } from "../../../ui/field.tsx";
import { count } from "../../../ui/format.ts";
import { usePoll, useResource } from "../../../ui/resource.ts";
import { Badge, Skeleton } from "../../../ui/states.tsx";
import { toast } from "../../../ui/toast.tsx";
import { CostEstimate } from "../databases/throughput-fields.tsx";
import { messageOf } from "../form-problem.tsx";
import { ruProblem } from "../logic/container-form.ts";
import { migrateOffer, readOffer, replaceThroughput, useReadOnly, type OfferState } from "../requests.ts";

export interface ThroughputPanelProps {
  readonly offerId: string;
  readonly onChanged?: (() => void) | undefined;
}

const POLL_MS = 2_000;

/** Draws the panel. */
export function ThroughputPanel({ offerId, onChanged }: ThroughputPanelProps): JSX.Element {
  const state = useResource((signal) => readOffer(offerId, signal), [offerId]);
  usePoll(state, POLL_MS, state.value?.isPending ?? false);
  if (!state.value && state.error) {
    return <ErrorView error={state.error} title="The throughput could not be read." onRetry={state.reload} />;
  }
  if (!state.value) return <Skeleton lines={4} />;
  const changed = (): void => {
    state.reload();
    onChanged?.();
  };
  return <OfferForm state={state.value} onChanged={changed} />;
}

function OfferForm(props: { readonly state: OfferState; readonly onChanged: () => void }): JSX.Element {
  const { offer, minimum, isPending } = props.state;
  const autoscale = offer.content.offerAutopilotSettings;
  const mode = autoscale ? "autoscale" : "manual";
  const current = String(autoscale ? autoscale.maxThroughput : (offer.content.offerThroughput ?? 0));
  const [ru, setRu] = useState(current);
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [isMigrating, setMigrating] = useState(false);
  const readOnly = useReadOnly();
  // Before the next paint, so that the effect never replaces what a person types.
  useLayoutEffect(() => setRu(current), [current]);
  const other = mode === "manual" ? "autoscale" : "manual";

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    const found = ruProblem(mode, ru, minimum ?? undefined);
    setProblem(found);
    if (found !== null || busy) return;
    setBusy(true);
    try {
      await replaceThroughput(offer, Number(ru));
      toast("The throughput was changed.");
      props.onChanged();
    } catch (refusal) {
      setProblem(messageOf(asApiError(refusal)));
    }
    setBusy(false);
  };
  const migrate = async (): Promise<void> => {
    await migrateOffer(offer, other);
    toast(`The throughput is ${other} now.`);
    props.onChanged();
  };

  return (
    <form class="stack data-form" onSubmit={(event) => void save(event)} noValidate>
      <p>
        {mode === "manual"
          ? "Manual: the same RU/s at all times."
          : `Autoscale: from ${count(Number(current) / 10)} RU/s to the maximum, by load.`}{" "}
        {isPending && <Badge kind="warn">partitions are being split for the new throughput</Badge>}
      </p>
      <div class="data-pair">
        <TextField
          label={mode === "manual" ? "RU/s" : "Maximum RU/s"}
          type="number"
          value={ru}
          onInput={setRu}
          min={minimum ?? undefined}
          step={mode === "manual" ? 100 : 1_000}
          disabled={readOnly}
          error={problem}
          help={minimum === null ? undefined : `The minimum is ${count(minimum)} RU/s at present.`}
        />
        <CostEstimate mode={mode} ru={ru} />
      </div>
      {!readOnly && (
        <div class="row">
          <Button kind="primary" type="submit" busy={busy} disabled={ru === current}>
            Save throughput
          </Button>
          <Button onClick={() => setMigrating(true)}>
            {other === "autoscale" ? "Change to autoscale" : "Change to manual"}
          </Button>
        </div>
      )}
      {isMigrating && (
        <ConfirmDialog
          title={other === "autoscale" ? "Change to autoscale" : "Change to manual throughput"}
          action={other === "autoscale" ? "Change to autoscale" : "Change to manual"}
          onConfirm={migrate}
          onClose={() => setMigrating(false)}
        >
          <p>The server chooses the first figure from the present one. You can change the figure afterwards.</p>
        </ConfirmDialog>
      )}
    </form>
  );
}
