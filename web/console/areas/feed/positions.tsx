/** The positions of the tail, one for each EPK range. */

import type { JSX } from "preact";
import { asApiError } from "../../api/client.ts";
import { count } from "../../ui/format.ts";
import { Badge, Skeleton } from "../../ui/states.tsx";
import { rangeText } from "../partitions/epk.ts";
import type { FeedPosition } from "./follower.ts";

/** Draws the table. */
export function Positions({ positions }: { readonly positions: readonly FeedPosition[] }): JSX.Element {
  if (positions.length === 0) return <Skeleton lines={3} />;
  return (
    <table class="feed-positions">
      <thead>
        <tr>
          <th scope="col">Partition</th>
          <th scope="col">Range</th>
          <th scope="col" class="number">
            LSN
          </th>
          <th scope="col" class="number">
            Changes
          </th>
          <th scope="col">State</th>
        </tr>
      </thead>
      <tbody>
        {positions.map((position) => (
          <tr key={`${position.min}-${position.max}`}>
            <th scope="row">{position.rangeId}</th>
            <td>
              <code>{rangeText(position)}</code>
            </td>
            <td class="number">{position.place === null ? "–" : position.place.replaceAll('"', "")}</td>
            <td class="number">{count(position.changes)}</td>
            <td>
              <State position={position} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function State({ position }: { readonly position: FeedPosition }): JSX.Element {
  if (position.error !== null) {
    const error = asApiError(position.error);
    return <Badge kind={error.status === 410 ? "info" : "bad"}>{error.status === 410 ? "split" : String(error.status)}</Badge>;
  }
  return position.isAtEnd ? <Badge kind="good">at the end</Badge> : <Badge>reading</Badge>;
}
