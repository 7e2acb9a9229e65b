"""Splits and merges of the container while clients work, through the management API.

    splits   one physical partition after the other is split, and merged back when there are many
    merges   two adjacent partitions are merged, and split again when one is left
    mixed    splits or merges, at random
    raises   the SDK provisions more throughput in steps of `STEP`, for which partitions must split

A merge combines siblings, the two halves of a range. If other adjacent ranges are merged and then split at another
point, the Python SDK continues a change feed in the whole of each new range although only a part of it belonged to the
old one (4.17.1, `FeedRangeCompositeContinuation.handle_feed_range_gone`), and so sees changes twice.

Promises: each action has ended, with success or failure, before the next begins.
"""

import http.client
import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from azure.core.exceptions import AzureError
from azure.cosmos import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError

from history import Action

# The number of physical partitions below which only splits are done, and the number above which only merges are done.
FEW, MANY = 2, 6
ANSWER_SECONDS_MAX = 60
# The most RU/s of a physical partition: each step needs one more partition.
STEP = 10_000


class Refused(Exception):
    """The management API answered with an error."""


class Management:
    """The management API of one server, for one container."""

    def __init__(self, endpoint: str, token: str, database: str, container: str):
        self._endpoint, self._token = endpoint.rstrip("/"), token
        self._home = f"/dbs/{database}/colls/{container}/partitions"

    def partitions(self) -> list[dict]:
        """Returns the live physical partitions in the order of the hash space."""
        return sorted(self._ask("GET", self._home)["partitions"], key=lambda partition: partition["minInclusive"])

    def split(self, partition: str) -> dict:
        return self._ask("POST", f"{self._home}/{partition}/split", {})

    def merge(self, partitions: list[str]) -> dict:
        return self._ask("POST", f"{self._home}/merge", {"ids": partitions})

    def finish(self, id: str) -> dict:
        """Executes all remaining steps of an operation and waits for its end."""
        return self._ask("POST", f"/operations/{id}", {"action": "finish"})

    def _ask(self, method: str, path: str, body: dict | None = None) -> dict:
        request = urllib.request.Request(self._endpoint + path, method=method)
        request.add_header("Authorization", f"Bearer {self._token}")
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, ANSWER_SECONDS_MAX) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}") from error


class Raises:
    """Throughput that is raised until the partitions have been split for it."""

    def __init__(self, endpoint: str, key: str, database: str, container: str):
        self._made = lambda: CosmosClient(endpoint, key).get_database_client(database).get_container_client(container)
        self._container = None

    def next(self, wait: Callable[[], None]) -> Action:
        """Raises the throughput once and returns the result. `wait` lets the clients continue meanwhile."""
        action = Action("raise", time.monotonic_ns(), 0)
        try:
            self._container = self._container or self._made()
            wanted = (self._container.get_throughput().offer_throughput // STEP + 1) * STEP + 1000
            action.detail = str(wanted)
            self._container.replace_throughput(wanted)
            while self._container.get_throughput().properties["content"].get("isOfferReplacePending"):
                wait()
        except CosmosHttpResponseError as refused:
            action.outcome, action.detail = "failed", f"{action.detail}: {refused}"
        except AzureError as broken:  # killed; the next request shows the result
            action.outcome, action.detail = "unknown", f"{action.detail}: {broken}"
        action.returned = time.monotonic_ns()
        return action


class Actions:
    """One split or merge after the other, according to a plan."""

    def __init__(self, plan: str, management: Management, chance: random.Random):
        self.plan, self.management, self.chance = plan, management, chance

    def next(self, wait: Callable[[], None]) -> Action:
        """Does one split or merge and returns the result. `wait` lets the clients continue meanwhile."""
        action = Action("look", time.monotonic_ns(), 0)
        try:
            action.do, which = self.choose(self.management.partitions())
            action.detail = " ".join(which)
            if action.do == "split":
                operation = self.management.split(which[0])
            else:
                operation = self.management.merge(which)
            wait()
            operation = self.management.finish(operation["id"])
            action.outcome = "ok" if operation["status"] == "done" else "failed"
            if action.outcome != "ok":
                action.detail += f": {json.dumps(operation)}"
        except Refused as refused:
            action.outcome, action.detail = "failed", f"{action.detail}: {refused}"
        except (OSError, http.client.HTTPException) as broken:  # killed; the next request shows the result
            action.outcome, action.detail = "unknown", f"{action.detail}: {broken}"
        action.returned = time.monotonic_ns()
        return action

    def choose(self, partitions: list[dict]) -> tuple[str, list[str]]:
        """Returns the next action for these partitions, in the order of their ranges, and its partitions."""
        pairs = [[one["id"], two["id"]] for one, two in zip(partitions, partitions[1:]) if are_siblings(one, two)]
        if len(partitions) < FEW or not pairs:
            split = True
        elif len(partitions) > MANY:
            split = False
        else:
            split = {"splits": True, "merges": False, "mixed": self.chance.random() < 0.5}[self.plan]
        if split:
            return "split", [self.chance.choice(partitions)["id"]]
        return "merge", self.chance.choice(pairs)


def are_siblings(one: dict, two: dict) -> bool:
    """Returns True if two adjacent ranges are the halves of a range that divides the hash space evenly."""
    first, border, last = point(one["minInclusive"]), point(two["minInclusive"]), point(two["maxExclusive"])
    return border - first == last - border and first % (last - first) == 0


def point(epk: str) -> int:
    """Returns a point of the hash space as a number below 2^126, and 2^126 for its end."""
    return min(int(epk.ljust(32, "0"), 16), 1 << 126) if epk else 0
