"""A mixed workload of the official Python and JavaScript SDKs while the container's partitions split and merge.

    run.py [--actions none|raises|splits|merges|mixed] [--splits N] [--merges N] [--kills N] [--operations N] ...

Starts one server, or with `--nodes` several on one PostgreSQL, fills a container, starts the clients (`worker.py`, `worker.js`), splits and merges meanwhile, and
kills the server with SIGKILL at random moments if asked to, starting it again on the same data and port. When all that
was asked for has been done, the clients stop, the readers of the change feed read to its end, every item is read once
more, and the histories of all are checked (`checker.py`).

Promises: exit code 0 only if the checker finds no anomaly and the server exited only when it was killed. The time of an
action is a number of client operations, never a number of seconds.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib" / "server"))

from azure.cosmos import CosmosClient, PartitionKey  # noqa: E402

from actions import Actions, Management, Raises  # noqa: E402
from checker import report  # noqa: E402
from history import Action, line_of  # noqa: E402
from model import COUNTER, rank_of  # noqa: E402
from nodes import Nodes  # noqa: E402
from orrery_server import Server, ServerFailed, free_port  # noqa: E402
from worker import FIELDS, Notes, Writer, container_of, every_page, look, new_client  # noqa: E402

DATABASE, CONTAINER = "shop", "items"
IDS = [f"i{n}" for n in range(8)]
KEYS_OF_A_CLIENT, SHARED_KEYS, STILL_KEYS, ITEMS_OF_A_STILL_KEY = 6, 4, 30, 6
# The longest time in seconds between two operations of a client.
SILENCE_SECONDS_MAX = 120


class ClientFailed(Exception):
    """A client ended, or reported no progress."""


class Progress:
    """The number of operations of all clients."""

    def __init__(self):
        self._changed = threading.Condition()
        self._count = 0
        self._broken: str | None = None

    def add(self, count: int) -> None:
        with self._changed:
            self._count += count
            self._changed.notify_all()

    def break_off(self, reason: str) -> None:
        """Lets every current and future wait fail."""
        with self._changed:
            self._broken = self._broken or reason
            self._changed.notify_all()

    def wait_for(self, more: int) -> None:
        """Returns when this number of further operations is done."""
        with self._changed:
            wanted = self._count + more
            while self._count < wanted and not self._broken:
                if not self._changed.wait(SILENCE_SECONDS_MAX):
                    raise ClientFailed(f"no client did anything for {SILENCE_SECONDS_MAX} s")
            if self._broken:
                raise ClientFailed(self._broken)


class Client:
    """A worker process."""

    def __init__(self, command: list[str], plan: dict, log: Path, progress: Progress):
        self.name, self._log, self._progress = plan["client"], log, progress
        self._said = {word: threading.Event() for word in ("begun", "quiet", "drained")}
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*command, json.dumps(plan)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, word: str) -> None:
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def wait_for(self, word: str) -> None:
        if not self._said[word].wait(SILENCE_SECONDS_MAX):
            raise ClientFailed(f"{self.name} is not {word} after {SILENCE_SECONDS_MAX} s")
        if self._process.poll():
            raise ClientFailed(self._last_words())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        for line in self._process.stdout:
            word = line.strip()
            if word in self._said:
                self._said[word].set()
            else:
                self._said["begun"].set()
                self._progress.add(int(word))
        if self._process.wait() != 0:
            self._progress.break_off(self._last_words())
        for event in self._said.values():
            event.set()

    def _last_words(self) -> str:
        return f"the client {self.name} ended: {self._log.read_text(errors='replace')[-4000:]}"


class Host:
    """The server with all its restarts, on one port and one data directory."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._port, self._lives = free_port(), 0
        self.server = self._start()

    def _start(self) -> Server:
        self._lives += 1
        log = self._directory / f"server-{self._lives}.log"
        return Server.start(log, "--data-dir", str(self._directory / "data"), port=self._port)

    def kill_and_start(self) -> Action:
        action = Action("kill", time.monotonic_ns(), 0)
        self.server.kill()
        self.server = self._start()
        action.returned = time.monotonic_ns()
        return action

    def fault(self, _: random.Random) -> Action:
        """Causes the one fault of a single server."""
        return self.kill_and_start()

    def stop(self) -> None:
        self.server.stop()

    def endpoint(self, _: int) -> str:
        """Returns the address for a client of this number."""
        return self.server.endpoints.http

    @property
    def key(self) -> str:
        return self.server.endpoints.key


class Log:
    """The history of actions on the server."""

    def __init__(self, file: Path):
        self._file = file.open("w", buffering=1)
        self._lock = threading.Lock()

    def add(self, action: Action) -> None:
        with self._lock:
            self._file.write(line_of(action) + "\n")


def main() -> int:
    arguments = parse(sys.argv[1:])
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(arguments.keep or temporary)
        directory.mkdir(parents=True, exist_ok=True)
        try:
            began = time.monotonic()
            run(arguments, directory)
            print(f"workload of {time.monotonic() - began:.0f} s with seed {arguments.seed}:")
        except (ServerFailed, ClientFailed) as failed:
            print(failed, file=sys.stderr)
            return 2
        return 0 if report(directory / "history") else 1


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    plans = ("none", "raises", "splits", "merges", "mixed")
    parser.add_argument("--actions", choices=plans, help="mixed, if splits or merges are asked for, and otherwise none")
    parser.add_argument("--splits", type=int, default=0, help="at least so many splits, or raises")
    parser.add_argument("--merges", type=int, default=0, help="at least so many merges")
    parser.add_argument("--kills", type=int, default=0, help="so many times kill -9 and a new start, or faults of nodes")
    parser.add_argument("--nodes", type=int, default=0, help="nodes on a PostgreSQL of the run, in place of one server")
    parser.add_argument("--older", type=Path, help="a program of an earlier version, which nodes run by turns")
    parser.add_argument("--operations", type=int, default=2000, help="at least so many operations of the clients")
    parser.add_argument("--pace", type=int, default=40, help="operations of the clients between two splits or merges")
    parser.add_argument("--python", type=int, default=2, help="processes on the Python SDK")
    parser.add_argument("--javascript", type=int, default=2, help="processes on the JavaScript SDK")
    parser.add_argument("--throughput", type=int, default=1000, help="RU/s of the container at its start")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="a directory for data, logs and histories that is not removed")
    arguments = parser.parse_args(words)
    arguments.actions = arguments.actions or ("mixed" if arguments.splits or arguments.merges else "none")
    return arguments


def run(arguments: argparse.Namespace, directory: Path) -> None:
    """Runs the whole workload and writes its histories to `directory/history`."""
    (directory / "history").mkdir(exist_ok=True)
    host = Nodes(directory, arguments.nodes, arguments.older) if arguments.nodes else Host(directory)
    progress, log = Progress(), Log(directory / "history" / "actions.jsonl")
    clients: list[Client] = []
    try:
        plans = plans_of(arguments, host, directory)
        asyncio.run(fill(plans, arguments.throughput, directory))
        clients += [start(plan, directory, progress) for plan in plans]
        for client in clients:
            client.wait_for("begun")
        happen(arguments, host, progress, log)
        drain(clients)
        asyncio.run(look_once_more(plans, directory))
    finally:
        for client in clients:
            client.end()
        host.stop()


def drain(clients: list[Client]) -> None:
    """Lets the clients stop, and their readers read the change feed to its end."""
    for word, done in (("quiet", "quiet"), ("drain", "drained")):
        for client in clients:
            client.tell(word)
        for client in clients:
            client.wait_for(done)


def plans_of(arguments: argparse.Namespace, host: Host, directory: Path) -> list[dict]:
    """Returns a plan for each client."""
    names = [f"py{n}" for n in range(arguments.python)] + [f"js{n}" for n in range(arguments.javascript)]
    common = {"key": host.key, "database": DATABASE, "container": CONTAINER, "ids": IDS}
    common |= {"seed": arguments.seed, "shared": [f"shared/{n}" for n in range(SHARED_KEYS)]}
    return [
        common
        | {
            "client": name,
            "endpoint": host.endpoint(number),
            "keys": [f"{name}/{n}" for n in range(KEYS_OF_A_CLIENT)],
            "history": str(directory / "history" / f"{name}.jsonl"),
        }
        for number, name in enumerate(names)
    ]


def start(plan: dict, directory: Path, progress: Progress) -> Client:
    """Starts the process of a client."""
    name = plan["client"]
    python = name.startswith("py")
    command = [sys.executable, str(HERE / "worker.py")] if python else ["node", str(HERE / "worker.js")]
    return Client(command, plan, directory / f"{name}.log", progress)


async def fill(plans: list[dict], throughput: int, directory: Path) -> None:
    """Creates the container, the counters, and the items that no client changes."""
    plan = plans[0]
    with CosmosClient(plan["endpoint"], plan["key"]) as client:
        database = client.create_database(DATABASE)
        database.create_container(CONTAINER, PartitionKey(path="/pk"), offer_throughput=throughput)
    notes = Notes("setup", directory / "history" / "setup.jsonl", quiet=True)
    async with new_client(plan) as client:
        writer = Writer(container_of(client, plan), notes, random.Random(0), [], [])
        for pk in [*plan["shared"], *(pk for plan in plans for pk in plan["keys"])]:
            await writer.create(pk, COUNTER, n=0)
        for pk in (f"still/{n}" for n in range(STILL_KEYS)):
            for n in range(ITEMS_OF_A_STILL_KEY):
                await writer.create(pk, f"i{n}")


async def look_once_more(plans: list[dict], directory: Path) -> None:
    """Reads every possible item, by a query and one by one."""
    plan = plans[0]
    notes = Notes("final", directory / "history" / "final.jsonl", quiet=True)
    async with new_client(plan) as client:
        container = container_of(client, plan)
        query = container.query_items(f"SELECT {FIELDS} FROM c", max_item_count=100)
        await look(notes, lambda add: every_page(query.by_page(), add), do="final")
        reader = Writer(container, notes, random.Random(0), [], [])
        for pk in [*plan["shared"], *(pk for plan in plans for pk in plan["keys"])]:
            for id in [*IDS, "b0", "b1", "b2", COUNTER]:
                await reader.read(pk, id)


def happen(arguments: argparse.Namespace, host: Host, progress: Progress, log: Log) -> None:
    """Splits, merges and kills as often as requested."""
    failed: list[BaseException] = []

    def guarded(work) -> threading.Thread:
        def body() -> None:
            try:
                work(arguments, host, progress, log)
            except Exception as failure:  # of any kind: a thread that ends early has done less than was asked for
                failed.append(failure)
                progress.break_off(str(failure))

        thread = threading.Thread(target=body)
        thread.start()
        return thread

    for thread in [guarded(split_and_merge), guarded(kill)]:
        thread.join()
    if failed:
        raise failed[0]
    progress.wait_for(arguments.operations)


def split_and_merge(arguments: argparse.Namespace, host: Host, progress: Progress, log: Log) -> None:
    chance = random.Random(f"{arguments.seed}/actions")
    left = {"split": arguments.splits, "merge": arguments.merges}
    while arguments.actions != "none" and any(count > 0 for count in left.values()):
        action = actor(arguments.actions, host, chance).next(lambda: progress.wait_for(1))
        log.add(action)
        if action.outcome == "failed" and not arguments.kills:
            raise ServerFailed(f"a {action.do} did not succeed: {action.detail}")
        if action.outcome == "ok":
            left["merge" if action.do == "merge" else "split"] -= 1
        progress.wait_for(arguments.pace)


def actor(plan: str, host: Host, chance: random.Random) -> Actions | Raises:
    """Returns the object that does the next action on the current server."""
    endpoints = host.server.endpoints
    if plan == "raises":
        return Raises(endpoints.http, endpoints.key, DATABASE, CONTAINER)
    return Actions(plan, Management(endpoints.admin, endpoints.admin_key, DATABASE, CONTAINER), chance)


def kill(arguments: argparse.Namespace, host: Host, progress: Progress, log: Log) -> None:
    chance = random.Random(f"{arguments.seed}/kills")
    for _ in range(arguments.kills):
        progress.wait_for(chance.randrange(1, 10 * arguments.pace))
        log.add(host.fault(chance))


if __name__ == "__main__":
    sys.exit(main())
