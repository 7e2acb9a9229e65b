/** The tab "Queries" of a container: its query forms by total charge. */

import type { JSX } from "preact";
import type { ContainerProps } from "../../areas.ts";
import { href } from "../../router.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { usePoll, useResource } from "../../ui/resource.ts";
import { Empty, Skeleton } from "../../ui/states.tsx";
import { FormsView } from "./forms-view.tsx";
import { formsOf } from "./read.ts";

const POLL_MS = 5_000;

/** Draws the tab. */
export default function QueriesTab({ database, container }: ContainerProps): JSX.Element {
  const found = useResource((signal) => formsOf(database, container, { signal, poll: true }), [database, container]);
  usePoll(found, POLL_MS);
  if (found.error && !found.value) {
    return <ErrorView error={found.error} title="The queries could not be read." onRetry={found.reload} />;
  }
  if (!found.value) return <Skeleton lines={8} />;
  if (found.value.length === 0) {
    const workbench = href(["data", database, container, "query"]);
    return (
      <Empty
        title="No query has been run"
        icon="search"
        actions={
          <a class="button primary" href={workbench}>
            Write a query
          </a>
        }
      >
        Queries of this container are listed here by their text without values, with charges, times and
        partitions, since the start of the server.
      </Empty>
    );
  }
  return <FormsView forms={found.value} hasContainers={false} />;
}
