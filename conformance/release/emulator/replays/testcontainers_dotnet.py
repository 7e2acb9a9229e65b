"""Testcontainers.CosmosDb 4.9.0 (.NET) replayed: `CosmosDbBuilder`, its connection string, and its own test.

Read from src/Testcontainers.CosmosDb and tests/Testcontainers.CosmosDb.Tests of testcontainers-dotnet.
"""

import os

from docker_calls import Docker
from dotnet_sdk import CosmosClient
from operations import Program

KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="


def main() -> None:
    replay = Program("Testcontainers for .NET: Testcontainers.CosmosDb (replay)", "4.9.0")
    docker = Docker()
    settings = {"ENABLE_EXPLORER": "false", "ENABLE_TELEMETRY": "false"}
    with docker.run(os.environ["ORRERY_IMAGE"], settings, [8081]) as container:
        with replay.operation("UntilMessageIsLogged finds `Started`"):
            container.wait_for_log("Started")
        # `GetAccountEndpoint` builds an address with a slash at its end.
        text = f"AccountEndpoint=http://{docker.host}:{container.port(8081)}/;AccountKey={KEY}"
        client = CosmosClient(text)
        with replay.operation("AccountPropertiesIdReturnsLocalhost, the module's own test"):
            assert client.read_account()["id"] == "cosmosdev"
        with replay.operation("the client writes, reads and queries over plain http"):
            assert client.create_database_if_not_exists("shop") == 201
            assert client.create_container_if_not_exists("shop", "items", "/pk") == 201
            items = "dbs/shop/colls/items"
            client.create_item(items, {"id": "1", "pk": "a", "name": "first"}, ["a"])
            assert client.read_item(items, "1", ["a"])["name"] == "first"
            assert client.query(items, "SELECT VALUE c.name FROM c") == ["first"]
    replay.end()


main()
