/** A page or tab that is loaded when it is shown; a failure of loading or drawing is an error view. */

import type { ComponentType, JSX } from "preact";
import { useErrorBoundary, useState } from "preact/hooks";
import { asApiError } from "../api/client.ts";
import type { Load } from "../areas.ts";
import { ErrorView } from "./error-view.tsx";
import { useResource } from "./resource.ts";
import { Skeleton } from "./states.tsx";

const names = new WeakMap<object, number>();
let nameCount = 0;

function nameOf(load: object): number {
  const known = names.get(load);
  if (known !== undefined) return known;
  nameCount += 1;
  names.set(load, nameCount);
  return nameCount;
}

/** Loads a component and draws it with these properties. */
export function Lazy<P extends object>(props: { readonly load: Load<P>; readonly props: P }): JSX.Element {
  const found = useResource(async () => ({ component: (await props.load()).default }), [nameOf(props.load)]);
  if (found.value) return <Guarded component={found.value.component} props={props.props} />;
  if (found.error) {
    return <ErrorView error={found.error} title="The page could not be loaded." onRetry={found.reload} />;
  }
  return <Skeleton lines={6} />;
}

/** Draws a component; shows an error instead of an empty page if the component fails. */
function Guarded<P extends object>(given: { readonly component: ComponentType<P>; readonly props: P }): JSX.Element {
  const [error, reset] = useErrorBoundary();
  const [round, setRound] = useState(0);
  const again = (): void => {
    setRound(round + 1);
    reset();
  };
  if (error) {
    return <ErrorView error={asApiError(error)} title="The page could not be drawn." onRetry={again} />;
  }
  const Component = given.component;
  return <Component key={round} {...given.props} />;
}
