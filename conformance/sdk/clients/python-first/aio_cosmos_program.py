"""aio-cosmos, a client of a third party on aiohttp: databases, containers, documents, queries."""

import asyncio

from aio_cosmos.client import CosmosError, get_client
from operations import ENDPOINT, KEY, Program, equal

program = Program("aio-cosmos")
DATABASE = program.database


async def main() -> None:
    async with get_client(ENDPOINT, KEY, raise_on_failure=True) as client:
        await use(client)
    async with get_client(ENDPOINT, KEY) as client:
        with program.operation("a client that raises no errors returns them"):
            answer = await client.get_document(DATABASE, "gone", "1", "a")
            equal((answer["status"], answer["code"]), ("failed", 404))
        with program.operation("a database is deleted"):
            equal((await client.delete_database(DATABASE))["code"], 204)
            listed = (await client.list_databases())["data"]["Databases"]
            equal([found for found in listed if found["id"] == DATABASE], [])


async def use(client) -> None:
    with program.operation("a database is created and listed"):
        equal((await client.create_database(DATABASE))["code"], 201)
        listed = (await client.list_databases())["data"]["Databases"]
        equal([found["id"] for found in listed if found["id"] == DATABASE], [DATABASE])

    with program.operation("a container is created with throughput"):
        created = await client.create_container(DATABASE, "events", "/kind", throughput=4000)
        equal(created["data"]["partitionKey"]["paths"], ["/kind"])

    with program.operation("a document is created, and the answer has a session token"):
        created = await client.create_document(DATABASE, "events", {"id": "1", "kind": "a", "n": 1}, "a")
        equal((created["code"], created["data"]["n"]), (201, 1))
        assert created["session_token"]

    with program.operation("a document of the same id is refused"):
        try:
            await client.create_document(DATABASE, "events", {"id": "1", "kind": "a"}, "a")
        except CosmosError as refused:
            equal(refused.http_status_code, 409)
        else:
            raise AssertionError("created twice")

    with program.operation("a document is upserted in its session"):
        answer = await client.create_document(DATABASE, "events", {"id": "1", "kind": "a", "n": 2}, "a", upsert=True)
        equal((answer["code"], answer["data"]["n"]), (200, 2))

    with program.operation("a document is read"):
        answer = await client.get_document(DATABASE, "events", "1", "a")
        equal((answer["code"], answer["data"]["n"]), (200, 2))

    with program.operation("many documents are created at once"):
        documents = [({"id": str(n), "kind": "b", "n": n}, "b") for n in range(10, 40)]
        answers = await client.create_documents(DATABASE, "events", documents)
        equal({answer["code"] for answer in answers}, {201})

    with program.operation("a query in one partition is paged to its end"):
        query = "SELECT c.n FROM c WHERE c.n >= 35 ORDER BY c.n"
        pages = [page["data"] async for page in client.query_documents(DATABASE, "events", query, "b")]
        equal([row["n"] for page in pages for row in page], [35, 36, 37, 38, 39])

    with program.operation("a query crosses partitions"):
        query = "SELECT VALUE COUNT(1) FROM c"
        asked = client.query_documents(DATABASE, "events", query, enable_cross_partition_query=True)
        equal([page["data"] async for page in asked], [[31]])

    with program.operation("a document is deleted"):
        equal((await client.delete_document(DATABASE, "events", "1", "a"))["code"], 204)

    with program.operation("a container is deleted"):
        equal((await client.delete_container(DATABASE, "events"))["code"], 204)


asyncio.run(main())
program.end()
