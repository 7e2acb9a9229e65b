/** The line below a picture that says what the picture shows and why that matters. */

import type { ComponentChildren, JSX } from "preact";

/** Draws the line; `doc` is the page of the documentation that says more. */
export function Why(props: { readonly children: ComponentChildren; readonly doc: string }): JSX.Element {
  return (
    <details class="parts-why">
      <summary>Why this picture</summary>
      <p>
        {props.children} The documentation says more in <code>docs/how-to/{props.doc}</code>.
      </p>
    </details>
  );
}
