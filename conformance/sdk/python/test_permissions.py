"""Users, permissions, and clients that have resource tokens only."""

import asyncio

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsynchronousClient
from azure.cosmos.exceptions import (
    CosmosHttpResponseError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)

# A link to a container that does not exist, which a permission may have.
NOWHERE = "dbs/AQAAAA==/colls/AQAAAJ0fgTc="


@pytest.fixture
def user(database):
    return database.create_user({"id": "ann"})


@pytest.fixture
def bearer(endpoint):
    """Opens a client with resource tokens by link."""
    clients = []

    def open_client(tokens):
        client = CosmosClient(endpoint, credential=tokens, connection_verify=False)
        clients.append(client)
        return client

    yield open_client
    for client in clients:
        client.__exit__()


def permit(user, link, mode="Read", key=None):
    body = {"id": f"{mode} {link.replace('/', '.')}", "permissionMode": mode, "resource": link}
    if key is not None:
        body["resourcePartitionKey"] = key
    return user.create_permission(body).properties["_token"]


def assert_forbidden(call, *arguments, **options):
    with pytest.raises(CosmosHttpResponseError) as refused:
        call(*arguments, **options)
    assert refused.value.status_code == 403


def test_users_are_created_listed_queried_renamed_and_deleted(database):
    database.create_user({"id": "ann"})
    with pytest.raises(CosmosResourceExistsError):
        database.create_user({"id": "ann"})
    database.upsert_user({"id": "ann"})
    database.upsert_user({"id": "bob"})
    assert {user["id"] for user in database.list_users()} == {"ann", "bob"}
    found = database.query_users("SELECT * FROM root r WHERE r.id=@id", parameters=[{"name": "@id", "value": "bob"}])
    assert [user["id"] for user in found] == ["bob"]
    properties = database.get_user_client("ann").read()
    properties["id"] = "eve"
    assert database.replace_user("ann", properties).id == "eve"
    database.delete_user("eve")
    with pytest.raises(CosmosResourceNotFoundError):
        database.get_user_client("eve").read()


def test_permissions_are_created_listed_queried_replaced_and_deleted(user):
    made = user.create_permission({"id": "p", "permissionMode": "Read", "resource": NOWHERE})
    assert made.properties["_token"].startswith("type=resource&")
    with pytest.raises(CosmosResourceExistsError):
        user.create_permission({"id": "q", "permissionMode": "Read", "resource": NOWHERE})
    upserted = user.upsert_permission({"id": "p", "permissionMode": "All", "resource": NOWHERE})
    assert (upserted.id, upserted.permission_mode) == ("p", "All")
    assert [p["id"] for p in user.list_permissions()] == ["p"]
    found = user.query_permissions("SELECT * FROM root r WHERE r.id=@id", parameters=[{"name": "@id", "value": "p"}])
    assert [p["permissionMode"] for p in found] == ["All"]
    changed = dict(upserted.properties, id="q")
    assert user.replace_permission("p", changed).id == "q"
    assert user.get_permission("q").resource_link == NOWHERE
    user.delete_permission("q")
    with pytest.raises(CosmosResourceNotFoundError):
        user.get_permission("q")


def test_a_client_without_credentials_is_unauthorized(bearer):
    with pytest.raises(CosmosHttpResponseError) as refused:
        bearer({})
    assert refused.value.status_code == 401


def test_a_token_to_read_a_container_reads_all_in_it_and_changes_nothing(database, container, user, bearer):
    container.create_item({"id": "1", "pk": "a"})
    container.create_item({"id": "2", "pk": "b"})
    link = f"dbs/{database.id}/colls/{container.id}"
    mine = bearer({link: permit(user, link)}).get_database_client(database.id)
    seen = mine.get_container_client(container.id)
    assert seen.read()["id"] == container.id
    assert {item["id"] for item in seen.read_all_items()} == {"1", "2"}
    assert seen.read_item("1", "a")["pk"] == "a"
    found = seen.query_items("SELECT * FROM c WHERE c.id = '2'", enable_cross_partition_query=True)
    assert [item["id"] for item in found] == ["2"]
    assert {item["id"] for item in seen.query_items_change_feed(start_time="Beginning")} == {"1", "2"}
    assert_forbidden(seen.create_item, {"id": "3", "pk": "a"})
    assert_forbidden(seen.delete_item, "1", "a")
    assert_forbidden(mine.delete_container, container.id)


def test_a_token_for_everything_in_a_container_deletes_the_container_too(database, container, user, bearer):
    link = f"dbs/{database.id}/colls/{container.id}"
    mine = bearer({link: permit(user, link, "All")}).get_database_client(database.id)
    own = mine.get_container_client(container.id)
    own.create_item({"id": "1", "pk": "a"})
    own.replace_item("1", {"id": "1", "pk": "a", "n": 1})
    own.upsert_item({"id": "2", "pk": "a"})
    own.delete_item("2", "a")
    assert [item.get("n") for item in container.read_all_items()] == [1]
    mine.delete_container(container.id)
    assert container.id not in {found["id"] for found in database.list_containers()}


def test_a_token_of_an_item_reaches_only_that_item(database, container, user, bearer):
    container.create_item({"id": "1", "pk": "a"})
    container.create_item({"id": "2", "pk": "a"})
    link = f"dbs/{database.id}/colls/{container.id}/docs/1"
    mine = bearer({link: permit(user, link, "All")}).get_database_client(database.id)
    own = mine.get_container_client(container.id)
    assert own.read_item("1", "a")["id"] == "1"
    own.replace_item("1", {"id": "1", "pk": "a", "n": 1})
    own.delete_item("1", "a")
    assert [item["id"] for item in container.read_all_items()] == ["2"]


def test_a_token_for_a_partition_key_reaches_only_its_items(database, user, bearer):
    everything = database.create_container("everything", PartitionKey(path="/key"))
    reading = database.create_container("reading", PartitionKey(path="/key"))
    links = {name: f"dbs/{database.id}/colls/{name}" for name in ("everything", "reading")}
    tokens = {
        links["everything"]: permit(user, links["everything"], "All", key=[1]),
        links["reading"]: permit(user, links["reading"], "Read", key=[1]),
    }
    for container in (everything, reading):
        container.create_item({"id": "mine", "key": 1})
        container.create_item({"id": "other", "key": 2})
    mine = bearer(tokens).get_database_client(database.id)
    everything, reading = mine.get_container_client("everything"), mine.get_container_client("reading")
    everything.create_item({"id": "new", "key": 1})
    everything.delete_item("new", 1)
    assert_forbidden(everything.create_item, {"id": "new", "key": 2})
    assert_forbidden(everything.read_item, "other", 2)
    assert reading.read_item("mine", 1)["key"] == 1
    assert [item["id"] for item in reading.query_items("SELECT * FROM c", partition_key=1)] == ["mine"]
    assert_forbidden(reading.create_item, {"id": "new", "key": 1})
    assert_forbidden(lambda: list(reading.query_items("SELECT * FROM c", enable_cross_partition_query=True)))


def test_a_token_runs_a_procedure_only_with_everything_allowed(database, container, user, bearer):
    container.scripts.create_stored_procedure(
        {"id": "one", "body": "function () { getContext().getResponse().setBody(1); }"}
    )
    link = f"dbs/{database.id}/colls/{container.id}"
    reading = bearer({link: permit(user, link, "Read")}).get_database_client(database.id)
    assert_forbidden(reading.get_container_client(container.id).scripts.execute_stored_procedure, "one", "a")
    everything = bearer({link: permit(user, link, "All", key=["a"])}).get_database_client(database.id)
    scripts = everything.get_container_client(container.id).scripts
    assert scripts.execute_stored_procedure("one", "a") == 1
    assert_forbidden(scripts.execute_stored_procedure, "one", "b")


def test_a_token_ends_with_its_permission(database, container, user, bearer):
    link = f"dbs/{database.id}/colls/{container.id}"
    made = user.create_permission({"id": "p", "permissionMode": "Read", "resource": link})
    mine = bearer({link: made.properties["_token"]}).get_database_client(database.id)
    seen = mine.get_container_client(container.id)
    assert seen.read()["id"] == container.id
    user.delete_permission("p")
    with pytest.raises(CosmosHttpResponseError) as refused:
        seen.read()
    assert refused.value.status_code == 401


def test_the_life_of_a_token_can_be_chosen_within_bounds(user):
    user.create_permission({"id": "p", "permissionMode": "Read", "resource": NOWHERE})
    short = user.get_permission("p", resource_token_expiry_seconds=600).properties["_token"]
    long = user.get_permission("p", resource_token_expiry_seconds=86_400).properties["_token"]
    assert short != long
    with pytest.raises(CosmosHttpResponseError) as refused:
        user.get_permission("p", resource_token_expiry_seconds=86_401)
    assert refused.value.status_code == 400


def test_a_list_of_permissions_opens_a_client(database, container, user, endpoint):
    link = f"dbs/{database.id}/colls/{container.id}"
    user.create_permission({"id": "p", "permissionMode": "Read", "resource": link})
    with CosmosClient(endpoint, credential=list(user.list_permissions()), connection_verify=False) as client:
        assert client.get_database_account().ConsistencyPolicy["defaultConsistencyLevel"] == "Session"


def test_the_asynchronous_client_takes_tokens_too(database, container, user, endpoint):
    container.create_item({"id": "1", "pk": "a"})
    link = f"dbs/{database.id}/colls/{container.id}"
    tokens = {link: permit(user, link)}

    async def scenario():
        async with AsynchronousClient(endpoint, credential=tokens, connection_verify=False) as client:
            seen = client.get_database_client(database.id).get_container_client(container.id)
            assert (await seen.read_item("1", "a"))["id"] == "1"
            with pytest.raises(CosmosHttpResponseError) as refused:
                await seen.delete_item("1", "a")
            assert refused.value.status_code == 403

    asyncio.run(scenario())
