/** The problem of a whole form, and the words of a refusal without the server's additions. */

import type { JSX } from "preact";
import type { ApiError } from "../../api/client.ts";
import { Banner } from "../../ui/states.tsx";

/** Draws a problem that belongs to no single field. */
export function FormProblem({ message }: { readonly message: string | undefined }): JSX.Element | null {
  return message === undefined ? null : <Banner kind="bad">{message}</Banner>;
}

/** Returns the words of a refusal: without the activity id, and with the texts of inner errors. */
export function messageOf(error: ApiError): string {
  const lines = error.message.split(/\r?\n/).filter((line) => !line.startsWith("ActivityId"));
  const text = lines.join(" ").replace(/^Message:\s*/, "").trim();
  const inner = innerMessages(text);
  return inner ?? (text === "" ? "The request failed. Try again." : text);
}

function innerMessages(text: string): string | null {
  try {
    const body = JSON.parse(text) as { Errors?: unknown; errors?: unknown };
    const list = body.Errors ?? body.errors;
    if (!Array.isArray(list)) return null;
    const words: string[] = [];
    for (const entry of list as unknown[]) {
      const message = typeof entry === "string" ? entry : (entry as { message?: unknown }).message;
      if (typeof message === "string") words.push(message);
    }
    return words.length === 0 ? null : words.join(" ");
  } catch {
    return null;
  }
}
