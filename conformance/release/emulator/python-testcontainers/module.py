"""The module of Testcontainers for Python as its documentation uses it, in the form of an application's test."""

import os
import ssl
import urllib.request

from azure.cosmos import CosmosClient, PartitionKey
from operations import Program
from testcontainers.community.cosmosdb import CosmosDBNoSQLEndpointContainer

IMAGE = os.environ["ORRERY_IMAGE"]


def main():
    program = Program("testcontainers")
    with program.operation("the container starts with fixed ports, and its wait strategy is satisfied"):
        container = CosmosDBNoSQLEndpointContainer(image=IMAGE)
        container.start()
    try:
        with_fixed_ports(program, container)
    finally:
        container.stop()
    with program.operation("the container starts with ports of the engine's choice and ten partitions"):
        with CosmosDBNoSQLEndpointContainer(image=IMAGE, partition_count=10, bind_ports=False) as emulator:
            items = items_of(emulator.insecure_sync_client())
            assert items.read_item("1", "a")["name"] == "first"
    with program.operation("the snippet of the documentation runs"):
        snippet()
    program.end()


def with_fixed_ports(program, emulator):
    with program.operation("the certificate is read from the container, and it is the server's"):
        pem = emulator.server_certificate_pem.decode()
        context = ssl.create_default_context(cadata=pem)
        context.check_hostname = False
        urllib.request.urlopen(f"{emulator.url}/_explorer/index.html", context=context).read()
    with program.operation("the module's client writes, reads and queries"):
        items = items_of(emulator.insecure_sync_client())
        assert items.read_item("1", "a")["name"] == "first"
        found = list(items.query_items("SELECT VALUE c.name FROM c", enable_cross_partition_query=True))
        assert found == ["first"], found
    with program.operation("the module's asynchronous client lists the databases"):
        import asyncio

        async def listed():
            async with emulator.insecure_async_client() as client:
                return [database["id"] async for database in client.list_databases()]

        assert "shop" in asyncio.run(listed())


def items_of(client):
    database = client.create_database("shop")
    items = database.create_container("items", partition_key=PartitionKey("/pk"))
    items.create_item({"id": "1", "pk": "a", "name": "first"})
    return items


def snippet():
    image = IMAGE
    # snippet: python
    with CosmosDBNoSQLEndpointContainer(image=image, bind_ports=False) as emulator:
        client = CosmosClient(emulator.url, emulator.key, connection_verify=False)
        database = client.create_database("shop")
        items = database.create_container("items", partition_key=PartitionKey("/pk"))
        items.create_item({"id": "1", "pk": "a", "name": "first"})
        assert items.read_item("1", partition_key="a")["name"] == "first"
    # end


if __name__ == "__main__":
    main()
