/** Replaces members of a container's definition, only if no other client changed it meanwhile. */

import { asApiError } from "../../../api/client.ts";
import { containers, type Container } from "../../../api/data.ts";
import { toast } from "../../../ui/toast.tsx";
import { messageOf } from "../form-problem.tsx";

/** Replaces members; `undefined` removes a member. Returns the words of a refusal, or null. */
export async function replaceMembers(
  database: string,
  definition: Container,
  members: Readonly<Record<string, unknown>>,
): Promise<string | null> {
  try {
    await containers.replace(database, definition.id, { ...definition, ...members }, definition._etag);
    toast("The settings were saved.");
    return null;
  } catch (refusal) {
    const error = asApiError(refusal);
    if (error.status === 412) {
      return "Another client changed the container meanwhile. Load the page again, then save.";
    }
    return messageOf(error);
  }
}
