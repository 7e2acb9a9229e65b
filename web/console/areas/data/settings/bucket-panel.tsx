/** Throughput buckets: limits for groups of requests, as percent of the container's throughput.
 *
 * A request names its bucket by the header `x-ms-cosmos-throughput-bucket`. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asApiError } from "../../../api/client.ts";
import { readThroughput, setThroughputBuckets } from "../../../api/management.ts";
import { Button } from "../../../ui/button.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { TextField } from "../../../ui/field.tsx";
import { useResource } from "../../../ui/resource.ts";
import { Skeleton } from "../../../ui/states.tsx";
import { toast } from "../../../ui/toast.tsx";
import { FormProblem, messageOf } from "../form-problem.tsx";
import { wholeNumber } from "../logic/container-form.ts";
import { useReadOnly } from "../requests.ts";

const BUCKETS = [1, 2, 3, 4, 5];

export interface BucketPanelProps {
  readonly database: string;
  readonly container: string;
}

/** Draws the panel. */
export function BucketPanel({ database, container }: BucketPanelProps): JSX.Element {
  const state = useResource((signal) => readThroughput(database, container, { signal }), [database, container]);
  const [limits, setLimits] = useState<readonly string[]>(BUCKETS.map(() => ""));
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({});
  const [busy, setBusy] = useState(false);
  const readOnly = useReadOnly();
  useEffect(() => {
    const found = state.value?.buckets ?? [];
    setLimits(BUCKETS.map((id) => String(found.find((bucket) => bucket.id === id)?.maxPercent ?? "")));
  }, [state.value]);
  if (state.error) {
    return <ErrorView error={state.error} title="The buckets could not be read." onRetry={state.reload} />;
  }
  if (!state.value) return <Skeleton lines={5} />;

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    const found: Record<string, string> = {};
    const buckets: { id: number; maxPercent: number }[] = [];
    for (const [index, text] of limits.entries()) {
      if (text === "") continue;
      const percent = wholeNumber(text);
      if (percent === null || percent < 1 || percent > 100) {
        found[String(index)] = "The limit is not valid. Write 1 to 100 percent, or nothing.";
      } else {
        buckets.push({ id: index + 1, maxPercent: percent });
      }
    }
    setProblems(found);
    if (Object.keys(found).length > 0 || busy) return;
    setBusy(true);
    try {
      await setThroughputBuckets(database, container, { buckets });
      toast("The buckets were changed.");
      state.reload();
    } catch (refusal) {
      setProblems({ form: messageOf(asApiError(refusal)) });
    }
    setBusy(false);
  };

  return (
    <form class="stack data-form" onSubmit={(event) => void save(event)} noValidate>
      <p class="help">
        Requests name a bucket by the header x-ms-cosmos-throughput-bucket. A bucket may use at most its
        percentage of the throughput of the container. Empty: no limit.
      </p>
      <div class="data-row">
        {BUCKETS.map((id, index) => (
          <TextField
            key={id}
            label={`Bucket ${id}, percent`}
            type="number"
            min={1}
            max={100}
            value={limits[index] ?? ""}
            onInput={(text) => setLimits(limits.with(index, text))}
            error={problems[String(index)]}
            disabled={readOnly}
          />
        ))}
      </div>
      <FormProblem message={problems["form"]} />
      {!readOnly && (
        <div>
          <Button kind="primary" type="submit" busy={busy}>
            Save buckets
          </Button>
        </div>
      )}
    </form>
  );
}
