/** The SDK's own HTTP client, which records the parts that all answers have, below the SDK. */

import { createDefaultHttpClient } from "@azure/core-rest-pipeline";

/** Returns a client that appends every answer of the server to `answers`, with the names of ../../lib/server/rules.py. */
export function witness(answers) {
  const client = createDefaultHttpClient();
  return {
    async sendRequest(request) {
      const response = await client.sendRequest(request);
      const body = response.bodyAsText ?? "";
      answers.push({
        method: request.method,
        path: new URL(request.url).pathname,
        status: response.status,
        headers: response.headers.toJSON(),
        body_bytes: Buffer.byteLength(body),
        error_text: response.status >= 400 ? body : "",
      });
      return response;
    },
  };
}
