/** Dialogs before a split or merge: the ranges that come out of it, the effect on clients, the way it
 * runs. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError, type ApiError } from "../../api/client.ts";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { CheckField, RadioField, TextField } from "../../ui/field.tsx";
import { bytes, count } from "../../ui/format.ts";
import { merge, split, type ContainerName, type Operation, type Partition } from "./api.ts";
import { contains, middleOf, rangeText, shortEpk, type EpkRange, type Hashing } from "./epk.ts";

type Border = "median" | "middle" | "epk";

export interface SplitDialogProps {
  readonly name: ContainerName;
  readonly partition: Partition;
  readonly partitionCount: number;
  readonly provisioned: number | null;
  readonly hashing: Hashing;
  readonly onBegun: (operation: Operation) => void;
  readonly onClose: () => void;
}

/** Asks where to split a partition, and starts the split. */
export function SplitDialog(props: SplitDialogProps): JSX.Element {
  const { partition } = props;
  const range = { min: partition.minInclusive, max: partition.maxExclusive };
  const [border, setBorder] = useState<Border>("median");
  const [epk, setEpk] = useState("");
  const [isStepwise, setStepwise] = useState(false);
  const digits = epk.trim().toUpperCase();
  const problem = border === "epk" ? epkProblem(digits, range) : null;
  const run = async (): Promise<void> => {
    const at = border === "epk" ? digits : border;
    props.onBegun(await split(props.name, partition.id, at, isStepwise));
  };
  return (
    <Dialog title={`Split partition ${partition.id}`} onClose={props.onClose}>
      <StartForm action="Split partition" isBlocked={problem !== null} onRun={run} onClose={props.onClose}>
        <RadioField<Border>
          label="Border"
          value={border}
          onChange={setBorder}
          options={[
            ["median", "Median of the items: two partitions with about the same number of items"],
            ["middle", "Middle of the hash range"],
            ["epk", "A point of the hash space"],
          ]}
        />
        {border === "epk" && (
          <TextField
            label="Point, in hexadecimal digits"
            value={epk}
            onInput={setEpk}
            error={epk === "" ? null : problem}
            help={`Between ${shortEpk(range.min)} and ${shortEpk(range.max)}.`}
            mono
          />
        )}
        <Plan lines={splitPlan(props, range, border, digits, problem)} />
        <StepwiseField isStepwise={isStepwise} onChange={setStepwise} />
      </StartForm>
    </Dialog>
  );
}

export interface MergeDialogProps {
  readonly name: ContainerName;
  readonly partitions: readonly Partition[];
  readonly partitionCount: number;
  readonly provisioned: number | null;
  readonly onBegun: (operation: Operation) => void;
  readonly onClose: () => void;
}

/** Shows what a merge does, and starts the merge. */
export function MergeDialog(props: MergeDialogProps): JSX.Element {
  const { partitions } = props;
  const [isStepwise, setStepwise] = useState(false);
  const ids = partitions.map((partition) => partition.id);
  const run = async (): Promise<void> => {
    props.onBegun(await merge(props.name, ids, isStepwise));
  };
  return (
    <Dialog title={`Merge partitions ${ids.join(" and ")}`} onClose={props.onClose}>
      <StartForm action="Merge partitions" isBlocked={false} onRun={run} onClose={props.onClose}>
        <Plan lines={mergePlan(props)} />
        <StepwiseField isStepwise={isStepwise} onChange={setStepwise} />
      </StartForm>
    </Dialog>
  );
}

function StartForm(props: {
  readonly action: string;
  readonly isBlocked: boolean;
  readonly onRun: () => Promise<void>;
  readonly onClose: () => void;
  readonly children: JSX.Element | (JSX.Element | false)[];
}): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (isBusy || props.isBlocked) return;
    setBusy(true);
    setError(null);
    try {
      await props.onRun();
      props.onClose();
    } catch (problem) {
      setError(asApiError(problem));
      setBusy(false);
    }
  };
  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      {props.children}
      {error && <ErrorView error={error} />}
      <footer class="actions">
        <Button onClick={props.onClose}>Cancel</Button>
        <Button kind="primary" type="submit" busy={isBusy} disabled={props.isBlocked}>
          {props.action}
        </Button>
      </footer>
    </form>
  );
}

function Plan({ lines }: { readonly lines: readonly string[] }): JSX.Element {
  return (
    <div class="parts-plan">
      <h3>The plan</h3>
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
        <li>Clients read and write during the copy.</li>
        <li>
          At the change, requests wait for some milliseconds. Requests that name an old partition are
          answered with 410/1002; the SDKs read the list of partitions again and repeat them.
        </li>
      </ul>
    </div>
  );
}

function StepwiseField(props: {
  readonly isStepwise: boolean;
  readonly onChange: (isStepwise: boolean) => void;
}): JSX.Element {
  return (
    <CheckField
      label="Run step by step"
      checked={props.isStepwise}
      onChange={props.onChange}
      help="Each step waits for you, so that you can test a program in each state. Between close and switch, requests to the old partition are answered with 410/1007."
    />
  );
}

function epkProblem(digits: string, range: EpkRange): string | null {
  if (!/^([0-9A-F]{2})+$/.test(digits)) return "Use an even number of hexadecimal digits.";
  if (!contains(range, digits) || digits === range.min) {
    return `Use a point inside of ${rangeText(range)}.`;
  }
  return null;
}

function splitPlan(
  props: SplitDialogProps,
  range: EpkRange,
  border: Border,
  digits: string,
  problem: string | null,
): string[] {
  const { partition } = props;
  const lines: string[] = [];
  const point = border === "middle" ? middleOf(range, props.hashing) : digits;
  if (border !== "median" && point && problem === null) {
    const left = rangeText({ min: range.min, max: point });
    const right = rangeText({ min: point, max: range.max });
    lines.push(`Partition ${partition.id} (${rangeText(range)}) becomes ${left} and ${right}.`);
  } else {
    lines.push(`Partition ${partition.id} (${rangeText(range)}) becomes two partitions with new ids.`);
  }
  const size = bytes(partition.bytes + partition.indexBytes);
  lines.push(`${count(partition.items)} items are copied, ${size} with the index.`);
  if (props.provisioned !== null) {
    lines.push(sharesText(props.provisioned, props.partitionCount, props.partitionCount + 1));
  }
  return lines;
}

function mergePlan(props: MergeDialogProps): string[] {
  const { partitions } = props;
  const [first] = partitions;
  const last = partitions.at(-1);
  let items = 0;
  let size = 0;
  for (const partition of partitions) {
    items += partition.items;
    size += partition.bytes + partition.indexBytes;
  }
  const range = rangeText({ min: first?.minInclusive ?? "", max: last?.maxExclusive ?? "FF" });
  const lines = [
    `One partition with a new id takes the range ${range}.`,
    `${count(items)} items are copied, ${bytes(size)} with the index.`,
  ];
  const after = props.partitionCount - partitions.length + 1;
  if (props.provisioned !== null) lines.push(sharesText(props.provisioned, props.partitionCount, after));
  return lines;
}

function sharesText(provisioned: number, before: number, after: number): string {
  const old = count(Math.floor(provisioned / before));
  return `With equal shares, a partition has ${count(Math.floor(provisioned / after))} RU/s instead of ${old}.`;
}
