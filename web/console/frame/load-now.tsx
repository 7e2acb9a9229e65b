/** The request units per second of the account, in the header: the newest minute as a line, and the figure. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { followLiveNow, liveNow, perSecond } from "../api/live.ts";
import { href } from "../router.ts";
import { useStore } from "../store.ts";
import { compact } from "../ui/format.ts";
import { Sparkline } from "../ui/sparkline.tsx";

/** Draws the line as a link to the live page; nothing until the server answered. */
export function LoadNow(): JSX.Element | null {
  useEffect(followLiveNow, []);
  const live = useStore(liveNow);
  if (!live) return null;
  const rates = perSecond(live.requestUnits, live);
  const rate = rates.at(-1) ?? 0;
  const text = rate < 100 ? String(Math.round(rate * 10) / 10) : compact(rate);
  return (
    <a class="load-now" href={href(["live"])} title="Request units per second, the newest minute">
      <span class="load-figure">{text} RU/s</span>
      <Sparkline values={rates} />
    </a>
  );
}
