/** The consumers of the change feed: their leases and how far each is behind.
 *
 * A person names the container with the leases; the address keeps it. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { manage } from "../../api/client.ts";
import { containerPath } from "../../api/data.ts";
import type { ContainerProps } from "../../areas.ts";
import { useParameter } from "../../router.ts";
import { Button } from "../../ui/button.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { TextField } from "../../ui/field.tsx";
import { ago, count, plural } from "../../ui/format.ts";
import { usePoll, useResource } from "../../ui/resource.ts";
import { Badge, Empty, Skeleton } from "../../ui/states.tsx";

interface Lease {
  readonly id: string;
  readonly group: string;
  readonly owner?: string;
  readonly range: string;
  readonly partitions: readonly string[];
  readonly state: "current" | "split" | "finished" | "unknown";
  readonly continuation?: number;
  readonly lsn?: number;
  readonly lag?: number;
  readonly lastRenewal: number;
}

interface FeedConsumers {
  readonly leases: readonly Lease[];
  readonly foreign: readonly { readonly id: string; readonly reason: string }[];
  readonly complete: boolean;
}

const POLL_MS = 3_000;

/** Draws the section. */
export function Consumers(props: ContainerProps): JSX.Element {
  const [leases, setLeases] = useParameter("leases");
  const [typed, setTyped] = useState(leases);
  const isPath = /^[^/]+\/[^/]+$/.test(typed);
  const show = (event: Event): void => {
    event.preventDefault();
    if (typed === "" || isPath) setLeases(typed);
  };
  return (
    <section class="feed-consumers" aria-labelledby="feed-consumers">
      <h2 id="feed-consumers">Consumers</h2>
      <form class="feed-controls" onSubmit={show}>
        <TextField
          label="Container with the leases"
          value={typed}
          onInput={setTyped}
          placeholder="database/container"
          error={typed === "" || isPath ? null : "Write the database, a slash and the container."}
          mono
        />
        <Button type="submit" disabled={typed !== "" && !isPath}>
          Show the consumers
        </Button>
      </form>
      {leases === "" ? (
        <p class="soft">
          A change feed processor keeps a lease for each range in a container of its own. Name it to see how
          far each consumer is behind.
        </p>
      ) : (
        <Leases {...props} leases={leases} />
      )}
    </section>
  );
}

function Leases(props: ContainerProps & { readonly leases: string }): JSX.Element {
  const { database, container, leases } = props;
  const found = useResource(
    async (signal) => {
      const path = `${containerPath(database, container, "feed-consumers")}?leases=${encodeURIComponent(leases)}`;
      return (await manage(path, { signal, poll: true })).json() as FeedConsumers;
    },
    [database, container, leases],
  );
  usePoll(found, POLL_MS, found.error === null);
  if (found.error && !found.value) {
    return <ErrorView error={found.error} title="The leases could not be read." onRetry={found.reload} />;
  }
  if (!found.value) return <Skeleton lines={4} />;
  if (found.value.leases.length === 0) {
    return (
      <Empty title="No lease belongs to this container" icon="data">
        {plural(found.value.foreign.length, "item")} of {leases} are no leases of it.
      </Empty>
    );
  }
  return <LeaseTable {...found.value} />;
}

function LeaseTable({ leases, foreign, complete }: FeedConsumers): JSX.Element {
  let lagMax = 1;
  for (const lease of leases) lagMax = Math.max(lagMax, lease.lag ?? 0);
  return (
    <>
      <div class="parts-table-wrap" tabIndex={0} role="region" aria-label="Leases">
        <table class="parts-table">
          <thead>
            <tr>
              <th scope="col">Consumer</th>
              <th scope="col">Range</th>
              <th scope="col">Owner</th>
              <th scope="col">State</th>
              <th scope="col" class="number">
                LSN
              </th>
              <th scope="col">Behind</th>
              <th scope="col">Last renewal</th>
            </tr>
          </thead>
          <tbody>
            {leases.map((lease) => (
              <LeaseRow key={lease.id} lease={lease} lagMax={lagMax} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="soft">
        An LSN counts commits, so “behind” is an estimate.
        {foreign.length > 0 && ` ${plural(foreign.length, "item")} of the container are no leases of this feed.`}
        {!complete && " Only the first 10,000 items were read."}
      </p>
    </>
  );
}

function LeaseRow({ lease, lagMax }: { readonly lease: Lease; readonly lagMax: number }): JSX.Element {
  const kind = lease.state === "current" ? "good" : lease.state === "unknown" ? "warn" : "info";
  const renewed = new Date(lease.lastRenewal * 1_000);
  return (
    <tr>
      <th scope="row" data-label="Consumer">
        {lease.group}
      </th>
      <td data-label="Range">
        <code>{lease.range}</code>
      </td>
      <td data-label="Owner">{lease.owner ?? "free"}</td>
      <td data-label="State">
        <Badge kind={kind}>{lease.state}</Badge>
      </td>
      <td data-label="LSN" class="number">
        {lease.continuation === undefined ? "–" : count(lease.continuation)}
        {lease.lsn === undefined ? "" : ` of ${count(lease.lsn)}`}
      </td>
      <td data-label="Behind">
        <span class="feed-lag">
          <span class="feed-lag-bar" aria-hidden="true">
            <span style={{ width: `${((lease.lag ?? 0) / lagMax) * 100}%` }} />
          </span>
          {lease.lag === undefined ? "–" : plural(lease.lag, "change")}
        </span>
      </td>
      <td data-label="Last renewal" title={renewed.toLocaleString()}>
        {ago(renewed)}
      </td>
    </tr>
  );
}
