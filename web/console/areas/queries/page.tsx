/** The query forms of all containers by total charge. */

import type { JSX } from "preact";
import { ErrorView } from "../../ui/error-view.tsx";
import { count } from "../../ui/format.ts";
import { usePoll, useResource } from "../../ui/resource.ts";
import { Empty, Skeleton } from "../../ui/states.tsx";
import { FormsView } from "./forms-view.tsx";
import { Running } from "./running.tsx";
import { formsOfAll, type AllForms } from "./read.ts";

const POLL_MS = 10_000;

/** Draws the page. */
export default function QueriesPage(): JSX.Element {
  const found = useResource((signal) => formsOfAll({ signal, poll: true }), []);
  usePoll(found, POLL_MS);
  return (
    <>
      <div class="page-head">
        <h1>Queries</h1>
      </div>
      <Running />
      {found.error && !found.value && (
        <ErrorView error={found.error} title="The queries could not be read." onRetry={found.reload} />
      )}
      {!found.value && found.isLoading && <Skeleton lines={8} />}
      {found.value && <All {...found.value} />}
    </>
  );
}

function All({ forms, read, total }: AllForms): JSX.Element {
  if (forms.length === 0) {
    return (
      <Empty title="No query has been run" icon="search">
        Queries of all containers are listed here by their text without values, with charges, times and
        partitions, since the start of the server.
      </Empty>
    );
  }
  return (
    <>
      {read < total && (
        <p class="soft">
          The queries of {count(read)} of {count(total)} containers are shown. The tab of a container has the others.
        </p>
      )}
      <FormsView forms={forms} hasContainers />
    </>
  );
}
