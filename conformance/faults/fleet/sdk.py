"""Nodes of Orrery on a Patroni cluster under faults, with the official SDKs as clients and all histories checked.

    sdk.py --patroni PROGRAM [--nodes N] [--rounds N] [--faults NAME[,NAME]] [--seed N] [--json FILE] [--keep]

Each node has a network namespace of its own, like each machine of the cluster. Two kinds of clients run all the time:
the mixed workload of `conformance/faults/splits` with its checker, while partitions split and merge, and numbered batches of
items (`ledger.py`), as many as the fleet takes. A round has every fault of the cluster, of the networks and of the nodes
once, one after the other, in a random order. A fault has ended when the cluster is healthy and a node holds the lease.

A node that lost its lease is started again, as a service manager does.

Promises: exit code 0 only if no write was lost or doubled, every check of the workload holds, no node panicked or ended
in another way than nodes do, and all clients went on.
"""

import argparse
import asyncio
import base64
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
sys.path[:0] = [str(HERE.parent / "splits"), str(HERE.parents[1] / "lib" / "server")]

import run as workload  # noqa: E402  (the workload of conformance/faults/splits, which comes first on the path)
from azure.cosmos import CosmosClient, PartitionKey  # noqa: E402
from checker import report  # noqa: E402
from faults import FAULTS, FAULTS_WITH_NODES, Fault  # noqa: E402
from gaps import longest_gap, read_history  # noqa: E402
from history import FLEET, Action  # noqa: E402
from lab import STOPPED, Lab, LabFailed, Machine, Settings, find_programs, pause  # noqa: E402
from nodes import FAULTS as NODE_FAULTS  # noqa: E402
from nodes import Members, Node, Place  # noqa: E402
from orrery_server import ServerFailed  # noqa: E402

QUIET_SECONDS = 3
LOOK_SECONDS = 0.2
WRITERS_OF_BATCHES = 4
LEDGER = "ledger"
# Ten physical partitions.
LEDGER_THROUGHPUT = 100_000
VERIFY_SECONDS_MAX = 1200


class Fleet(Members):
    """Nodes in namespaces of the lab. One that lost its lease is started again as soon as it can be."""

    def __init__(self, lab: Lab, directory: Path):
        self.lab = lab
        clusters = directory / "clusters.toml"
        clusters.write_text(lab.clusters[0].file("orrery"))
        key = directory / "account.key"
        key.write_text(base64.b64encode(os.urandom(64)).decode())
        self._logs = directory
        super().__init__([self._node(machine, directory, clusters, key) for machine in lab.clients])
        self._failure = "none"
        self._reviver = threading.Thread(target=self._revive, daemon=True)
        self._reviver.start()

    @staticmethod
    def _node(machine: Machine, directory: Path, clusters: Path, key: Path) -> Node:
        within = ("ip", "netns", "exec", machine.space)
        options = ("--key-file", str(key), "--standby-reads", "off")
        return Node(machine.name, directory, clusters, Place(machine.address, within), options)

    def _revive(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            for node in self._nodes:
                try:
                    node.revive()
                except ServerFailed as failed:
                    # A node cannot start while its cluster cannot be reached; a panic is found in the logs.
                    self._failure = str(failed)

    def stop(self) -> None:
        self._end.set()
        self._reviver.join()
        super().stop()
        panicked = [log.name for log in sorted(self._logs.glob("node*.log")) if "panicked at" in log.read_text()]
        if panicked:
            raise ServerFailed(f"nodes panicked: see {', '.join(panicked)}")

    def suffer(self, fault: Fault) -> None:
        """Lets a fault of the cluster or the networks come and go."""
        holder = self.holder()
        # The faults take the first machine of the clients for that of the holder.
        self.lab.clients.sort(key=lambda machine: machine.name != holder.name)
        repair = fault.make(self.lab)
        try:
            pause(fault.hold)
        finally:
            repair()

    def wait_until_healthy(self) -> None:
        """Returns when the cluster is healthy, all nodes run, and one of them holds the lease."""
        self.lab.clusters[0].wait_until_healthy()
        try:
            for node in self._nodes:
                self._wait(lambda node=node: node if node.server.exit_code() is None else None)
            self.holder()
        except ServerFailed as failed:
            raise ServerFailed(f"{failed}; the last failure to start a node: {self._failure}") from None


class Ledger:
    """The process of `ledger.py`."""

    def __init__(self, fleet: Fleet, directory: Path):
        folder = directory / LEDGER
        folder.mkdir()
        endpoints = [fleet.endpoint(number) for number in range(len(fleet.lab.clients))]
        self.plan = {"endpoints": endpoints, "key": fleet.key, "database": workload.DATABASE, "container": LEDGER}
        self.plan |= {"writers": WRITERS_OF_BATCHES, "folder": str(folder)}
        self._folder = folder
        with CosmosClient(endpoints[0], fleet.key) as client:
            database = client.get_database_client(workload.DATABASE)
            database.create_container(LEDGER, PartitionKey(path="/pk"), offer_throughput=LEDGER_THROUGHPUT)
        with (directory / "ledger.log").open("wb") as log:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            self._process = subprocess.Popen(self._command("write"), **pipes)
        self._process.stdout.readline()

    def _command(self, word: str) -> list[str]:
        return [sys.executable, str(HERE / "ledger.py"), word, json.dumps(self.plan)]

    def gaps(self, began: float, ended: float) -> list[float]:
        """Returns the longest gap of each writer in seconds."""
        return [longest_gap(read_history(file), began, ended) for file in sorted(self._folder.glob("*.history"))]

    def wait_for_all(self, since: float) -> None:
        """Returns when each writer has got an acknowledgement after a moment."""
        limit = time.monotonic() + workload.SILENCE_SECONDS_MAX
        for file in sorted(self._folder.glob("*.history")):
            while max(read_history(file), default=0) <= since:
                if time.monotonic() > limit:
                    raise workload.ClientFailed(f"the writer of {file.name} gets no acknowledgement")
                pause(LOOK_SECONDS)

    def end(self) -> None:
        self._process.stdin.close()
        if self._process.wait(timeout=workload.SILENCE_SECONDS_MAX):
            raise ServerFailed("the writer of batches failed: see ledger.log")

    def verify(self) -> dict:
        done = subprocess.run(self._command("verify"), capture_output=True, text=True, timeout=VERIFY_SECONDS_MAX)
        if done.returncode:
            raise ServerFailed(f"the check of the batches did not end: {done.stderr[-2000:]}")
        return json.loads(done.stdout)


def main() -> int:
    arguments = parse(sys.argv[1:])
    directory = Path(tempfile.mkdtemp(prefix="orrery-nodes-"))
    try:
        programs = find_programs(arguments.patroni)
        chosen = choose(arguments.faults)
        with Lab(programs, Settings(), clients=arguments.nodes, keep=arguments.keep) as lab:
            lab.start()
            is_good = go(arguments, chosen, lab, directory)
    except (LabFailed, ServerFailed, workload.ClientFailed) as failed:
        print(failed, file=sys.stderr)
        print(f"logs and histories: {directory}", file=sys.stderr)
        return 2
    if not is_good or arguments.keep:
        print(f"logs and histories: {directory}")
    return 0 if is_good else 1


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patroni", help="the program of Patroni >= 3.0.3; by default the one on the PATH")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="so many times every fault")
    parser.add_argument("--faults", default="", help="names with commas; all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="the file of the figures")
    parser.add_argument("--keep", action="store_true", help="keep data, logs and histories")
    return parser.parse_args(words)


def table_of_faults() -> dict[str, Fault | str]:
    """Returns the faults by name: rows of the table of the lab, and the names of faults of nodes alone."""
    rows: dict[str, Fault | str] = {fault.name: fault for fault in [*FAULTS, *FAULTS_WITH_NODES]}
    return rows | {name.replace(" ", "-"): name for name in NODE_FAULTS}


def choose(text: str) -> list[str]:
    """Returns the names of the option `--faults`."""
    table = table_of_faults()
    names = text.split(",") if text else list(table)
    for name in names:
        if name not in table:
            raise LabFailed(f"there is no fault '{name}'; the faults are {', '.join(table)}")
    return names


def go(arguments: argparse.Namespace, names: list[str], lab: Lab, directory: Path) -> bool:
    """Runs the clients and the faults, and checks everything. Returns True if all of it is as it must be."""
    (directory / "history").mkdir()
    settings = workload.parse(["--python", "1", "--javascript", "1", "--seed", str(arguments.seed), "--pace", "400"])
    progress, log = workload.Progress(), workload.Log(directory / "history" / "actions.jsonl")
    fleet, clients, rows = Fleet(lab, directory), [], []
    try:
        # Each worker uses another node, and the batches use all of them.
        plans = workload.plans_of(settings, fleet, directory)
        asyncio.run(workload.fill(plans, settings.throughput, directory))
        ledger = Ledger(fleet, directory)
        clients += [workload.start(plan, directory, progress) for plan in plans]
        for client in clients:
            client.wait_for("begun")
        with Splits(settings, fleet, progress, log):
            chance = random.Random(arguments.seed)
            print(heading(), flush=True)
            for _ in range(arguments.rounds):
                for name in chance.sample(names, len(names)):
                    rows.append(suffer(fleet, ledger, log, name))
                    print(line_of(rows[-1]), flush=True)
        ledger.end()
        workload.drain(clients)
        asyncio.run(workload.look_once_more(plans, directory))
        figures = ledger.verify()
    finally:
        for client in clients:
            client.end()
        fleet.stop()
    print(f"batches: {json.dumps(figures)}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"faults": rows, "batches": figures}, indent=1))
    return report(directory / "history") and not figures["anomalies"]


class Splits:
    """Splits and merges while the block runs, one at a time."""

    def __init__(self, settings: argparse.Namespace, fleet: Fleet, progress: workload.Progress, log: workload.Log):
        self._parts = (settings, fleet, progress, log)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        settings, fleet, progress, log = self._parts
        chance = random.Random(f"{settings.seed}/actions")
        while not self._end.is_set():
            try:
                progress.wait_for(settings.pace)
                log.add(workload.actor("mixed", fleet, chance).next(lambda: None))
            except ServerFailed:
                continue  # no node holds the lease during a fault
            except workload.ClientFailed:
                return  # the main thread waits for the same client


def suffer(fleet: Fleet, ledger: Ledger, log: workload.Log, name: str) -> dict:
    """Lets one fault come and go, and returns the figures."""
    fault = table_of_faults()[name]
    pause(QUIET_SECONDS)
    action, began = Action(FLEET + name, time.monotonic_ns(), 0), time.time()
    if isinstance(fault, Fault):
        fleet.suffer(fault)
    else:
        NODE_FAULTS[fault](fleet)
    fleet.wait_until_healthy()
    # Clients find out later than the cluster that it is healthy.
    ledger.wait_for_all(time.time())
    pause(QUIET_SECONDS)
    action.returned, ended = time.monotonic_ns(), time.time()
    log.add(action)
    gaps = ledger.gaps(began, ended)
    return {"fault": name, "seconds": ended - began, "least": min(gaps), "most": max(gaps)}


COLUMNS = "{:<28} {:>9} {:>18} {:>18}"


def heading() -> str:
    return COLUMNS.format("fault", "seconds", "least gap, seconds", "most gap, seconds")


def line_of(row: dict) -> str:
    return COLUMNS.format(row["fault"], *(f"{row[name]:.1f}" for name in ("seconds", "least", "most")))


if __name__ == "__main__":
    sys.exit(main())
