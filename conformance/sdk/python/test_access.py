"""Access with the account key, with permissions, and refusals of everything else."""

import base64
import os

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

from orrery_server import Server


def test_the_account_names_the_address_that_the_client_came_by(client, endpoint):
    account = client.get_database_account()
    assert account.ConsistencyPolicy["defaultConsistencyLevel"] == "Session"
    for location in account.WritableLocations + account.ReadableLocations:
        assert location["databaseAccountEndpoint"].rstrip("/") == endpoint.rstrip("/")


def test_a_wrong_key_is_unauthorized(endpoint):
    wrong = base64.b64encode(b"x" * 64).decode()
    with pytest.raises(CosmosHttpResponseError) as refused:
        CosmosClient(endpoint, credential=wrong, connection_verify=False)
    assert refused.value.status_code == 401


def test_a_client_opens_from_a_connection_string(endpoint, key, database):
    text = f"AccountEndpoint={endpoint};AccountKey={key};"
    with CosmosClient.from_connection_string(text, connection_verify=False) as client:
        assert client.get_database_client(database.id).read()["id"] == database.id


def test_a_stronger_consistency_than_the_account_has_is_refused(endpoint, key, container, database):
    with pytest.raises((CosmosHttpResponseError, ValueError)) as refused:
        with CosmosClient(endpoint, credential=key, connection_verify=False, consistency_level="Strong") as client:
            client.get_database_client(database.id).get_container_client(container.id).read_item("1", "p")
    if isinstance(refused.value, CosmosHttpResponseError):
        assert refused.value.status_code == 400


def test_a_client_without_credentials_is_unauthorized(endpoint):
    with pytest.raises(CosmosHttpResponseError) as refused:
        CosmosClient(endpoint, credential={}, connection_verify=False)
    assert refused.value.status_code == 401


def test_a_list_of_permissions_opens_a_client(database, container, endpoint):
    user = database.create_user({"id": "ann"})
    link = f"dbs/{database.id}/colls/{container.id}"
    user.create_permission({"id": "p", "permissionMode": "Read", "resource": link})
    with CosmosClient(endpoint, credential=list(user.list_permissions()), connection_verify=False) as client:
        assert client.get_database_account().ConsistencyPolicy["defaultConsistencyLevel"] == "Session"


@pytest.fixture
def server_with(tmp_path):
    """Starts servers with other options than the suite's: `server_with("--region", "West US")`."""
    if os.environ.get("ORRERY_ENDPOINT"):
        pytest.skip("the server that was named has the options that it has")
    servers = []

    def start(*arguments):
        servers.append(Server.start(tmp_path / f"server-{len(servers)}.log", "--memory", *arguments))
        return servers[-1].endpoints

    yield start
    for server in servers:
        server.stop()


@pytest.mark.parametrize("preferred", [[], ["East US"], ["East US", "West US"], ["Nowhere"]])
def test_a_client_may_prefer_a_region(server_with, preferred):
    if os.environ.get("ORRERY_ON_POSTGRES_PROGRAM"):
        pytest.skip("a node on clusters is in one region: conformance/faults/regions has several nodes")
    endpoints = server_with("--region", "West US", "--region", "East US", "--region", "North Europe")
    options = {"connection_verify": False, "preferred_locations": preferred}
    with CosmosClient(endpoints.http, credential=endpoints.key, **options) as client:
        account = client.get_database_account()
        assert [place["name"] for place in account.WritableLocations] == ["West US"]
        assert [place["name"] for place in account.ReadableLocations] == ["West US", "East US", "North Europe"]
        container = client.create_database("db").create_container("items", PartitionKey(path="/pk"))
        container.create_item({"id": "1", "pk": "p"})
        assert container.read_item("1", "p")["pk"] == "p"
        assert [item["id"] for item in container.query_items("SELECT * FROM c", partition_key="p")] == ["1"]


def test_the_account_has_the_consistency_that_its_operator_chose(server_with):
    endpoints = server_with("--consistency", "strong")
    for level in [None, "Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"]:
        options = {"connection_verify": False, "consistency_level": level}
        with CosmosClient(endpoints.http, credential=endpoints.key, **options) as client:
            assert client.get_database_account().ConsistencyPolicy["defaultConsistencyLevel"] == "Strong"
            container = client.create_database_if_not_exists("db").create_container_if_not_exists(
                "items", PartitionKey(path="/pk")
            )
            container.upsert_item({"id": "1", "pk": "p", "level": level})
            assert container.read_item("1", "p")["level"] == level
