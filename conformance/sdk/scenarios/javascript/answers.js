/** The answer that the driver reports for a request; see matching.py. */

/** Returns the answer about one resource. */
export function answerOf(response, body = response.resource) {
  return {
    status: response.statusCode,
    substatus: response.substatus ?? 0,
    headers: response.headers,
    ...(body === undefined || body === null ? {} : { body }),
  };
}

/** Returns the server's refusal, or the failure of the SDK itself. */
export function refusal(error) {
  if (typeof error?.code !== "number") return { raised: String(error?.message ?? error) };
  const headers = error.headers ?? {};
  return {
    status: error.code,
    substatus: Number(error.substatus ?? headers["x-ms-substatus"] ?? 0),
    headers,
    message: error.body?.message ?? error.message,
  };
}

/** Returns the pages of a query or list, at most as many as the step asks for. */
export async function pagesOf(iterator, a) {
  const most = a.take("max_pages");
  const answer = { status: 200, items: [], pages: [], headers: {} };
  if (a.names.size === 0 && most === undefined && !a.has("page_size")) {
    // The step asks for no number of pages, so the SDK combines them.
    const { resources, requestCharge, indexMetrics } = await iterator.fetchAll();
    const headers = { "x-ms-request-charge": requestCharge, "x-ms-cosmos-index-utilization": indexMetrics };
    return { ...answer, items: resources ?? [], pages: [resources?.length ?? 0], headers };
  }
  while (iterator.hasMoreResults() && !(answer.pages.length >= most)) {
    const { resources, continuationToken, requestCharge } = await iterator.fetchNext();
    answer.items.push(...(resources ?? []));
    answer.pages.push(resources?.length ?? 0);
    answer.continuation = continuationToken;
    answer.headers["x-ms-request-charge"] = requestCharge;
  }
  return answer;
}
