"""Who may come in: the account key, and nothing that looks like it."""

import base64

import pytest
from azure.cosmos import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError


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
