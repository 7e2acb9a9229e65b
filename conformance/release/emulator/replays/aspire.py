"""Aspire's `AddAzureCosmosDB(…).RunAsEmulator()` replayed: the classic emulator's contract.

Read from src/Aspire.Hosting.Azure.CosmosDB of Aspire, commit d44e195 of 21 March 2026.
"""

import os

from docker_calls import Docker
from dotnet_sdk import CosmosClient
from operations import Program

KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="


def main() -> None:
    replay = Program("Aspire: RunAsEmulator (replay)", "13.2")
    docker = Docker()
    settings = {"AZURE_COSMOS_EMULATOR_PARTITION_COUNT": "25", "AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE": "true"}
    with docker.run(os.environ["ORRERY_IMAGE"], settings, [8081]) as container:
        # `AzureCosmosDBEmulatorConnectionString`: the key first, and no check of the certificate.
        port = container.port(8081)
        text = f"AccountKey={KEY};AccountEndpoint=https://127.0.0.1:{port};DisableServerCertificateValidation=True;"
        client = CosmosClient(text, limit_to_endpoint=True)
        with replay.operation("the health check reads the account until it answers"):
            container.wait_for_log("Started")
            client.read_account()
        with replay.operation("OnResourceReady makes the databases and containers of the application"):
            assert client.create_database_if_not_exists("shop") == 201
            assert client.create_container_if_not_exists("shop", "items", "/pk") == 201
            assert client.create_database_if_not_exists("shop") == 200
        with replay.operation("an application finds its database and container in the connection string"):
            items = "dbs/shop/colls/items"
            application = CosmosClient(f"{text}Database=shop;Container=items", limit_to_endpoint=True)
            application.create_item(items, {"id": "1", "pk": "a", "name": "first"}, ["a"])
            assert application.query(items, "SELECT VALUE c.name FROM c") == ["first"]
    replay.end()


main()
