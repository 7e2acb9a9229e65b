"""A fleet on one machine: Patroni clusters with etcd, each machine of the fleet in a network namespace of its own.

A lab has three database machines for each cluster (PostgreSQL, its Patroni, one etcd) and any number of client
machines. All machines are on one bridge; a link can be cut as a whole, or between two machines.

Promises: everything is in one temporary folder and in namespaces with the lab's own prefix; `close` ends every process
in those namespaces and removes namespaces, bridge and folder, also after a failure.
Leaves out: the faults (`faults.py`) and the workload (`run.py`). Needs root, for the namespaces.
"""

import glob
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

PATRONI_LEAST = (3, 0, 3)
USER = "postgres"
HEALTHY_SECONDS_MAX = 400
POLL_SECONDS = 0.1


class LabFailed(Exception):
    """The lab cannot be built, or did not become healthy: a sentence for people."""


@dataclass
class Settings:
    """Times in seconds, as Patroni reads them: `loop_wait + 2 * retry_timeout` is at most `ttl`."""

    ttl: int = 20
    loop_wait: int = 5
    retry_timeout: int = 5
    synchronous_mode: str | bool = "quorum"
    wal_keep_size: str = "2GB"


@dataclass
class Programs:
    """Paths of the programs that a lab starts."""

    postgres: str
    patroni: str
    etcd: str = "etcd"


# Set when the run is asked to end.
STOPPED = threading.Event()


def pause(seconds: float) -> None:
    """Lets time pass, which faults are given in; ends early, with an error, when the run is asked to end."""
    if STOPPED.wait(seconds):
        raise LabFailed("the run was ended from outside")


def find_programs(patroni: str | None) -> Programs:
    """Returns the programs, or says which packages to install."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root, for network namespaces")
    for name, package in (("etcd", "etcd-server"), ("ip", "iproute2"), ("iptables", "iptables")):
        if not shutil.which(name):
            missing.append(f"`apt install {package}`")
    folders = glob.glob("/usr/lib/postgresql/*/bin/postgres")
    if not folders:
        missing.append("`apt install postgresql`")
    patroni = patroni or shutil.which("patroni") or ""
    install = "`python3 -m venv DIR && DIR/bin/pip install 'patroni[etcd3]>=4.1' psycopg2-binary`, then --patroni"
    if not patroni:
        missing.append(f"Patroni: {install} DIR/bin/patroni")
    if missing:
        raise LabFailed("the fleet needs: " + "; ".join(missing))
    check_patroni(patroni, install)
    newest = max(folders, key=lambda path: int(path.split("/")[4]))
    return Programs(str(Path(newest).parent), patroni)


def check_patroni(patroni: str, install: str) -> None:
    """Refuses a Patroni that cannot run, or that can lose acknowledged commits."""
    command = [*as_user(), patroni, "--version"]
    said = subprocess.run(command, capture_output=True, text=True)
    version = re.search(r"(\d+)\.(\d+)\.(\d+)", said.stdout)
    if not version:
        raise LabFailed(f"the user {USER} cannot run {patroni} ({said.stderr.strip()[-200:]}): {install}")
    if tuple(map(int, version.groups())) < PATRONI_LEAST:
        raise LabFailed(
            f"Patroni {version[0]} can lose acknowledged commits after a pause; at least 3.0.3 is needed: {install}"
        )


def as_user() -> list[str]:
    """The start of a command line that runs as the user of PostgreSQL.

    The capability lets Patroni start its own interpreter again, which may be below the home of root: without it the
    process that starts PostgreSQL ends without a word, and Patroni waits for it for ever.
    """
    reads_all = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", *reads_all]


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise LabFailed(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}")


@dataclass
class Machine:
    """A network namespace with one address, and the processes that the lab started in it."""

    name: str
    space: str
    link: str
    address: str
    folder: Path
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)

    def start(self, name: str, command: list[str], user: bool = True, **options) -> subprocess.Popen:
        """Starts a program in the namespace; its output is appended to a log of its name."""
        words = ["ip", "netns", "exec", self.space, *(as_user() if user else []), *command]
        with (self.folder / f"{name}.log").open("ab") as log:
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log} | options
            process = subprocess.Popen(words, cwd=self.folder, start_new_session=True, **options)
        self.processes[name] = process
        return process

    def send(self, name: str, number: signal.Signals) -> None:
        process = self.processes[name]
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait()

    def postgres(self) -> list[int]:
        """The process of PostgreSQL's postmaster, then its children; empty if there is none."""
        try:
            first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        except (OSError, ValueError, IndexError):
            return []
        return [first, *map(int, children)]

    def signal_postgres(self, number: signal.Signals) -> None:
        for process in self.postgres():
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def cut(self) -> None:
        """Cuts the machine from all others."""
        ip("link", "set", self.link, "down")

    def heal(self) -> None:
        ip("link", "set", self.link, "up")

    def drop(self, other: "Machine", is_cut: bool) -> None:
        """Cuts or heals the way between two machines, without an answer to the sender."""
        for here, there in ((self, other), (other, self)):
            rule = ["-A" if is_cut else "-D", "INPUT", "-s", there.address, "-j", "DROP"]
            subprocess.run(["ip", "netns", "exec", here.space, "iptables", *rule], check=True)


class Cluster:
    """Three machines with PostgreSQL, Patroni and etcd."""

    def __init__(self, name: str, machines: list[Machine], programs: Programs, settings: Settings):
        self.name, self.machines, self._programs, self.settings = name, machines, programs, settings

    def start(self) -> None:
        for machine in self.machines:
            self.start_etcd(machine)
        for machine in self.machines:
            (machine.folder / "patroni.json").write_text(json.dumps(self._patroni(machine)))
            self.start_patroni(machine)
        self.wait_until_healthy()
        self.sql("CREATE ROLE orrery LOGIN")
        self.sql("CREATE DATABASE orrery OWNER orrery")

    def start_etcd(self, machine: Machine) -> None:
        peers = ",".join(f"{one.name}=http://{one.address}:2380" for one in self.machines)
        client, peer = f"http://{machine.address}:2379", f"http://{machine.address}:2380"
        words = ["--name", machine.name, "--data-dir", str(machine.folder / "etcd")]
        words += ["--listen-client-urls", client, "--advertise-client-urls", client]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        machine.start("etcd", [self._programs.etcd, *words, "--initial-cluster", peers])

    def start_patroni(self, machine: Machine) -> None:
        machine.start("patroni", [self._programs.patroni, str(machine.folder / "patroni.json")])

    def _patroni(self, machine: Machine) -> dict:
        settings, folder = self.settings, machine.folder
        subnet = machine.address.rsplit(".", 1)[0] + ".0/24"
        parameters = {"wal_keep_size": settings.wal_keep_size, "max_connections": 200, "shared_buffers": "64MB"}
        dynamic = {
            "ttl": settings.ttl,
            "loop_wait": settings.loop_wait,
            "retry_timeout": settings.retry_timeout,
            "synchronous_mode": settings.synchronous_mode,
            "synchronous_mode_strict": True,
            "synchronous_node_count": 1,
            "postgresql": {"use_pg_rewind": True, "parameters": parameters},
        }
        initdb = [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"]
        return {
            "scope": self.name,
            "name": machine.name,
            "restapi": {"listen": f"{machine.address}:8008", "connect_address": f"{machine.address}:8008"},
            "etcd3": {"hosts": [f"{one.address}:2379" for one in self.machines]},
            "bootstrap": {"dcs": dynamic, "initdb": initdb},
            "postgresql": {
                "listen": f"{machine.address}:5432",
                "connect_address": f"{machine.address}:5432",
                "bin_dir": self._programs.postgres,
                "data_dir": str(folder / "data"),
                "pgpass": str(folder / "pgpass"),
                "parameters": {"unix_socket_directories": str(folder)},
                # A primary that was cut off wrote on; if the log since the last common checkpoint is gone, it is cloned.
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
                "authentication": {
                    "superuser": {"username": "postgres", "password": "lab"},
                    "replication": {"username": "replicator", "password": "lab"},
                },
                "pg_hba": [
                    "local all all trust",
                    f"host all all {subnet} trust",
                    f"host replication all {subnet} trust",
                ],
            },
            "watchdog": {"mode": "off"},
        }

    def members(self) -> list[dict]:
        """The members as any Patroni that answers lists them."""
        for machine in self.machines:
            try:
                with urllib.request.urlopen(f"http://{machine.address}:8008/cluster", timeout=2) as answer:
                    return json.load(answer)["members"]
            except (OSError, ValueError, KeyError):
                continue
        return []

    def is_healthy(self) -> bool:
        """A leader, two standbys that stream, at least one of them synchronous."""
        members = self.members()
        if len(members) != len(self.machines):
            return False
        standbys = [member for member in members if member["role"] != "leader"]
        return (
            len(standbys) == len(members) - 1
            and all(member["state"] == "streaming" for member in standbys)
            and any(member["role"] in ("sync_standby", "quorum_standby") for member in standbys)
        )

    def wait_until_healthy(self) -> float:
        """Returns the seconds until the cluster was healthy."""
        began = time.monotonic()
        while not self.is_healthy():
            if time.monotonic() - began > HEALTHY_SECONDS_MAX:
                raise LabFailed(f"{self.name} is not healthy after {HEALTHY_SECONDS_MAX} s: {self.members()}")
            pause(POLL_SECONDS)
        return time.monotonic() - began

    def leader(self) -> Machine:
        return self._with_role("leader")

    def standby(self) -> Machine:
        return self._with_role("sync_standby", "quorum_standby")

    def _with_role(self, *roles: str) -> Machine:
        for member in self.members():
            if member["role"] in roles:
                return next(machine for machine in self.machines if machine.name == member["name"])
        raise LabFailed(f"{self.name} has no member with the role {roles[0]}")

    def timeline(self) -> int:
        return max((member.get("timeline") or 0 for member in self.members()), default=0)

    def switch_over(self) -> None:
        leader, standby = self.leader(), self.standby()
        body = json.dumps({"leader": leader.name, "candidate": standby.name}).encode()
        request = urllib.request.Request(f"http://{leader.address}:8008/switchover", body, method="POST")
        urllib.request.urlopen(request, timeout=60).close()

    def sql(self, text: str, database: str = "postgres") -> None:
        """Runs a statement on the primary."""
        psql = [f"{self._programs.postgres}/psql", "-X", "-h", self.leader().address, "-U", "postgres"]
        done = subprocess.run([*psql, "-d", database, "-c", text], capture_output=True, text=True)
        if done.returncode:
            raise LabFailed(f"`{text}` failed: {done.stderr.strip()}")

    def file(self, schema: str = "orrery") -> str:
        """The cluster's part of a cluster file of Orrery."""
        lines = ["[[cluster]]", f'name = "{self.name}"', 'user = "orrery"', 'database = "orrery"']
        lines += [f'schema = "{schema}"', 'tls = "off"']
        for machine in self.machines:
            lines += ["[[cluster.host]]", f'address = "{machine.address}:5432"']
            lines += [f'patroni = "http://{machine.address}:8008"']
        return "\n".join(lines) + "\n"


class Lab:
    """All machines of a fleet. Use with `with`."""

    def __init__(self, programs: Programs, settings: Settings, clusters: int = 1, clients: int = 1, keep: bool = False):
        self._keep, self._used = keep, 0
        self.prefix = f"ol{os.getpid() % 100_000}"
        self._subnet = free_subnet()
        self.folder = Path(tempfile.mkdtemp(prefix="orrery-fleet-"))
        self.folder.chmod(0o755)
        self.machines: list[Machine] = []
        ip("link", "add", self.prefix, "type", "bridge")
        try:
            ip("addr", "add", f"{self._subnet}.1/24", "dev", self.prefix)
            ip("link", "set", self.prefix, "up")
            self.clusters = [
                Cluster(name, [self._machine(f"{name}-{n}") for n in range(1, 4)], programs, settings)
                for name in [f"db{c}" for c in range(1, clusters + 1)]
            ]
            self.clients = [self._machine(f"node{n}") for n in range(1, clients + 1)]
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def start(self) -> None:
        for cluster in self.clusters:
            cluster.start()

    def _machine(self, name: str) -> Machine:
        self._used += 1
        space, link, inner = f"{self.prefix}-{name}", f"{self.prefix}v{self._used}", f"{self.prefix}w{self._used}"
        folder = self.folder / name
        folder.mkdir(mode=0o755)
        user = pwd.getpwnam(USER)
        os.chown(folder, user.pw_uid, user.pw_gid)
        ip("netns", "add", space)
        machine = Machine(name, space, link, f"{self._subnet}.{self._used + 1}", folder)
        self.machines.append(machine)
        ip("link", "add", link, "type", "veth", "peer", "name", inner, "netns", space)
        ip("link", "set", link, "master", self.prefix, "up")
        ip("-n", space, "addr", "add", f"{machine.address}/24", "dev", inner)
        ip("-n", space, "link", "set", inner, "up")
        ip("-n", space, "link", "set", "lo", "up")
        return machine

    def close(self) -> None:
        """Ends and removes everything; a part that is gone already is passed over."""
        for machine in self.machines:
            found = subprocess.run(["ip", "netns", "pids", machine.space], capture_output=True, text=True)
            for process in map(int, found.stdout.split()):
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for process in machine.processes.values():
                process.wait()
            subprocess.run(["ip", "netns", "del", machine.space], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", self.prefix], stderr=subprocess.DEVNULL)
        if self._keep:
            print(f"kept: {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def free_subnet() -> str:
    """Returns the first three numbers of a network that no interface uses."""
    used = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True).stdout
    for n in range(256):
        subnet = f"10.231.{(os.getpid() + n) % 256}"
        if f" {subnet}." not in used:
            return subnet
    raise LabFailed("there is no free network in 10.231.0.0/16")
