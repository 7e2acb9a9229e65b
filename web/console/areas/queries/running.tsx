/** The queries that run now, with a button that cancels each. Queries of this console are left out: their
 * pages have a button of their own. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError, session } from "../../api/client.ts";
import { cancelQuery, listRunningQueries } from "../../api/management.ts";
import { useStore } from "../../store.ts";
import { Button } from "../../ui/button.tsx";
import { duration } from "../../ui/format.ts";
import { usePoll, useResource } from "../../ui/resource.ts";
import { toast } from "../../ui/toast.tsx";

const POLL_MS = 1_000;

/** Draws the queries; nothing while none runs. */
export function Running(): JSX.Element | null {
  const found = useResource(async (signal) => listRunningQueries({ signal, poll: true }), []);
  usePoll(found, POLL_MS);
  const [gone, setGone] = useState<ReadonlySet<number>>(new Set());
  const isReadOnly = useStore(session)?.readOnly ?? false;
  const queries = (found.value?.queries ?? []).filter((query) => !query.fromConsole && !gone.has(query.number));
  if (queries.length === 0) return null;
  const cancel = async (number: number): Promise<void> => {
    try {
      await cancelQuery(String(number));
      toast("The query was cancelled.");
    } catch (error) {
      const { status, message } = asApiError(error);
      if (status === 404) toast("The query has ended.");
      else return toast(message, "bad");
    }
    setGone((before) => new Set(before).add(number));
    found.reload();
  };
  return (
    <section class="stack" aria-labelledby="queries-running">
      <h2 id="queries-running">Running now</h2>
      <ul class="advice">
        {queries.map((query) => (
          <li key={query.number} class="card">
            <div>
              <p class="mono">{query.form ?? "a query"}</p>
              <p class="soft">
                {query.db} / {query.coll}, for {duration(query.ms)}, from {query.client} {query.userAgent}
              </p>
            </div>
            <Button
              icon="close"
              disabled={isReadOnly}
              label={`Cancel the query of ${query.client}`}
              onClick={() => void cancel(query.number)}
            >
              Cancel
            </Button>
          </li>
        ))}
      </ul>
    </section>
  );
}
