"""Acknowledged writes by procedures, batches and triggers, through faults of nodes and clusters, moves and splits.

    run.py --writes N [--seconds N] [--pace SECONDS] [--seed N] [--keep DIRECTORY] [--json FILE]

Two clusters of one PostgreSQL each and three nodes that share all partitions. Processes of clients (`worker.py`) write
until so many items are acknowledged, or the time is over; meanwhile one fault follows the other. Then every item is read
and compared with the histories (`check.py`).

Promises: exit code 1 if a write was lost, doubled, carried out in part or though it was refused, or if a client got a
status that nothing in its request explains.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib" / "server"))
sys.path.append(str(HERE.parents[1] / "lib" / "postgres"))
# The nodes and their faults are those of the mixed workload.
sys.path.append(str(HERE.parent / "splits"))

from actions import Management, Refused  # noqa: E402
from check import Found, acknowledged_times, gap, judge, longest_gaps, read_history, statuses  # noqa: E402
from database import Database  # noqa: E402
from items import FILL, PAIR, PROCEDURE, STAMP, TRIGGERS  # noqa: E402
from nodes import Members, Node  # noqa: E402
from on_postgres import CLUSTER  # noqa: E402
from orrery_server import program  # noqa: E402
from worker import Client  # noqa: E402

DATABASE = "writes"
CONTAINERS = [f"c{n}" for n in range(4)]
# Each container begins with several physical partitions, and no request is refused for its charge.
THROUGHPUT = 30_000
PARTITIONS_MAX = 8
NODES = 3
PROCESSES, THREADS = 3, 8
PAGE_ITEMS = 1_000
READ_AGAIN_SECONDS = 1
# Never set: faults come at a pace, and nothing announces that a client has written for long enough.
PAUSE = threading.Event()
FAULTS_SHOWN = 20
# The answers that a client may get through no fault of its own: the request was not carried out, or its outcome is
# unknown. Every other one that is no success fails the run.
EXPECTED = {0, 408, 410, 429, 449, 503}


class Fleet(Members):
    """Three nodes on two clusters, each of which may crash."""

    def __init__(self, directory: Path):
        directory.chmod(0o755)
        self._directory = directory
        self.databases = {}
        text = ""
        for name in ("first", "second"):
            folder = directory / name
            folder.mkdir()
            database = self.databases[name] = Database(folder)
            database.__enter__()
            cluster = CLUSTER.format(folder=folder, schema="writes", port=database.port)
            text += cluster.replace('name = "suite"', f'name = "{name}"')
        clusters = directory / "clusters.toml"
        clusters.write_text(text)
        self.clusters = list(self.databases)
        super().__init__([Node(f"node{n}", directory, clusters) for n in range(NODES)])

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            for database in self.databases.values():
                database.__exit__()

    def revive(self) -> None:
        """Starts each node again that lost its lease, as a supervisor does."""
        for node in self._nodes:
            node.revive()

    def endpoints(self) -> list[str]:
        return [node.server.endpoints.http for node in self._nodes]

    def admin(self, *words: str) -> dict:
        """Runs a command of the operator at the leaseholder and returns its answer."""
        endpoints = self.server.endpoints
        place = ["--admin-endpoint", endpoints.admin, "--json"]
        environment = {**os.environ, "ORRERY_ADMIN_KEY_FILE": str(self._key_file(endpoints.admin_key))}
        done = subprocess.run([program(), *words, *place], capture_output=True, text=True, env=environment)
        if done.returncode:
            raise Refused(f"orrery {' '.join(words)}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def _key_file(self, key: str) -> Path:
        file = self._directory / "admin.key"
        file.write_text(key)
        return file

    def management(self, container: str) -> Management:
        endpoints = self.server.endpoints
        return Management(endpoints.admin, endpoints.admin_key, DATABASE, container)


def crash_first(fleet: Fleet, _: random.Random) -> None:
    fleet.databases["first"].crash_and_start()


def crash_second(fleet: Fleet, _: random.Random) -> None:
    fleet.databases["second"].crash_and_start()


def move(fleet: Fleet, chance: random.Random) -> None:
    """Moves a partition to the other cluster."""
    partition = chance.choice(fleet.admin("partitions", "list", "--database", DATABASE)["placements"])
    other = next(name for name in fleet.clusters if name != partition["cluster"])
    place = ["--database", DATABASE, "--container", partition["container"], "--to", other, "--wait"]
    fleet.admin("partitions", "move", str(partition["id"]), *place)


def split(fleet: Fleet, chance: random.Random) -> None:
    """Splits a partition of the container with the fewest."""
    known = {name: fleet.management(name).partitions() for name in CONTAINERS}
    name = min(known, key=lambda one: len(known[one]))
    if len(known[name]) >= PARTITIONS_MAX:
        return
    management = fleet.management(name)
    operation = management.split(chance.choice(known[name])["id"])
    management.finish(str(operation["id"]))


FAULTS = {
    "kill of the leaseholder": lambda fleet, _: fleet.kill_holder(),
    "kill of another node": lambda fleet, _: fleet.kill_other(),
    "stop of the leaseholder": lambda fleet, _: fleet.stop_holder(),
    "pause of the leaseholder": lambda fleet, _: fleet.pause_holder(),
    "short pause of the leaseholder": lambda fleet, _: fleet.pause_holder_shortly(),
    "pause of another node": lambda fleet, _: fleet.pause_other(),
    "lease given away": lambda fleet, _: fleet.lead(),
    "restart of the first cluster": crash_first,
    "restart of the second cluster": crash_second,
    "move": move,
    "another move": move,
    "split": split,
}


def prepare(fleet: Fleet, client: Client) -> None:
    """Creates the containers with their scripts."""
    made = [("POST", "/dbs", {"id": DATABASE}, {}, ("dbs", ""))]
    for name in CONTAINERS:
        link = f"dbs/{DATABASE}/colls/{name}"
        body = {"id": name, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
        throughput = {"x-ms-offer-throughput": str(THROUGHPUT)}
        made.append(("POST", f"/dbs/{DATABASE}/colls", body, throughput, ("colls", f"dbs/{DATABASE}")))
        made.append(("POST", f"/{link}/sprocs", {"id": PROCEDURE, "body": FILL}, {}, ("sprocs", link)))
        for when, text in (("pre", STAMP), ("post", PAIR)):
            trigger = {"id": TRIGGERS[when], "body": text, "triggerType": when.title(), "triggerOperation": "Create"}
            made.append(("POST", f"/{link}/triggers", trigger, {}, ("triggers", link)))
    for request in made:
        status, _, content = client.send(*request)
        if status != 201:
            raise SystemExit(f"{request[1]}: {status} {content.decode()}")


def read_all(client: Client, container: str) -> Found:
    """Reads every item of a container."""
    link, found, continuation = f"dbs/{DATABASE}/colls/{container}", Found(), None
    while True:
        headers = {"x-ms-max-item-count": str(PAGE_ITEMS)}
        if continuation:
            headers["x-ms-continuation"] = continuation
        status, answered, content = client.send("GET", f"/{link}/docs", None, headers, ("docs", link))
        if status != 200:
            # A node that was restarted at last may still wait for a partition.
            PAUSE.wait(READ_AGAIN_SECONDS)
            continue
        for item in json.loads(content)["Documents"]:
            found.add(item)
        continuation = {name.lower(): value for name, value in answered.items()}.get("x-ms-continuation")
        if not continuation:
            return found


class Workers:
    """The processes of clients."""

    def __init__(self, directory: Path, fleet: Fleet):
        histories = directory / "histories"
        histories.mkdir()
        self.histories, self._processes, self._files = histories, [], []
        for process in range(PROCESSES):
            plan = {
                "process": process,
                "threads": THREADS,
                "endpoints": fleet.endpoints(),
                "key": fleet.key,
                "containers": CONTAINERS,
                "histories": str(histories),
            }
            file = directory / f"plan-{process}.json"
            file.write_text(json.dumps(plan))
            progress = directory / f"progress-{process}"
            self._files.append(progress)
            words = [sys.executable, str(HERE / "worker.py"), str(file)]
            with progress.open("wb") as output:
                self._processes.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=output))

    def acknowledged(self) -> int:
        """Returns the number of acknowledged items so far."""
        lines = (file.read_text().split() for file in self._files)
        return sum(int(found[-1]) for found in lines if found)

    def end(self) -> None:
        for process in self._processes:
            process.stdin.close()
        for process in self._processes:
            process.wait()


def make_faults(fleet: Fleet, workers: Workers, arguments: argparse.Namespace) -> list[tuple[str, int, int]]:
    """Causes one fault after the other until enough is written, and returns their names, begins and ends."""
    chance, caused, deck = random.Random(arguments.seed), [], []
    end = time.monotonic() + arguments.seconds
    while workers.acknowledged() < arguments.writes and time.monotonic() < end:
        if not deck:
            deck = list(FAULTS)
            chance.shuffle(deck)
        name, began = deck.pop(), time.time_ns() // 1_000_000
        try:
            FAULTS[name](fleet, chance)
        except (Refused, OSError) as refused:
            # A move or a split that meets another change of the catalog is refused, which harms nobody. A split under
            # load may take longer than its caller waits, and goes on.
            print(f"  {name} was refused: {refused}", flush=True)
            name = f"{name}, refused"
        fleet.revive()
        fleet.holder()
        PAUSE.wait(arguments.pace)
        caused.append((name, began, time.time_ns() // 1_000_000))
        print(f"  {workers.acknowledged():>9} acknowledged after: {name}", flush=True)
    return caused


def report(workers: Workers, client: Client, caused: list, window: tuple[int, int]) -> tuple[dict, list[str]]:
    """Compares everything that is there with the histories, and returns the figures and the faults."""
    histories = {
        file.name: read_history(file.name.split(".", 1)[1], file.read_text()) for file in workers.histories.iterdir()
    }
    faults, items = [], 0
    for container in CONTAINERS:
        found = read_all(client, container)
        items += found.names.total()
        operations = [o for name, lines in histories.items() if name.startswith(f"{container}.") for o in lines]
        faults += [f"{container}: {fault}" for fault in judge(operations, found)]
    answers = Counter()
    for operations in histories.values():
        answers.update(statuses(operations))
    faults += [f"{count} answers with {status}" for status, count in answers.items() if status not in EXPECTED]
    of_all, of_one = longest_gaps(histories, window)
    times = acknowledged_times(histories)
    gaps: dict[str, list[int]] = {}
    for name, began, ended in caused:
        gaps.setdefault(name, []).append(gap(times, (began, ended)))
    outcomes = Counter(operation.outcome for operations in histories.values() for operation in operations)
    figures = {
        "acknowledged items": workers.acknowledged(),
        "items that are there": items,
        "operations": dict(outcomes),
        "answers that are no success": {str(status): count for status, count in sorted(answers.items())},
        "longest gap of all writers, ms": of_all,
        "longest gap of one writer, ms": of_one,
        "gaps of all writers by fault, ms": {name: sorted(found) for name, found in sorted(gaps.items())},
        "seconds": (window[1] - window[0]) // 1000,
        "lost, doubled, in part or unexplained": len(faults),
    }
    return figures, faults


def main() -> int:
    """Runs the load and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, required=True, help="acknowledged items after which the load ends")
    parser.add_argument("--seconds", type=int, default=3_600, help="the time after which it ends in any case")
    parser.add_argument("--pace", type=float, default=5, help="seconds between two faults")
    parser.add_argument("--seed", type=int, default=1, help="the order of the faults")
    parser.add_argument("--keep", type=Path, help="a new directory for data, logs and histories")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="orrery-writes-") as temporary:
        directory = arguments.keep or Path(temporary)
        directory.mkdir(exist_ok=True)
        fleet = Fleet(directory)
        try:
            client = Client(fleet.endpoints(), fleet.key, 0)
            prepare(fleet, client)
            workers = Workers(directory, fleet)
            began = time.time_ns() // 1_000_000
            try:
                caused = make_faults(fleet, workers, arguments)
            finally:
                ended = time.time_ns() // 1_000_000
                workers.end()
            figures, faults = report(workers, client, caused, (began, ended))
        finally:
            fleet.stop()
    print(json.dumps(figures, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    for fault in faults[:FAULTS_SHOWN]:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
