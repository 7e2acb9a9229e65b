/** The overview of an account without a database: create one, or load the sample. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { asApiError, session, type ApiError } from "../../api/client.ts";
import { href, navigate } from "../../router.ts";
import { useStore } from "../../store.ts";
import { Button } from "../../ui/button.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { percent } from "../../ui/format.ts";
import { Empty } from "../../ui/states.tsx";
import { loadSample } from "./sample.ts";

/** Draws the empty state. */
export function NoData({ onChange }: { readonly onChange: () => void }): JSX.Element {
  const [share, setShare] = useState<number | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const isReadOnly = useStore(session)?.readOnly ?? false;
  const load = async (): Promise<void> => {
    setError(null);
    setShare(0);
    try {
      await loadSample(setShare);
      onChange();
    } catch (problem) {
      setError(asApiError(problem));
    }
    setShare(null);
  };
  const actions = (
    <>
      <Button
        kind="primary"
        busy={share !== null}
        disabled={isReadOnly}
        title={isReadOnly ? "The session is read-only." : undefined}
        onClick={() => void load()}
      >
        {share === null ? "Load a sample" : `Loading, ${percent(share)}`}
      </Button>
      <Button onClick={() => navigate(href(["data"]))}>Open the data</Button>
      <Button kind="quiet" onClick={() => navigate(href(["connect"]))}>
        Connect a program
      </Button>
    </>
  );
  return (
    <>
      <Empty title="The account has no database." actions={actions}>
        A database has containers, a container has items. The sample is a container of 240 orders, partitioned by
        customer.
      </Empty>
      {error && <ErrorView error={error} title="The sample could not be loaded." />}
    </>
  );
}
