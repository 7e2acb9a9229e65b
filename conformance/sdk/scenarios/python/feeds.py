"""Operations with pages: lists, queries, feed ranges, the change feed, conflicts."""

from datetime import datetime


def pages(clients, a, ask, *words) -> dict:
    """Returns the pages of a list or query, at most as many as the step asks for; `ask` is the SDK's method."""
    options, most, token = {}, a.take("max_pages"), a.take("continuation")
    if a.has("page_size"):
        options["max_item_count"] = a.take("page_size")
    return walk(clients, ask(*words, **options), most, token)


def walk(clients, found, most=None, token=None) -> dict:
    """Returns the pages of the SDK's iterator."""
    iterator = found.by_page(token)
    items, sizes = [], []
    for page in iterator:
        more = list(page)
        items += more
        sizes.append(len(more))
        if most is not None and len(sizes) >= most:
            break
    answer = clients.answer()
    return answer | {"items": items, "pages": sizes, "continuation": iterator.continuation_token}


def list_items(clients, a):
    container = clients.container(a)
    return pages(clients, a, container.read_all_items)


def query_items(clients, a):
    options = a.options(
        session_token="session_token",
        populate_index_metrics="index_metrics",
        populate_query_metrics="metrics",
        continuation_token_limit="continuation_limit_kb",
        feed_range="feed_range",
        max_item_count="page_size",
    )
    container, most, token = clients.container(a), a.take("max_pages"), a.take("continuation")
    if a.has("partition_key"):
        options["partition_key"] = a.key()
    elif "feed_range" not in options:
        options["enable_cross_partition_query"] = a.take("cross_partition", True)
    return walk(clients, container.query_items(a.take("query"), parameters=a.take("parameters"), **options), most, token)


def read_feed_ranges(clients, a):
    return {"status": 200, "headers": {}, "items": list(clients.container(a).read_feed_ranges())}


def feed_range_of_partition_key(clients, a):
    found = clients.container(a).feed_range_from_partition_key(a.key())
    return {"status": 200, "headers": {}, "items": [found]}


def change_feed(clients, a):
    """Reads until there are no new changes, or as many pages as the step asks for."""
    options = a.options(feed_range="feed_range", max_item_count="page_size", continuation="continuation")
    start, most = a.take("start"), a.take("max_pages")
    if a.has("partition_key"):
        partition_key = a.key()
        if "continuation" not in options:
            options["partition_key"] = partition_key
    if "continuation" not in options:
        named = {None: "Beginning", "beginning": "Beginning", "now": "Now"}
        options["start_time"] = named[start] if start in named else datetime.fromisoformat(start)
    if a.has("mode"):
        options["mode"] = {"all versions": "AllVersionsAndDeletes"}[a.take("mode")]
    container = clients.container(a)
    iterator = container.query_items_change_feed(**options).by_page()
    answer = {"items": [], "pages": []}
    for page in iterator:
        more = list(page)
        answer["items"] += more
        answer["pages"].append(len(more))
        if most is not None and len(answer["pages"]) >= most:
            break
    # The SDK documents this attribute as the place of the continuation.
    token = container.client_connection.last_response_headers["etag"]
    return clients.answer() | answer | {"continuation": token}


def query_conflicts(clients, a):
    found = clients.container(a).query_conflicts(a.take("query"), enable_cross_partition_query=True)
    return walk(clients, found)


FEEDS = {
    "list_items": list_items,
    "query_items": query_items,
    "read_feed_ranges": read_feed_ranges,
    "feed_range_of_partition_key": feed_range_of_partition_key,
    "change_feed": change_feed,
    "list_conflicts": lambda clients, a: pages(clients, a, clients.container(a).list_conflicts),
    "query_conflicts": query_conflicts,
}
