"""Single items and several items in one request."""

from azure.cosmos.exceptions import CosmosBatchOperationError

from arguments import key

_WRITE = {
    "session_token": "session_token",
    "pre_trigger_include": "pre_triggers",
    "post_trigger_include": "post_triggers",
    "indexing_directive": "indexing",
    "no_response": "no_response",
}


def _write_options(a) -> dict:
    options = a.options(**_WRITE)
    for name in ("pre_trigger_include", "post_trigger_include"):
        if name in options:
            options[name] = ",".join(options[name])
    return options


def _new(a) -> tuple[dict, dict]:
    """Returns a new item and its options. The SDK takes the partition key from the item unless the request names one."""
    item, values, options = a.take("item"), a.take("partition_key", []), _write_options(a)
    if any(value not in item.values() for value in values):
        options["request_options"] = {"partitionKey": key(values)}
    return item, options


def create_item(clients, a):
    container, (item, options) = clients.container(a), _new(a)
    return clients.answer(container.create_item(item, **options))


def upsert_item(clients, a):
    container, (item, options) = clients.container(a), _new(a)
    return clients.answer(container.upsert_item(item, **options))


def read_item(clients, a):
    options = a.options(session_token="session_token")
    return clients.answer(clients.container(a).read_item(a.take("id"), a.key(), **options))


def replace_item(clients, a):
    container, (item, options) = clients.container(a), _new(a)
    return clients.answer(container.replace_item(a.take("id"), item, **options))


def delete_item(clients, a):
    container = clients.container(a)
    container.delete_item(a.take("id"), a.key(), **_write_options(a))
    return clients.answer()


def patch_item(clients, a):
    container, options = clients.container(a), _write_options(a)
    if a.has("condition"):
        options["filter_predicate"] = a.take("condition")
    done = container.patch_item(a.take("id"), a.key(), a.take("operations"), **options)
    return clients.answer(done)


def read_many_items(clients, a):
    container = clients.container(a)
    identities = [(identity["id"], key(identity["partition_key"])) for identity in a.take("identities")]
    found = container.read_items(identities, **a.options(session_token="session_token"))
    headers = {name.lower(): value for name, value in found.get_response_headers().items()}
    return {"status": 200, "headers": headers, "items": list(found)}


def delete_all_items(clients, a):
    clients.container(a).delete_all_items_by_partition_key(a.key())
    return clients.answer()


def _operation(step: dict) -> tuple:
    """Returns an operation of a batch in the SDK's form: a name, positional arguments, options."""
    options = {"if_match_etag": step["if_match"]} if "if_match" in step else {}
    if step["op"] == "patch":
        if "condition" in step:
            options["filter_predicate"] = step["condition"]
        return ("patch", (step["id"], step["operations"]), options)
    places = {
        "create": lambda: (step["item"],),
        "upsert": lambda: (step["item"],),
        "replace": lambda: (step["id"], step["item"]),
        "read": lambda: (step["id"],),
        "delete": lambda: (step["id"],),
    }
    return (step["op"], places[step["op"]](), options)


def batch(clients, a):
    container, operations = clients.container(a), [_operation(step) for step in a.take("operations")]
    try:
        done = container.execute_item_batch(operations, a.key(), **a.options(no_response="no_response"))
    except CosmosBatchOperationError as refused:
        done = refused.operation_responses
    names = {"status": "statusCode", "body": "resourceBody", "etag": "eTag", "charge": "requestCharge"}
    results = [{ours: one.get(theirs) for ours, theirs in names.items()} for one in done]
    return clients.answer() | {"results": results}


ITEMS = {
    "create_item": create_item,
    "upsert_item": upsert_item,
    "read_item": read_item,
    "replace_item": replace_item,
    "delete_item": delete_item,
    "patch_item": patch_item,
    "read_many_items": read_many_items,
    "delete_all_items": delete_all_items,
    "batch": batch,
}
