/** The query tab: loads what the workbench needs about the container and the language. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ContainerProps } from "../../areas.ts";
import { type Container, containers } from "../../api/data.ts";
import { useAddress } from "../../router.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { useResource } from "../../ui/resource.ts";
import { Skeleton } from "../../ui/states.tsx";
import { BARE_LANGUAGE, readLanguage, readProperties } from "./knowledge.ts";
import { Workbench } from "./workbench.tsx";

/** Draws the workbench once the container is known. */
export default function QueryPage({ database, container }: ContainerProps): JSX.Element {
  const definition = useResource(
    async () => containers.definition(database, container),
    [database, container],
  );
  // The newest definition, after the advice changed the policy.
  const [changed, setChanged] = useState<Container | null>(null);
  // Without the language or a sample the editor proposes less, and everything else works.
  const language = useResource(readLanguage, []);
  const properties = useResource(
    async (signal) => readProperties(database, container, signal),
    [database, container],
  );
  const { query } = useAddress();
  if (definition.error) {
    return (
      <ErrorView
        error={definition.error}
        title="The container could not be read."
        onRetry={definition.reload}
      />
    );
  }
  const isLanguageKnown = language.value !== undefined || language.error !== null;
  // A query of an address may have placeholders, which are filled from the sample.
  const isSampleKnown = properties.value !== undefined || properties.error !== null;
  const needsSample = query.has("text") && !isSampleKnown;
  if (!definition.value || !isLanguageKnown || needsSample) return <Skeleton lines={8} />;
  return (
    <Workbench
      database={database}
      definition={changed ?? definition.value}
      language={language.value ?? BARE_LANGUAGE}
      properties={properties.value ?? []}
      onDefinition={setChanged}
    />
  );
}
