/** The page of the tutorial: one button that prepares the database, and the way through the console.
 * `docs/tutorial.md` has the same steps with pictures. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, asApiError, session } from "../../../api/client.ts";
import { containers } from "../../../api/data.ts";
import { href } from "../../../router.ts";
import { useStore } from "../../../store.ts";
import { Button } from "../../../ui/button.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { percent } from "../../../ui/format.ts";
import { useResource } from "../../../ui/resource.ts";
import { Banner } from "../../../ui/states.tsx";
import { reloadList, ROOT } from "../../data/tree/tree-store.ts";
import { loadTutorial, TUTORIAL_CONTAINER, TUTORIAL_DATABASE } from "./sample.ts";

/** Draws the page. */
export default function TutorialPage(): JSX.Element {
  const known = useResource(async () => isLoaded(), []);
  const [share, setShare] = useState<number | null>(null);
  const [isDone, setDone] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const isReadOnly = useStore(session)?.readOnly ?? false;
  const load = async (): Promise<void> => {
    setError(null);
    setShare(0);
    try {
      await loadTutorial(setShare);
      setDone(true);
      reloadList(ROOT);
    } catch (problem) {
      setError(asApiError(problem));
    }
    setShare(null);
  };
  return (
    <>
      <div class="page-head">
        <h1>Tutorial</h1>
      </div>
      <p>Find the most expensive query of an application and make the query ten times cheaper.</p>
      <ol class="query-tutorial">
        <li class="card">
          <h2>Load the database</h2>
          <p>
            6,000 parcels of 60 customers in two physical partitions, and 42 queries as an application
            would run them. A database <code>{TUTORIAL_DATABASE}</code> is created.
          </p>
          <div class="actions">
            <Button
              kind="primary"
              busy={share !== null}
              disabled={isReadOnly}
              title={isReadOnly ? "The console is read-only." : undefined}
              onClick={() => void load()}
            >
              {share === null ? "Load the database" : `Loading, ${percent(share)}`}
            </Button>
          </div>
          {share !== null && <progress class="query-progress" max={1} value={share} aria-label="Progress" />}
          {isDone && <Banner kind="good">The database is loaded.</Banner>}
          {!isDone && known.value && share === null && <Banner>The database is there already.</Banner>}
          {error && <ErrorView error={error} title="The database could not be loaded." />}
        </li>
        <li class="card">
          <h2>Find the most expensive query</h2>
          <p>
            The page lists query forms by their total charge. Open the first form, then open it in the
            workbench.
          </p>
          <div class="actions">
            <a class="button" href={href(["queries"])}>
              Open the queries
            </a>
          </div>
        </li>
        <li class="card">
          <h2>Read why</h2>
          <p>Run the query. The plan shows the physical partitions, and the reasons of the charge in words.</p>
        </li>
        <li class="card">
          <h2>Measure, apply, run again</h2>
          <p>
            The tab Index advice shows the index that is missing. Measure its effect on a copy, apply the
            change, and run the query again.
          </p>
        </li>
      </ol>
    </>
  );
}

async function isLoaded(): Promise<boolean> {
  try {
    await containers.definition(TUTORIAL_DATABASE, TUTORIAL_CONTAINER);
    return true;
  } catch (error) {
    if (asApiError(error).status === 404) return false;
    throw error;
  }
}
