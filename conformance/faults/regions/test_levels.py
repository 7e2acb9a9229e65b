"""The consistency levels at a node that reads a standby, under the Python SDK.

A writer in one region counts two items up, the second after the first. Readers in another region, whose standby is
shown with a delay on purpose, read both at each level. The checks look for reads that are older than the level allows,
and for older reads where the level allows them: without these the test would show nothing.
"""

import threading

import pytest
from azure.cosmos import CosmosClient
from test_regions import EAST, WEST, container_of, create_container, wait_for_regions

DELAY_MS = 400
ROUNDS = 150
FIRST, SECOND = "first", "second"


@pytest.fixture
def nodes(fleet, standby):
    """The node in the west holds the lease; the one in the east reads the standby with a delay."""
    west = fleet.start("west", WEST, "--consistency", "strong")
    fleet.add_standby(standby, DELAY_MS)
    east = fleet.start("east", EAST, "--consistency", "strong")
    wait_for_regions(east, [WEST, EAST])
    return west, east


class Counters:
    """Two items, and the counts that their writer has had acknowledged."""

    def __init__(self, node):
        self.acknowledged = {FIRST: 0, SECOND: 0}
        self._client = CosmosClient(node.endpoints.http, credential=node.endpoints.key, consistency_level="Strong")
        self.container = container_of(self._client)
        for name in self.acknowledged:
            self.container.create_item({"id": name, "pk": "p", "count": 0})

    def count(self, container=None):
        """Counts both items up, through the client of the writer unless another one is given."""
        for name in self.acknowledged:
            count = self.acknowledged[name] + 1
            (container or self.container).upsert_item({"id": name, "pk": "p", "count": count})
            self.acknowledged[name] = count


class Reader:
    """A client in the east, and the answers that standbys gave it."""

    def __init__(self, node, level):
        address, key = node.endpoints.http, node.endpoints.key
        self.client = CosmosClient(address, credential=key, consistency_level=level, preferred_locations=[EAST, WEST])
        self.container = container_of(self.client)
        self.from_standby = 0

    def _note(self, headers, *_):
        self.from_standby += headers.get("x-orrery-answered-by") == "standby"

    def read(self, name):
        return self.container.read_item(name, "p", response_hook=self._note)["count"]

    def rows(self):
        """Returns the counts by item that one query shows."""
        query = "SELECT c.id, c['count'] FROM c"
        rows = self.container.query_items(query, partition_key="p", response_hook=self._note)
        return {row["id"]: row["count"] for row in rows}

    def both(self):
        counts = self.rows()
        return counts[FIRST], counts[SECOND]


@pytest.fixture
def counters(nodes):
    west, east = nodes
    create_container(west)
    counters = Counters(west)
    # The standby may not have the items yet, and the node in the east not the standby.
    reader = Reader(east, "Eventual")
    while len(reader.rows()) < 2 or not reader.from_standby:
        pass
    return counters


def stale_reads(counters, reader, level):
    """Returns the number of reads that were older than the last write acknowledged before; a writer goes on meanwhile."""
    is_over = threading.Event()

    def write():
        while not is_over.is_set():
            counters.count()

    writer = threading.Thread(target=write)
    writer.start()
    stale, last = 0, 0
    try:
        for _ in range(ROUNDS):
            least = counters.acknowledged[FIRST]
            found = reader.read(FIRST)
            stale += found < least
            # A session never goes back.
            assert found >= last or level != "Session"
            last = found
            first, second = reader.both()
            # The second one is written after the first: no prefix of the history has it ahead.
            assert first - second in (0, 1), (first, second)
    finally:
        is_over.set()
        writer.join()
    return stale


@pytest.mark.parametrize("level", ["Strong", "BoundedStaleness"])
def test_a_level_that_allows_no_old_state_shows_none(nodes, counters, level):
    reader = Reader(nodes[1], level)
    assert stale_reads(counters, reader, level) == 0
    assert reader.from_standby == 0


@pytest.mark.parametrize("level", ["Session", "ConsistentPrefix", "Eventual"])
def test_a_client_that_does_not_write_reads_old_states(nodes, counters, level):
    reader = Reader(nodes[1], level)
    stale = stale_reads(counters, reader, level)
    assert stale > 0
    assert reader.from_standby > 0


def test_a_session_reads_its_own_writes_beside_a_standby_that_is_behind(nodes, counters):
    session = Reader(nodes[1], "Session")
    other = Reader(nodes[1], "Eventual")
    stale = 0
    for _ in range(ROUNDS):
        counters.count(session.container)
        expected = counters.acknowledged[FIRST]
        assert session.read(FIRST) == expected
        assert session.both() == (expected, expected)
        stale += other.read(FIRST) < expected
    # The standby was behind all the time.
    assert stale > ROUNDS / 2
