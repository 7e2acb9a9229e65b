"""Nodes in two regions under the Python SDK: the addresses that a client uses, and the loss of a region.

The clients are those of an application: no retry of their own, unless the test says so.
"""

import pytest
from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

WEST, EAST = "West US", "East Asia"


def client_at(address, key, preferred):
    return CosmosClient(address, credential=key, preferred_locations=preferred)


def client_of(node, preferred):
    return client_at(node.endpoints.http, node.endpoints.key, preferred)


def names(places):
    return [place["name"] for place in places]


def wait_for_regions(node, expected):
    """Waits until the account has these regions for reads, with the region for writes first."""
    while True:
        with client_of(node, []) as client:
            account = client.get_database_account()
        if names(account.ReadableLocations) == expected:
            assert names(account.WritableLocations) == expected[:1]
            return account


@pytest.fixture
def nodes(fleet):
    """A node in each region; the one in the west holds the lease."""
    west, east = fleet.start("west", WEST), fleet.start("east", EAST)
    wait_for_regions(east, [WEST, EAST])
    return west, east


def create_container(node):
    with client_of(node, []) as client:
        client.create_database("db").create_container("items", PartitionKey(path="/pk"))


def container_of(client):
    return client.get_database_client("db").get_container_client("items")


def test_each_region_has_the_address_of_its_node(nodes):
    west, east = nodes
    for node in nodes:
        account = wait_for_regions(node, [WEST, EAST])
        addresses = {place["name"]: place["databaseAccountEndpoint"] for place in account.ReadableLocations}
        assert addresses == {WEST: west.endpoints.http, EAST: east.endpoints.http}


@pytest.mark.parametrize("preferred, used", [([EAST], "east"), ([WEST], "west"), ([EAST, WEST], "east"), ([], "east")])
def test_reads_go_to_the_preferred_region_and_writes_to_the_address_of_the_client(nodes, preferred, used):
    west, east = nodes
    create_container(east)
    asked = []

    def note(response):
        asked.append(response.http_request.url)

    with client_of(east, preferred) as client:
        container = container_of(client)
        container.create_item({"id": "1", "pk": "p"}, raw_response_hook=note)
        assert container.read_item("1", "p", raw_response_hook=note)["pk"] == "p"
    addresses = {"west": west.endpoints.http, "east": east.endpoints.http}
    assert asked[0].startswith(addresses["east"])
    assert asked[1].startswith(addresses[used])


def create_until_done(container, number):
    """Creates an item, as an application does that goes on after an error; returns the number of errors."""
    errors = 0
    while True:
        try:
            container.create_item({"id": str(number), "pk": "p"})
            return errors
        except CosmosHttpResponseError as error:
            # After an unknown outcome the item may be there.
            if error.status_code == 409 and errors > 0:
                return errors
            assert error.status_code in (408, 503), error
        except (ServiceRequestError, ServiceResponseError):
            pass
        errors += 1


@pytest.mark.parametrize("lost", [WEST, EAST], ids=["the region of the writes", "the other region"])
@pytest.mark.parametrize("preferred", [[EAST, WEST], [WEST, EAST]], ids=["east first", "west first"])
def test_a_client_goes_on_when_a_region_is_lost(fleet, nodes, balancer, lost, preferred):
    west, east = nodes
    create_container(west)
    kept, gone = (east, west) if lost == WEST else (west, east)
    kept_region = EAST if lost == WEST else WEST
    # One application uses the address of a node, the other one that of a balancer in front of all nodes.
    balanced = balancer(gone.endpoints.http, kept.endpoints.http)
    key = kept.endpoints.key
    with client_of(kept, preferred) as first, client_at(balanced, key, preferred) as second:
        clients = [container_of(first), container_of(second)]
        for number, container in enumerate(clients):
            assert create_until_done(container, number) == 0
        fleet.kill(gone)
        # The first write waits for the next leaseholder, and has no error.
        assert create_until_done(clients[0], 2) == 0
        create_until_done(clients[1], 3)
        for number in range(4, 24):
            container = clients[number % 2]
            assert create_until_done(container, number) == 0
            assert container.read_item("0", "p")["id"] == "0"
            ids = container.query_items("SELECT VALUE c.id FROM c", partition_key="p")
            assert sorted(int(id) for id in ids) == list(range(number + 1))
    wait_for_regions(kept, [kept_region])

    # The region comes back as one that takes reads.
    fleet.start("back", lost)
    wait_for_regions(kept, [kept_region, lost])


def test_a_node_that_ends_in_order_loses_no_request_of_the_other_region(fleet, nodes):
    west, east = nodes
    create_container(west)
    with client_of(east, [EAST]) as client:
        container = container_of(client)
        container.create_item({"id": "1", "pk": "p"})
        fleet.stop(west)
        assert container.read_item("1", "p")["id"] == "1"
        create_until_done(container, 2)
    wait_for_regions(east, [EAST])
