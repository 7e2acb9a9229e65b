"""Nodes of a fleet in the place of the one server: several on a PostgreSQL of the run, and faults of each kind.

Each client uses the port of one node. The leaseholder gives partitions to the others from the first request on,
so each node carries requests out and forwards others. A fault ends with all nodes running again and one of them holding
the lease, so faults do not overlap.

Promises: a node ended only by a fault; a node that lost the lease ended by itself with exit code 1.
"""

import json
import random
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "lib" / "postgres"))

from database import Database  # noqa: E402
from history import CRASH, FAULTS_OF_NODES, Action  # noqa: E402
from on_postgres import CLUSTER  # noqa: E402
from orrery_server import Server, ServerFailed, free_port  # noqa: E402

# The time after which a fault has failed in which no node holds the lease again.
LEASE_SECONDS_MAX = 60
# A node that answers takes milliseconds; one that is paused answers not at all.
ASK_SECONDS_MAX = 1
# Shorter than the time to live of the lease, which is 3 seconds.
SHORT_PAUSE_SECONDS = 1.5
REPLACED = 1
# Idle partitions are spread over the nodes too. A variable, because older programs do not know the option.
SPREAD_ALL = {"ORRERY_SPREAD_LOAD": "0"}


@dataclass(frozen=True)
class Place:
    """The address that a node listens on, and the words before its command line.

    With several programs, a node starts the next one each time; `None` is the program of the run.
    """

    address: str = "127.0.0.1"
    within: tuple[str, ...] = ()
    programs: tuple[Path | None, ...] = (None,)


class Node:
    """A node with all its restarts, on one port and one data directory."""

    def __init__(self, name: str, directory: Path, clusters: Path, place: Place = Place(), options: tuple = ()):
        self.name = name
        self._directory, self._clusters, self._place, self._options = directory, clusters, place, options
        self._port, self._lives = free_port(), 0
        # Held while the node is ended and started, so that it is not started twice.
        self._changing = threading.Lock()
        self.server = self._start()

    def kill(self) -> None:
        """Kills the node with SIGKILL and starts it again."""
        with self._changing:
            self.server.kill()
            self.server = self._start()

    def stop(self) -> None:
        """Stops the node in order and starts it again."""
        with self._changing:
            self.server.stop()
            self.server = self._start()

    def revive(self) -> None:
        """Starts the node again if it has ended, which may only be with the exit code of a node that lost the lease."""
        with self._changing:
            if self.server.exit_code() is None:
                return
            self.server.wait_for_end(REPLACED)
            self.server = self._start()

    def _start(self) -> Server:
        self._lives += 1
        log = self._directory / f"{self.name}-{self._lives}.log"
        store = ["--store", "postgres", "--cluster-file", str(self._clusters), "--node", self.name]
        words = [*store, "--data-dir", str(self._directory / self.name), *self._options]
        place = self._place
        program = place.programs[self._lives % len(place.programs)]
        options = {"port": self._port, "address": place.address, "within": place.within, "defaults": SPREAD_ALL}
        return Server.start(log, *words, **options, other_program=program)

    def holds_lease(self) -> bool:
        """Returns true if the management API of the node says so."""
        endpoints = self.server.endpoints
        request = urllib.request.Request(endpoints.admin.rstrip("/") + "/nodes")
        request.add_header("Authorization", f"Bearer {endpoints.admin_key}")
        try:
            with urllib.request.urlopen(request, timeout=ASK_SECONDS_MAX) as answer:
                nodes = json.load(answer)["nodes"]
        except OSError:
            return False
        return any(node["name"] == self.name and node["holdsLease"] == "yes" for node in nodes)

    def lead(self, other: str) -> bool:
        """Asks this node, the holder, to give the lease to another one. Returns false while it has not heard of that one."""
        endpoints = self.server.endpoints
        request = urllib.request.Request(endpoints.admin.rstrip("/") + f"/nodes/{other}/lead", data=b"", method="POST")
        request.add_header("Authorization", f"Bearer {endpoints.admin_key}")
        try:
            with urllib.request.urlopen(request, timeout=LEASE_SECONDS_MAX):
                return True
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return False


class Members:
    """Some nodes, with the interface of the one server of `run.py`."""

    def __init__(self, nodes: list[Node]):
        # Set when the run ends, which ends a pause early.
        self._end = threading.Event()
        self._nodes = nodes

    @property
    def server(self) -> Server:
        """The server of the leaseholder: the one whose management API knows the partitions."""
        return self.holder().server

    @property
    def key(self) -> str:
        return self._nodes[0].server.endpoints.key

    def endpoint(self, client: int) -> str:
        """Returns the address for a client of this number."""
        return self._nodes[client % len(self._nodes)].server.endpoints.http

    def stop(self) -> None:
        """Stops one node after the other."""
        self._end.set()
        for node in self._nodes:
            node.server.stop()

    def holder(self) -> Node:
        """Returns the leaseholder, as soon as one does."""
        return self._wait(lambda: next((node for node in self._nodes if node.holds_lease()), None))

    def _other(self, than: Node) -> Node:
        return next(node for node in self._nodes if node is not than)

    @staticmethod
    def _wait(find: Callable[[], Node | None]) -> Node:
        end = time.monotonic() + LEASE_SECONDS_MAX
        while time.monotonic() < end:
            found = find()
            if found is not None:
                return found
        raise ServerFailed(f"after {LEASE_SECONDS_MAX} s no node holds the lease, or the holder has not heard of another")

    def kill_holder(self) -> None:
        node = self.holder()
        node.kill()

    def kill_other(self) -> None:
        node = self._other(self.holder())
        node.kill()

    def stop_holder(self) -> None:
        node = self.holder()
        node.stop()

    def pause_holder(self) -> None:
        """Pauses the holder until another node has the lease; the holder must end when it goes on."""
        node = self.holder()
        server = node.server
        server.pause()
        others = [other for other in self._nodes if other is not node]
        self._wait(lambda: next((other for other in others if other.holds_lease()), None))
        server.resume()
        server.wait_for_end(REPLACED)
        node.revive()

    def pause_holder_shortly(self) -> None:
        node = self.holder()
        node.server.pause()
        self._end.wait(SHORT_PAUSE_SECONDS)
        node.server.resume()

    def pause_other(self) -> None:
        node = self._other(self.holder())
        node.server.pause()
        self._end.wait(SHORT_PAUSE_SECONDS)
        node.server.resume()

    def lead(self) -> None:
        node = self.holder()
        server, other = node.server, self._other(node)
        self._wait(lambda: node if node.lead(other.name) else None)
        server.wait_for_end(REPLACED)
        node.revive()


class Nodes(Members):
    """Nodes on a PostgreSQL of the run. With an older program, each node runs one after the other by turns."""

    def __init__(self, directory: Path, count: int, older: Path | None = None):
        # The database server runs as a user of its own, which a new temporary directory shuts out.
        directory.chmod(0o755)
        folder = directory / "database"
        folder.mkdir()
        self._database = Database(folder)
        self._database.__enter__()
        clusters = directory / "clusters.toml"
        clusters.write_text(CLUSTER.format(folder=folder, schema="nodes", port=self._database.port))
        # Half of the nodes begin with the older program.
        turns = [(None, older), (older, None)] if older else [(None,)]
        places = [Place(programs=turns[n % len(turns)]) for n in range(count)]
        super().__init__([Node(f"node{n}", directory, clusters, place) for n, place in enumerate(places)])

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._database.__exit__()

    def fault(self, chance: random.Random) -> Action:
        """Causes one fault, and returns when all nodes run and one of them holds the lease."""
        do = chance.choice(FAULTS_OF_NODES)
        action = Action(do, time.monotonic_ns(), 0)
        if do == CRASH:
            self._database.crash_and_start()
        else:
            FAULTS[do](self)
        self.holder()
        action.returned = time.monotonic_ns()
        return action


# The faults of nodes alone, as the history names them.
FAULTS: dict[str, Callable[[Members], None]] = dict(
    zip(
        [fault for fault in FAULTS_OF_NODES if fault != CRASH],
        (
            Members.kill_holder,
            Members.kill_other,
            Members.stop_holder,
            Members.pause_holder,
            Members.pause_holder_shortly,
            Members.pause_other,
            Members.lead,
        ),
        strict=True,
    )
)
