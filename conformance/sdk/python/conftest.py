"""The fixtures of every test: a server, a client per scheme, a database and a container of its own."""

import uuid

import pytest
from azure.cosmos import CosmosClient, PartitionKey

from serving import endpoints  # noqa: F401
from witness import Witness

# RU/s with which no test is throttled, in one physical partition.
PLENTY_RU = 10_000
# Autoscale RU/s for two physical partitions.
TWO_PARTITIONS_RU = 12_000


@pytest.fixture(scope="session", params=["http", "https"])
def scheme(request):
    return request.param


@pytest.fixture(scope="session")
def endpoint(endpoints, scheme):
    return endpoints.of(scheme)


@pytest.fixture(scope="session")
def key(endpoints):
    return endpoints.key


@pytest.fixture(scope="session")
def client(endpoint, key):
    witness = Witness()
    with CosmosClient(endpoint, credential=key, connection_verify=False, transport=witness) as client:
        client.witness = witness
        yield client


@pytest.fixture
def answers(client):
    """Returns a function that returns the answers since the beginning of the test."""
    mark = len(client.witness.answers)
    return lambda: client.witness.since(mark)


@pytest.fixture
def unique():
    """Creates names that no other test uses: `unique("posts")`."""
    return lambda stem: f"{stem}-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def database(client, unique):
    database = client.create_database(unique("db"))
    yield database
    client.delete_database(database)


@pytest.fixture
def container(database):
    """A container with one physical partition, partition key /pk and enough throughput."""
    return database.create_container("items", PartitionKey(path="/pk"), offer_throughput=PLENTY_RU)


@pytest.fixture
def wide_container(database):
    """A container with two physical partitions and partition key /pk."""
    return database.create_container("wide", PartitionKey(path="/pk"), offer_throughput=TWO_PARTITIONS_RU)
