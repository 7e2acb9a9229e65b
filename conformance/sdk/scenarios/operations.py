"""The operations that a scenario may ask for, in the protocol's own words, and the arguments of each.

A driver maps each operation to the public method of its SDK. The table reports a typing error in a scenario, which
would look like a gap of an SDK otherwise.
"""

_WRITE = {"if_match", "if_none_match", "session_token", "pre_triggers", "post_triggers", "no_response", "indexing"}
_READ = {"if_match", "if_none_match", "session_token", "consistency"}
_PAGES = {"page_size", "max_pages", "continuation"}
_QUERY = {"query", "parameters"} | _PAGES
_OFFER = {"throughput", "autoscale"}


def _resource(name: str, *, properties: str, owner: set[str], upsert: bool = False) -> dict[str, set[str]]:
    """Returns the six operations on a kind of resource that consists of its properties."""
    return {
        f"create_{name}": owner | {properties},
        f"read_{name}": owner | {"id"},
        f"replace_{name}": owner | {"id", properties},
        f"delete_{name}": owner | {"id"},
        f"list_{name}s": owner | _PAGES,
        f"query_{name}s": owner | _QUERY,
    } | ({f"upsert_{name}": owner | {properties}} if upsert else {})


_DATABASE = {"database"}
_CONTAINER = {"database", "container"}
_ITEM = _CONTAINER | {"id", "partition_key"}

OPERATIONS: dict[str, set[str]] = {
    "connect": {"key", "token", "connection_string", "consistency", "no_response", "preferred_regions"},
    "read_account": set(),
    # Databases and containers.
    "create_database": _DATABASE | _OFFER,
    "create_database_if_not_exists": _DATABASE | _OFFER,
    "read_database": _DATABASE | {"if_match", "if_none_match"},
    "delete_database": _DATABASE | {"if_match", "if_none_match"},
    "list_databases": _PAGES,
    "query_databases": _QUERY,
    "create_container": _DATABASE | {"properties"} | _OFFER,
    "create_container_if_not_exists": _DATABASE | {"properties"} | _OFFER,
    "read_container": _CONTAINER | {"quota"},
    "replace_container": _CONTAINER | {"properties", "if_match"},
    "delete_container": _CONTAINER | {"if_match"},
    "list_containers": _DATABASE | _PAGES,
    "query_containers": _DATABASE | _QUERY,
    "read_database_throughput": _DATABASE,
    "replace_database_throughput": _DATABASE | _OFFER,
    "read_container_throughput": _CONTAINER,
    "replace_container_throughput": _CONTAINER | _OFFER,
    # Items.
    "create_item": _CONTAINER | {"item", "partition_key"} | _WRITE,
    "read_item": _ITEM | _READ,
    "upsert_item": _CONTAINER | {"item", "partition_key"} | _WRITE,
    "replace_item": _ITEM | {"item"} | _WRITE,
    "delete_item": _ITEM | _WRITE,
    "patch_item": _ITEM | {"operations", "condition"} | _WRITE,
    "read_many_items": _CONTAINER | {"identities", "session_token"},
    "read_partition_keys": _CONTAINER | {"partition_keys"},
    "list_items": _CONTAINER | _PAGES | {"partition_key"},
    "query_items": _CONTAINER
    | _QUERY
    | {"partition_key", "feed_range", "cross_partition", "index_metrics", "metrics", "session_token", "continuation_limit_kb"},
    "delete_all_items": _CONTAINER | {"partition_key"},
    "batch": _CONTAINER | {"partition_key", "operations", "no_response"},
    "bulk": _CONTAINER | {"operations"},
    # Feeds.
    "read_feed_ranges": _CONTAINER,
    "feed_range_of_partition_key": _CONTAINER | {"partition_key"},
    "change_feed": _CONTAINER | _PAGES | {"start", "partition_key", "feed_range", "mode"},
    "list_conflicts": _CONTAINER | _PAGES,
    "query_conflicts": _CONTAINER | _QUERY,
    # Scripts.
    **_resource("stored_procedure", properties="properties", owner=_CONTAINER),
    **_resource("trigger", properties="properties", owner=_CONTAINER),
    **_resource("user_defined_function", properties="properties", owner=_CONTAINER),
    "execute_stored_procedure": _ITEM | {"arguments", "log"},
    # Users.
    **_resource("user", properties="properties", owner=_DATABASE, upsert=True),
    **_resource("permission", properties="properties", owner=_DATABASE | {"user"}, upsert=True),
    "read_permission": _DATABASE | {"user", "id", "expiry_seconds"},
}
