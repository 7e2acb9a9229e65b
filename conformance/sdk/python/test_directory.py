"""Clients with a directory identity (Microsoft Entra ID) instead of a key, on a server that accepts them unverified.

Over https only: the SDK sends no bearer token over http.
"""

import asyncio
import base64
import json
import time
from pathlib import Path

import pytest
from azure.core.credentials import AccessToken
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsynchronousClient
from azure.cosmos.exceptions import CosmosHttpResponseError

from orrery_server import Server

AUDIENCE = "https://localhost.localhost"


def part(content):
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def token(life_seconds=3_600, audience=AUDIENCE):
    """Returns a token in the form that Entra issues, without a valid signature."""
    now = int(time.time())
    header = {"typ": "JWT", "alg": "RS256", "kid": "nobody"}
    claims = {"aud": audience, "iss": "https://nobody.example/", "nbf": now - 1, "exp": now + life_seconds, "oid": "me"}
    return f"{part(header)}.{part(claims)}.{part('unsigned')}"


class Credential:
    """The object that the SDK asks for a token."""

    def __init__(self, text):
        self.text = text

    def get_token(self, *scopes, **options):
        assert scopes
        return AccessToken(self.text, int(time.time()) + 3_600)


class AsynchronousCredential(Credential):
    async def get_token(self, *scopes, **options):
        return super().get_token(*scopes, **options)

    async def close(self):
        pass


@pytest.fixture(scope="module")
def believing(tmp_path_factory):
    """A server that accepts every token for one audience without verification."""
    log = Path(tmp_path_factory.mktemp("orrery")) / "server.log"
    server = Server.start(log, "--memory", "--entra", "accept-any", "--entra-audience", AUDIENCE)
    with CosmosClient(server.endpoints.https, credential=server.endpoints.key, connection_verify=False) as client:
        client.create_database("blog").create_container("posts", PartitionKey(path="/pk"))
    yield server.endpoints.https
    server.stop()


def open_client(endpoint, text):
    return CosmosClient(endpoint, credential=Credential(text), connection_verify=False)


def test_an_identity_handles_items_and_reads_what_is_above_them(believing):
    with open_client(believing, token()) as client:
        container = client.get_database_client("blog").get_container_client("posts")
        assert container.read()["id"] == "posts"
        container.create_item({"id": "1", "pk": "a"})
        assert container.read_item("1", "a")["pk"] == "a"
        assert [item["id"] for item in container.query_items("SELECT * FROM c", partition_key="a")] == ["1"]
        container.delete_item("1", "a")


def test_an_identity_manages_nothing_above_items(believing):
    with open_client(believing, token()) as client:
        for refused in (
            lambda: client.create_database("other"),
            lambda: client.get_database_client("blog").delete_container("posts"),
            lambda: client.get_database_client("blog").create_user({"id": "ann"}),
        ):
            with pytest.raises(CosmosHttpResponseError) as error:
                refused()
            assert (error.value.status_code, error.value.sub_status) == (403, 5300)


@pytest.mark.parametrize(
    "text, sub_status",
    [
        (token(life_seconds=-1), 5006),
        (token(audience="https://other.example"), 5008),
        ("no-token", 5003),
    ],
    ids=["expired", "for another audience", "no token"],
)
def test_what_is_wrong_with_a_token_is_said(believing, text, sub_status):
    with pytest.raises(CosmosHttpResponseError) as refused:
        with open_client(believing, text):
            pass
    assert (refused.value.status_code, refused.value.sub_status) == (401, sub_status)


def test_a_server_without_a_directory_refuses_identities(endpoints):
    with pytest.raises(CosmosHttpResponseError) as refused:
        with open_client(endpoints.https, token()):
            pass
    assert (refused.value.status_code, refused.value.sub_status) == (401, 5002)


def test_the_asynchronous_client_brings_an_identity_too(believing):
    async def scenario():
        async with AsynchronousClient(
            believing, credential=AsynchronousCredential(token()), connection_verify=False
        ) as client:
            container = client.get_database_client("blog").get_container_client("posts")
            await container.upsert_item({"id": "2", "pk": "b"})
            assert (await container.read_item("2", "b"))["id"] == "2"

    asyncio.run(scenario())
