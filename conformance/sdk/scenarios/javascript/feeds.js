/** Operations with pages: lists, queries, feed ranges, the change feed, conflicts. */

import { pagesOf } from "./answers.js";
import { sdk } from "./watch.js";

/** The returned feed ranges: the SDK accepts its own objects only, so the runner gets their indices. */
const ranges = [];

function startOf(a) {
  const start = a.take("start") ?? "beginning";
  const continuation = a.take("continuation");
  const scope = a.has("feed_range") ? ranges[a.take("feed_range")] : a.partitionKey();
  if (continuation) return sdk.ChangeFeedStartFrom.Continuation(continuation);
  if (start === "beginning") return sdk.ChangeFeedStartFrom.Beginning(scope);
  if (start === "now") return sdk.ChangeFeedStartFrom.Now(scope);
  return sdk.ChangeFeedStartFrom.Time(new Date(start), scope);
}

/** Reads until there are no new changes, or as many pages as the step asks for. */
async function changeFeed(container, a) {
  const options = { changeFeedStartFrom: startOf(a) };
  const [size, most] = [a.take("page_size"), a.take("max_pages")];
  if (size) options.maxItemCount = size;
  if (a.take("mode") === "all versions") options.changeFeedMode = sdk.ChangeFeedMode.AllVersionsAndDeletes;
  const iterator = container.items.getChangeFeedIterator(options);
  const answer = { status: 200, items: [], pages: [] };
  while (!(answer.pages.length >= most)) {
    const page = await iterator.readNext();
    answer.items.push(...(page.result ?? []));
    answer.pages.push(page.result?.length ?? 0);
    Object.assign(answer, { status: page.statusCode, headers: page.headers, continuation: page.continuationToken });
    if (page.statusCode === 304) break;
  }
  return answer;
}

export function feeds(clients) {
  return {
    list_items: (a) => pagesOf(clients.container(a).items.readAll(a.feedOptions()), a),
    query_items: (a) => pagesOf(clients.container(a).items.query(a.query(), a.feedOptions()), a),
    async read_feed_ranges(a) {
      const found = await clients.container(a).getFeedRanges();
      return { status: 200, items: found.map((range) => ranges.push(range) - 1) };
    },
    change_feed: (a) => changeFeed(clients.container(a), a),
    list_conflicts: (a) => pagesOf(clients.container(a).conflicts.readAll(a.feedOptions()), a),
    query_conflicts: (a) => pagesOf(clients.container(a).conflicts.query(a.query().query, a.feedOptions()), a),
  };
}
