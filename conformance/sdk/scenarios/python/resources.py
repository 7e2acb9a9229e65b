"""Databases, containers, their throughput, users and permissions."""

from azure.cosmos import PartitionKey

from feeds import pages


def create_database(clients, a):
    made = clients.client.create_database(a.take("database"), offer_throughput=a.throughput())
    return clients.answer({"id": made.id})


def create_database_if_not_exists(clients, a):
    throughput = a.throughput()
    database = clients.client.create_database_if_not_exists(a.take("database"), offer_throughput=throughput)
    return clients.answer({"id": database.id})


def read_database(clients, a):
    return clients.answer(clients.database(a).read())


def delete_database(clients, a):
    clients.client.delete_database(a.take("database"), **a.options())
    return clients.answer()


def list_databases(clients, a):
    return pages(clients, a, clients.client.list_databases)


def query_databases(clients, a):
    return pages(clients, a, clients.client.query_databases, a.take("query"), a.take("parameters"))


def _definition(properties: dict) -> dict:
    """Returns the arguments of the SDK for a new container."""
    key = properties["partitionKey"]
    paths = key["paths"]
    kind, version = key.get("kind", "Hash"), key.get("version", 2)
    found = {"partition_key": PartitionKey(paths if kind == "MultiHash" else paths[0], kind=kind, version=version)}
    names = {"indexingPolicy": "indexing_policy", "defaultTtl": "default_ttl", "uniqueKeyPolicy": "unique_key_policy"}
    names |= {"changeFeedPolicy": "change_feed_policy"}
    return found | {ours: properties[theirs] for theirs, ours in names.items() if theirs in properties}


def create_container(clients, a):
    properties, throughput = a.take("properties"), a.throughput()
    database = clients.database(a)
    database.create_container(properties["id"], offer_throughput=throughput, **_definition(properties))
    answer = clients.answer()
    return answer | {"body": database.get_container_client(properties["id"]).read()}


def create_container_if_not_exists(clients, a):
    properties, throughput = a.take("properties"), a.throughput()
    options = _definition(properties)
    made = clients.database(a).create_container_if_not_exists(properties["id"], offer_throughput=throughput, **options)
    return clients.answer({"id": made.id})


def read_container(clients, a):
    return clients.answer(clients.container(a).read(populate_quota_info=a.take("quota")))


def replace_container(clients, a):
    properties, name = a.take("properties"), a.take("container")
    options = _definition(properties)
    clients.database(a).replace_container(name, **options)
    answer = clients.answer()
    return answer | {"body": clients.database(a).get_container_client(name).read()}


def delete_container(clients, a):
    name = a.take("container")
    clients.database(a).delete_container(name, **a.options())
    return clients.answer()


def list_containers(clients, a):
    return pages(clients, a, clients.database(a).list_containers)


def query_containers(clients, a):
    return pages(clients, a, clients.database(a).query_containers, a.take("query"), a.take("parameters"))


def _offer(clients, offer):
    """Returns the SDK's values of an offer: RU/s, or the maximum of autoscale."""
    content = offer.properties["content"]
    most = content.get("offerAutopilotSettings", {}).get("maxThroughput")
    return clients.answer({"autoscale_max": most} if most else {"throughput": offer.offer_throughput})


def read_account(clients, a):
    account = clients.client.get_database_account()
    policy, places = account.ConsistencyPolicy, account.WritableLocations
    return clients.answer({"consistency": policy["defaultConsistencyLevel"], "writable": places[0]["name"]})


def _owner(clients, a):
    user = a.take("user")
    return clients.database(a).get_user_client(user)


def _permission(method: str, *arguments: str):
    """Carries out an operation that returns a permission."""

    def carry_out(clients, a):
        found = getattr(_owner(clients, a), method)(*(a.take(argument) for argument in arguments))
        return clients.answer(found.properties)

    return carry_out


def read_permission(clients, a):
    options = a.options(resource_token_expiry_seconds="expiry_seconds")
    return clients.answer(_owner(clients, a).get_permission(a.take("id"), **options).properties)


RESOURCES = {
    "read_account": read_account,
    "create_database": create_database,
    "create_database_if_not_exists": create_database_if_not_exists,
    "read_database": read_database,
    "delete_database": delete_database,
    "list_databases": list_databases,
    "query_databases": query_databases,
    "create_container": create_container,
    "create_container_if_not_exists": create_container_if_not_exists,
    "read_container": read_container,
    "replace_container": replace_container,
    "delete_container": delete_container,
    "list_containers": list_containers,
    "query_containers": query_containers,
    "read_database_throughput": lambda c, a: _offer(c, c.database(a).get_throughput()),
    "replace_database_throughput": lambda c, a: _offer(c, c.database(a).replace_throughput(a.throughput())),
    "read_container_throughput": lambda c, a: _offer(c, c.container(a).get_throughput()),
    "replace_container_throughput": lambda c, a: _offer(c, c.container(a).replace_throughput(a.throughput())),
    "create_user": lambda c, a: c.answer({"id": c.database(a).create_user(a.take("properties")).id}),
    "upsert_user": lambda c, a: c.answer({"id": c.database(a).upsert_user(a.take("properties")).id}),
    "read_user": lambda c, a: c.answer(c.database(a).get_user_client(a.take("id")).read()),
    "replace_user": lambda c, a: c.answer({"id": c.database(a).replace_user(a.take("id"), a.take("properties")).id}),
    "delete_user": lambda c, a: c.answer(c.database(a).delete_user(a.take("id"))),
    "create_permission": _permission("create_permission", "properties"),
    "upsert_permission": _permission("upsert_permission", "properties"),
    "read_permission": read_permission,
    "replace_permission": _permission("replace_permission", "id", "properties"),
    "delete_permission": lambda c, a: c.answer(_owner(c, a).delete_permission(a.take("id"))),
    "list_permissions": lambda c, a: pages(c, a, _owner(c, a).list_permissions),
    "query_permissions": lambda c, a: pages(c, a, _owner(c, a).query_permissions, a.take("query"), a.take("parameters")),
    "list_users": lambda c, a: pages(c, a, c.database(a).list_users),
    "query_users": lambda c, a: pages(c, a, c.database(a).query_users, a.take("query"), a.take("parameters")),
}
