"""The reactions of the Java SDK to errors that come over frames: which the SDK repeats, and which its caller sees.

A fault rule injects each error. The times are those that a caller notices, and are several times what was measured.
"""

import time
from dataclasses import dataclass

import pytest
from management import Management

HOME = {"database": "direct", "container": "items"}
PROPERTIES = {"id": HOME["container"], "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
READ, CREATE, QUERY = "read_item", "create_item", "query_items"
SUCCESS = {READ: 200, CREATE: 201, QUERY: 200}
# Without a wait of the client.
SOON = 2.0
# A server that says nothing: the client waits for five seconds.
NO_ANSWER_SECONDS = 4.5, 9.0


@dataclass
class Reaction:
    """A fault, and the end of an operation that the fault strikes."""

    operations: list[str]
    rule: dict
    # How many requests the rule strikes; it would strike more if the client repeated them.
    struck: int
    # What the caller gets; `None` for what it gets without the fault.
    status: int | None = None
    seconds: tuple[float, float] = (0.0, SOON)
    # True if a write takes place, though its caller gets an error.
    writes: bool = False


ALL = [READ, CREATE, QUERY]
REACTIONS = {
    "other addresses are asked for": Reaction(ALL, {"status": 410, "subStatus": 0, "count": 1}, 1),
    "a write waits before the third address": Reaction(
        [CREATE], {"status": 410, "subStatus": 0, "count": 3}, 3, seconds=(2.5, 6.0)
    ),
    "another container of the name": Reaction(ALL, {"status": 410, "subStatus": 1000, "count": 1}, 1),
    "another container for ever": Reaction(ALL, {"status": 410, "subStatus": 1000}, 2, 503),
    "a range that is gone, query": Reaction([QUERY], {"status": 410, "subStatus": 1002, "count": 1}, 1),
    "a range that is gone, point": Reaction([READ, CREATE], {"status": 410, "subStatus": 1002}, 1, 410),
    "a split": Reaction(ALL, {"status": 410, "subStatus": 1007, "count": 2}, 2, seconds=(0.5, 4.0)),
    "a move": Reaction(ALL, {"status": 410, "subStatus": 1008, "count": 2}, 2, seconds=(0.5, 4.0)),
    "a write in conflict with another": Reaction(ALL, {"status": 449, "count": 3}, 3),
    "throttled": Reaction(ALL, {"status": 429, "retryAfterMilliseconds": 5, "count": 3}, 3),
    "throttled for ever": Reaction(ALL, {"status": 429, "retryAfterMilliseconds": 1}, 10, 429),
    "a read that took too long": Reaction([READ, QUERY], {"status": 408, "count": 1}, 1),
    "a write that took too long": Reaction([CREATE], {"status": 408}, 1, 408),
    "not available": Reaction(ALL, {"status": 503}, 1, 503),
    "a connection that ends, read": Reaction([READ, QUERY], {"answer": "none", "count": 1}, 1),
    "a connection that ends before a write": Reaction([CREATE], {"answer": "none"}, 1, 408),
    "a connection that ends after a write": Reaction(
        [CREATE], {"answer": "none", "when": "after"}, 1, 408, writes=True
    ),
    "no answer to a read": Reaction(
        [READ, QUERY], {"delayMilliseconds": 7000, "count": 1}, 1, seconds=NO_ANSWER_SECONDS
    ),
    "no answer to a write": Reaction(
        [CREATE], {"delayMilliseconds": 7000, "when": "after"}, 1, 408, NO_ANSWER_SECONDS, writes=True
    ),
}


def _ask(client, operation: str, number: int) -> dict:
    item = {"id": f"n{number}", "pk": "p"}
    given = {
        READ: {"id": "a", "partition_key": ["p"]},
        CREATE: {"item": item, "partition_key": ["p"]},
        QUERY: {"query": "SELECT * FROM c WHERE c.id = 'a'"},
    }
    return client.ask(operation, HOME | given[operation])


def test_errors_over_frames(start, subtests):
    world = start()
    client, endpoints = world.client(), world.server.endpoints
    management = Management(endpoints.admin, endpoints.admin_key)
    client.ask("create_database", {"database": HOME["database"]})
    client.ask("create_container", {"database": HOME["database"], "properties": PROPERTIES, "throughput": 10000})
    client.ask("create_item", HOME | {"item": {"id": "a", "pk": "p"}, "partition_key": ["p"]})
    number = 0
    for operation in ALL:
        # The first of each makes its connections and classes.
        number += 1
        assert _ask(client, operation, number)["status"] == SUCCESS[operation]
    for name, reaction in REACTIONS.items():
        for operation in reaction.operations:
            number += 1
            with subtests.test(name, operation=operation):
                _check(client, management, operation, reaction, number)


def _check(client, management, operation: str, reaction: Reaction, number: int) -> None:
    fault = management.fault(**HOME, operations=[operation], **reaction.rule)
    began = time.monotonic()
    answer = _ask(client, operation, number)
    seconds = time.monotonic() - began
    struck = management.struck(fault)
    management.call("DELETE", fault)
    expected = reaction.status or SUCCESS[operation]
    assert (answer.get("status"), struck) == (expected, reaction.struck), answer
    least, most = reaction.seconds
    assert least <= seconds <= most, f"{seconds:.2f} s"
    if operation == CREATE:
        is_there = client.ask(READ, HOME | {"id": f"n{number}", "partition_key": ["p"]})["status"]
        assert is_there == (200 if reaction.writes or expected == 201 else 404)
