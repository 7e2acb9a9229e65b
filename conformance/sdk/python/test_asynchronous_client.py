"""The asynchronous client of the same SDK, which has another HTTP stack and gets the same answers."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from azure.core import MatchConditions
from azure.cosmos import PartitionKey
from azure.cosmos.aio import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError, CosmosResourceNotFoundError


@pytest.fixture
def opened(endpoint, key, unique):
    """A container with two physical partitions, in a database that is deleted at the end of the block."""

    @asynccontextmanager
    async def open_container():
        async with CosmosClient(endpoint, credential=key, connection_verify=False) as client:
            database = await client.create_database(unique("db"))
            try:
                yield await database.create_container("items", PartitionKey(path="/pk"), offer_throughput=12_000)
            finally:
                await client.delete_database(database)

    return open_container


def test_items_are_created_read_replaced_and_deleted(opened):
    async def scenario():
        async with opened() as container:
            created = await container.create_item({"id": "1", "pk": "p", "n": 1})
            assert (await container.read_item("1", "p"))["_etag"] == created["_etag"]
            replaced = await container.replace_item(
                "1", {"id": "1", "pk": "p", "n": 2}, etag=created["_etag"], match_condition=MatchConditions.IfNotModified
            )
            assert replaced["n"] == 2
            with pytest.raises(CosmosHttpResponseError) as stale:
                await container.delete_item(
                    "1", "p", etag=created["_etag"], match_condition=MatchConditions.IfNotModified
                )
            assert stale.value.status_code == 412
            await container.delete_item("1", "p")
            with pytest.raises(CosmosResourceNotFoundError):
                await container.read_item("1", "p")

    asyncio.run(scenario())


def test_many_writes_at_once_are_all_kept(opened):
    async def scenario():
        async with opened() as container:
            await asyncio.gather(*(container.create_item({"id": f"{n:03}", "pk": f"k{n % 7}"}) for n in range(100)))
            ids = [id async for id in container.query_items("SELECT VALUE c.id FROM c ORDER BY c.id")]
            assert ids == [f"{n:03}" for n in range(100)]

    asyncio.run(scenario())


def test_queries_and_the_change_feed_page_through(opened):
    async def scenario():
        async with opened() as container:
            for n in range(12):
                await container.create_item({"id": f"{n:02}", "pk": f"k{n}", "n": n})
            pages = container.query_items("SELECT VALUE c.n FROM c", max_item_count=5).by_page()
            sizes, values = [], []
            async for page in pages:
                found = [value async for value in page]
                sizes.append(len(found))
                values += found
            assert max(sizes) <= 5 and sorted(values) == list(range(12))
            total = [value async for value in container.query_items("SELECT VALUE SUM(c.n) FROM c")]
            assert total == [66]
            feed = [i["id"] async for i in container.query_items_change_feed(start_time="Beginning")]
            assert sorted(feed) == [f"{n:02}" for n in range(12)]
            ranges = [range async for range in container.read_feed_ranges()]
            assert len(ranges) == 2

    asyncio.run(scenario())


def test_a_stored_procedure_is_executed(opened):
    async def scenario():
        async with opened() as container:
            body = "function (a, b) { getContext().getResponse().setBody(a + b); }"
            await container.scripts.create_stored_procedure({"id": "add", "body": body})
            assert await container.scripts.execute_stored_procedure("add", partition_key="p", parameters=[1, 2]) == 3

    asyncio.run(scenario())


def test_a_client_with_a_read_token_reads_and_cannot_write(database, container, endpoint):
    container.create_item({"id": "1", "pk": "a"})
    link = f"dbs/{database.id}/colls/{container.id}"
    user = database.create_user({"id": "ann"})
    permission = user.create_permission({"id": "p", "permissionMode": "Read", "resource": link})
    tokens = {link: permission.properties["_token"]}

    async def scenario():
        async with CosmosClient(endpoint, credential=tokens, connection_verify=False) as client:
            seen = client.get_database_client(database.id).get_container_client(container.id)
            assert (await seen.read_item("1", "a"))["id"] == "1"
            with pytest.raises(CosmosHttpResponseError) as refused:
                await seen.delete_item("1", "a")
            assert refused.value.status_code == 403

    asyncio.run(scenario())
