"""Direct mode over time: requests for addresses, a container that is created again, and http."""

import base64
import email.utils
import hashlib
import hmac
import re
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

DATABASE, CONTAINER = "direct", "items"
HOME = {"database": DATABASE, "container": CONTAINER}
PROPERTIES = {"id": CONTAINER, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
# The first write of a client that knows the deleted container only.
FIRST_WRITE_SECONDS_MAX = 1.0


def _expect(status: int, answer: dict) -> dict:
    assert answer.get("status") == status, answer
    return answer


def _make_container(client, throughput: int = 400) -> None:
    asked = {"database": DATABASE, "properties": PROPERTIES, "throughput": throughput}
    _expect(201, client.ask("create_container", asked))


def _create(client, number: int) -> None:
    item = {"id": f"i{number}", "pk": f"p{number % 10}", "n": number}
    _expect(201, client.ask("create_item", HOME | {"item": item, "partition_key": [item["pk"]]}))


def _read(client, number: int) -> dict:
    return client.ask(
        "read_item", HOME | {"id": f"i{number}", "partition_key": [f"p{number % 10}"]}
    )


def _address_requests(server) -> int:
    """Returns how often clients have asked for addresses."""
    endpoints = server.endpoints
    headers = {"authorization": f"Bearer {endpoints.admin_key}"}
    request = urllib.request.Request(endpoints.admin.rstrip("/") + "/metrics", headers=headers)
    with urllib.request.urlopen(request) as answer:
        text = answer.read().decode()
    return sum(
        map(int, re.findall(r'^orrery_requests_total\{op="read_addresses".*\} (\d+)$', text, re.M))
    )


@pytest.mark.parametrize("level", ["session", "strong"])
def test_steady_state_asks_for_no_addresses(start, level):
    world = start("--consistency", level)
    client = world.client()
    _expect(201, client.ask("create_database", {"database": DATABASE}))
    # Three physical partitions.
    _make_container(client, throughput=24000)
    query = {"query": "SELECT * FROM c WHERE c.n >= 0"}
    for number in range(20):
        _create(client, number)
        _expect(200, _read(client, number))
    _expect(200, client.ask("query_items", HOME | query))
    _expect(200, client.ask("read_database", {"database": DATABASE}))
    before = _address_requests(world.server)
    assert before > 0, "the client did not connect in direct mode"
    for number in range(20, 60):
        _create(client, number)
        _expect(200, _read(client, number))
        _expect(404, _read(client, number + 1000))
    assert len(_expect(200, client.ask("query_items", HOME | query))["items"]) == 60
    # Reads of a database go to the master, and ask for a quorum at each level.
    for _ in range(5):
        _expect(200, client.ask("read_database", {"database": DATABASE}))
    assert _address_requests(world.server) == before


def test_a_client_writes_at_once_to_a_container_that_was_created_again(start):
    world = start()
    old, other = world.client(), world.client()
    _expect(201, old.ask("create_database", {"database": DATABASE}))
    _make_container(old)
    for number in range(10):
        _create(old, number)
    for _ in range(3):
        _expect(204, other.ask("delete_container", HOME))
        _make_container(other)
        began = time.monotonic()
        _create(old, 1)
        seconds = time.monotonic() - began
        assert seconds < FIRST_WRITE_SECONDS_MAX
        for number in range(2, 10):
            _create(old, number)
        _expect(404, _read(old, 0))
        items = _expect(200, old.ask("query_items", HOME | {"query": "SELECT c.n FROM c"}))["items"]
        assert sorted(item["n"] for item in items) == list(range(1, 10))


def test_addresses_over_http_are_refused_with_the_remedy(start):
    endpoints = start().server.endpoints
    date = email.utils.formatdate(usegmt=True)
    signed = f"get\ndbs\n\n{date.lower()}\n\n".encode()
    digest = hmac.new(base64.b64decode(endpoints.key), signed, hashlib.sha256).digest()
    token = f"type=master&ver=1.0&sig={base64.b64encode(digest).decode()}"
    headers = {
        "x-ms-date": date,
        "x-ms-version": "2020-07-15",
        "authorization": urllib.parse.quote(token, safe=""),
    }
    path = "addresses/?$resolveFor=dbs&$filter=protocol%20eq%20rntbd"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(endpoints.http + path, headers=headers))
    assert refused.value.code == 400
    assert "https" in refused.value.read().decode()
