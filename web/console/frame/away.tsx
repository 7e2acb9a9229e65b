/** The banner while the server cannot be reached; goes by itself when the server is back. */

import type { JSX } from "preact";
import { askNow, away } from "../api/client.ts";
import { useStore } from "../store.ts";
import { Button } from "../ui/button.tsx";
import { Banner } from "../ui/states.tsx";

/** Draws the banner while the server is away. */
export function AwayBanner(): JSX.Element | null {
  if (!useStore(away)) return null;
  return (
    <Banner kind="bad" actions={<Button onClick={askNow}>Try now</Button>}>
      <strong>The server does not answer.</strong> What you typed stays here. The console tries again by
      itself.
    </Banner>
  );
}
