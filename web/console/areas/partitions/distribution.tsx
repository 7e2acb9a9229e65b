/** The RU/s of each physical partition: equal shares, or shares that a person sets. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError, type ApiError } from "../../api/client.ts";
import { Button } from "../../ui/button.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { TextField } from "../../ui/field.tsx";
import { count } from "../../ui/format.ts";
import { distribute, distributeEqually, type ContainerName, type Throughput } from "./api.ts";

export interface DistributionProps {
  readonly name: ContainerName;
  readonly throughput: Throughput;
  readonly isReadOnly: boolean;
  readonly onChanged: () => void;
}

const SHARE_MAX = 10_000;

/** Draws the shares and the form that changes them. */
export function Distribution(props: DistributionProps): JSX.Element | null {
  const { throughput } = props;
  const [isOpen, setOpen] = useState(false);
  const provisioned = throughput.ruPerSecond;
  if (provisioned === undefined || throughput.partitions.length < 2) return null;
  const isShared = throughput.shared === "yes";
  return (
    <section class="parts-section" aria-labelledby="parts-distribution">
      <header>
        <h2 id="parts-distribution">Throughput of each partition</h2>
        <span class="soft">
          {count(provisioned)} RU/s, {throughput.distribution === "equal" ? "equal shares" : "own shares"}
          {throughput.enforced === "on" ? ", enforced" : ", not enforced"}
        </span>
        {!isOpen && !isShared && (
          <Button icon="edit" disabled={props.isReadOnly} onClick={() => setOpen(true)}>
            Change the shares
          </Button>
        )}
      </header>
      {isShared && <p class="soft">The containers of the database share its throughput.</p>}
      {isOpen && <Shares {...props} provisioned={provisioned} onClose={() => setOpen(false)} />}
    </section>
  );
}

function Shares(
  props: DistributionProps & { readonly provisioned: number; readonly onClose: () => void },
): JSX.Element {
  const { throughput, provisioned } = props;
  const first = throughput.partitions.map(({ id, ruPerSecond }) => [id, String(Math.floor(ruPerSecond ?? 0))] as const);
  const [shares, setShares] = useState<ReadonlyMap<string, string>>(new Map(first));
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const numbers = throughput.partitions.map(({ id }) => Number(shares.get(id) ?? "0"));
  const isWhole = numbers.every((share) => Number.isInteger(share) && share >= 1 && share <= SHARE_MAX);
  const sum = numbers.reduce((all, share) => all + share, 0);
  const change = async (work: () => Promise<unknown>): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      await work();
      props.onChanged();
      props.onClose();
    } catch (problem) {
      setError(asApiError(problem));
      setBusy(false);
    }
  };
  const save = (event: Event): void => {
    event.preventDefault();
    if (!isWhole || sum !== provisioned || isBusy) return;
    const wanted = throughput.partitions.map(({ id }, at) => ({ id, ruPerSecond: numbers[at] ?? 0 }));
    void change(() => distribute(props.name, wanted));
  };
  return (
    <form class="parts-shares" onSubmit={save}>
      {throughput.partitions.map(({ id }) => (
        <TextField
          key={id}
          label={`Partition ${id}, RU/s`}
          type="number"
          min={1}
          max={SHARE_MAX}
          value={shares.get(id) ?? ""}
          onInput={(value) => setShares(new Map([...shares, [id, value]]))}
        />
      ))}
      <p class={sum === provisioned && isWhole ? "soft" : "bad"} role="status">
        {sumText(sum, provisioned, isWhole)}
      </p>
      <div class="actions">
        <Button onClick={props.onClose}>Cancel</Button>
        {throughput.distribution === "custom" && (
          <Button disabled={isBusy} onClick={() => void change(() => distributeEqually(props.name))}>
            Equal shares
          </Button>
        )}
        <Button kind="primary" type="submit" busy={isBusy} disabled={!isWhole || sum !== provisioned}>
          Save shares
        </Button>
      </div>
      {error && <ErrorView error={error} />}
    </form>
  );
}

function sumText(sum: number, provisioned: number, isWhole: boolean): string {
  if (!isWhole) return `Each share is a whole number from 1 to ${count(SHARE_MAX)}.`;
  if (sum === provisioned) return `The sum is ${count(sum)} RU/s.`;
  const side = sum < provisioned ? "below" : "above";
  return `The sum is ${count(sum)} RU/s, ${count(Math.abs(provisioned - sum))} ${side} the container's throughput.`;
}
