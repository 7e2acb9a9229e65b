"""Nodes in two regions under the Java SDK: a client with preferred regions goes on when one of them is lost."""

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "sdk" / "scenarios"))

from driver import Driver  # noqa: E402
from test_regions import EAST, WEST, create_container, wait_for_regions  # noqa: E402

CLASS_PATH = "ORRERY_JAVA_CLASS_PATH"
PLACE = {"database": "db", "container": "items"}
# The answers after which an application goes on: the outcome is unknown, or no node held the lease.
LOST = (408, 503)


@pytest.fixture
def driver(tmp_path):
    """Starts the driver of the Java SDK that `conformance/sdk/scenarios` has."""
    started = []

    def start(node):
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command = ["java", *options, "-cp", os.environ[CLASS_PATH], "orrery.Main"]
        log = tmp_path / f"driver{len(started)}.log"
        # With preferred regions, the SDK puts their names into the host name, and refuses an address of numbers.
        endpoint = node.endpoints.http.replace("127.0.0.1", "localhost")
        started.append(Driver(command, endpoint, node.endpoints.key, log))
        return started[-1]

    yield start
    for one in started:
        one.__exit__()


def create_until_done(client, number):
    """Creates an item, as an application does that goes on after an error; returns the number of errors."""
    errors = 0
    while True:
        item = {"id": str(number), "pk": "p"}
        answer = client.ask("create_item", PLACE | {"item": item, "partition_key": ["p"]})
        if answer.get("status") == 201 or (answer.get("status") == 409 and errors > 0):
            return errors
        assert answer.get("status") in LOST or "raised" in answer, answer
        errors += 1


@pytest.mark.parametrize("lost", [WEST, EAST], ids=["the region of the writes", "the other region"])
def test_a_java_client_goes_on_when_a_region_is_lost(fleet, driver, lost):
    west, east = fleet.start("west", WEST), fleet.start("east", EAST)
    wait_for_regions(east, [WEST, EAST])
    create_container(west)
    kept, gone = (east, west) if lost == WEST else (west, east)
    kept_region = EAST if lost == WEST else WEST
    client = driver(kept)
    assert client.ask("connect", {"preferred_regions": [lost, kept_region]})["status"] == 200
    assert create_until_done(client, 0) == 0
    fleet.kill(gone)
    # The first write waits for the next leaseholder, and has no error.
    for number in range(1, 20):
        assert create_until_done(client, number) == 0
        read = client.ask("read_item", PLACE | {"id": "0", "partition_key": ["p"]})
        assert read["status"] == 200, read
        query = client.ask("query_items", PLACE | {"query": "SELECT VALUE c.id FROM c", "partition_key": ["p"]})
        assert sorted(map(int, query["items"])) == list(range(number + 1)), query
    wait_for_regions(kept, [kept_region])
