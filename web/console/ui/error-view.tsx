/** An error as a person sees it: what happened, what to do, the activity id, a retry. */

import type { JSX } from "preact";
import type { ApiError } from "../api/client.ts";
import { Button, CopyButton } from "./button.tsx";
import { Icon } from "./icons.tsx";

export interface ErrorViewProps {
  readonly error: ApiError;
  /** The action that failed, such as `The containers could not be read.` */
  readonly title?: string | undefined;
  readonly onRetry?: (() => void) | undefined;
}

/** Draws an error. */
export function ErrorView({ error, title, onRetry }: ErrorViewProps): JSX.Element {
  const { heading, advice } = worded(error);
  return (
    <div class="error-view" role="alert">
      <Icon name="warn" />
      <div>
        <p class="error-title">{title ?? heading}</p>
        <p class="error-text">{title ? `${heading} ${advice}` : advice}</p>
        {error.activityId && (
          <p class="error-id">
            Activity id <code>{error.activityId}</code>
            <CopyButton text={error.activityId} label="Copy the activity id" />
          </p>
        )}
      </div>
      {onRetry && (
        <Button icon="reload" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** What a status asks a person to do, where the server's text does not say. */
const ADVICE: Readonly<Record<number, string>> = {
  403: "The session may not do this. A read-only console changes nothing.",
  404: "The resource was deleted or renamed. Load the tree again.",
  409: "A resource with this id exists. Choose another id.",
  412: "Another client changed the resource since this page read it. Load it again and compare.",
  413: "The request is larger than the server accepts. Make it smaller.",
  429: "The throughput is used up at this moment. Try again, or raise the throughput.",
  503: "The server is busy or stopping. Try again.",
};

function worded(error: ApiError): { heading: string; advice: string } {
  if (error.away) return { heading: "The server does not answer.", advice: "The page loads again by itself." };
  const lines = error.message.split(/\r?\n/).filter((line) => !line.startsWith("ActivityId"));
  const [first = "The request failed.", ...rest] = lines;
  const heading = first.replace(/^Message:\s*/, "").trim();
  const advice = ADVICE[error.status] ?? "";
  return { heading, advice: [...rest, advice].join(" ").trim() };
}
