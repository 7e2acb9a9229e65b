/** One request as an attempt of a pace: a refusal becomes a value in place of an exception. */

import { ApiError, type Reply } from "../../../api/client.ts";
import { messageOf } from "../form-problem.tsx";
import type { Attempt } from "../logic/paced.ts";

/** Runs a request; a refusal of the server becomes an attempt with its status and words. */
export async function attemptOf(request: () => Promise<Reply>): Promise<Attempt> {
  try {
    const reply = await request();
    return { status: reply.status, charge: reply.charge, retryAfterMs: 0, message: "" };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { status, retryAfterMs } = error;
    return { status, charge: 0, retryAfterMs: retryAfterMs ?? 0, message: messageOf(error) };
  }
}
