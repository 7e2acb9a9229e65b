/** Says which parameters of the query have no value, and adds them. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Button } from "../../ui/button.tsx";
import { Banner } from "../../ui/states.tsx";
import { missingParameters } from "./placeholders.ts";
import type { Property } from "./sample.ts";
import type { QueryTab } from "./workspace.ts";

export interface MissingParametersProps {
  readonly tab: QueryTab;
  readonly properties: readonly Property[];
  readonly onChange: (tab: QueryTab) => void;
}

/** Draws nothing while every parameter has a value. */
export function MissingParameters({ tab, properties, onChange }: MissingParametersProps): JSX.Element | null {
  const missing = useMemo(
    () => missingParameters(tab.text, tab.parameters, properties),
    [tab.text, tab.parameters, properties],
  );
  if (missing.length === 0) return null;
  const names = missing.map(({ name }) => name).join(", ");
  const add = (): void => onChange({ ...tab, parameters: [...tab.parameters, ...missing] });
  return (
    <Banner actions={<Button onClick={add}>Add the parameters</Button>}>
      The query names {names}, which has no value.
    </Banner>
  );
}
