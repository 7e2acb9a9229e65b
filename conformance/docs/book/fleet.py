"""The machines of the page about fleets: its names, ports and folders as they stand, in namespaces of the run.

A namespace of networks has the addresses of the database machines and of two nodes; a namespace of mounts has a file
of hosts, and empty folders in the place of `/var/lib`, `/var/backups` and `/var/tmp`. PostgreSQL runs on `db1` with a
standby on `db2`, and on `db4`, without Patroni: the store tries each server then.

The page says what an operator does between its blocks; `prepare` does it here:

    orrery migrate-store              no node runs; the target is empty, and `data` has a server's data
    orrery nodes, clusters, ...       both nodes run, with the cluster file as it is now
    sql                               no node runs; the statement goes to the second cluster
    pg_basebackup, restore-drill.sh   the user is that of PostgreSQL

Promises: `close` ends every process of the namespaces; nothing is written outside of the folder of the page.
Leaves out: Patroni, whose faults are in `conformance/faults/fleet`. Needs root, for the namespaces.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from blocks import Block

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "conformance" / "lib" / "postgres"))

from database import Database, DatabaseFailed  # noqa: E402
from orrery_server import Server, ServerFailed, program  # noqa: E402

HOSTS = {"db1": "10.0.1.1", "db2": "10.0.1.2", "db3": "10.0.1.3", "db4": "10.0.1.4"}
HOSTS |= {"db5": "10.0.1.5", "db6": "10.0.1.6"}
NODES = ("10.0.0.1", "10.0.0.2")
PORT = 5432
# The first and the second cluster, by the machines on which they run here.
FIRST, SECOND = "db1", "db4"
STATE = "/var/lib/orrery"
WAL = "/var/backups/orrery/wal"
HBA = "local all all trust\nhostssl all orrery 10.0.0.0/16 scram-sha-256\nhost replication replicator 10.0.0.0/16 trust\n"
ITEMS = "".join(f'{{"id":"{n}","postId":"p{n}"}}\n' for n in range(40))
NODES_WANTED = re.compile(r"orrery (nodes|clusters|partitions) ")
OF_POSTGRES = re.compile(r"pg_basebackup|restore-drill\.sh|pg_ctl")
NEEDS = "not run: the machines of a fleet need root, iproute2 and util-linux"


class Machine(Database):
    """A PostgreSQL on one address, with TLS, the page's role, and the archive of its log."""

    def __init__(self, folder: Path, within: tuple[str, ...], name: str, primary: str | None = None):
        super().__init__(folder, within)
        self.name, self._primary = name, primary
        self.port = PORT

    def __enter__(self) -> "Machine":
        self._data.mkdir(parents=True, mode=0o700)
        shutil.chown(self._folder, "postgres")
        shutil.chown(self._data, "postgres")
        if self._primary is None:
            self._run("initdb", "-U", "postgres", "-A", "trust", "-N", "--locale=C", "-D", str(self._data))
        else:
            address = f"host={self._primary} user=replicator"
            self._run("pg_basebackup", "-d", address, "-R", "-c", "fast", "-D", str(self._data))
        (self._data / "pg_hba.conf").write_text(HBA)
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(self._settings())
        self._start()
        return self

    def _options(self) -> str:
        return ""

    def _settings(self) -> str:
        """The settings, in the file: a restored copy of the data starts with them."""
        keys = self._folder.parent
        settings = {
            "port": self.port,
            "listen_addresses": HOSTS[self.name],
            "unix_socket_directories": self._folder,
            "fsync": "off",
            "max_connections": 400,
            "ssl": "on",
            "ssl_cert_file": keys / "server.crt",
            "ssl_key_file": keys / "server.key",
        }
        if self.name == FIRST:
            settings |= {"archive_mode": "on", "archive_command": f"test ! -f {WAL}/%f && cp %p {WAL}/%f"}
        return "".join(f"{name} = '{value}'\n" for name, value in settings.items())

    def psql(self, text: str, database: str = "orrery", user: str = "postgres", separator: str = "|") -> str:
        """Runs statements and returns the rows, without a frame."""
        words = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-F", separator, "-h", str(self._folder), "-U", user, "-d", database]
        done = subprocess.run([*self._within, *words, "-c", text], capture_output=True, text=True)
        if done.returncode:
            raise ServerFailed(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()


class Fleet:
    """The machines, and the nodes of the page on them."""

    def __init__(self, directory: Path, environment: dict[str, str]):
        self._directory, self._environment = directory, environment
        self._start_words: list[str] | None = None
        self._nodes: dict[str, Server] = {}
        self._clusters_at_start = ""
        self._machines: dict[str, Machine] = {}
        self._lives = 0
        self._ids: list[str] = []
        directory.chmod(0o755)
        self._holder = self._open()
        self._enter = ("nsenter", f"--target={self._child()}", "--mount", "--net")
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _open(self) -> subprocess.Popen:
        """Starts the process that holds the namespaces; they end with it."""
        hosts = self._directory / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{there} {name}\n" for name, there in HOSTS.items()))
        addresses = " ".join([*HOSTS.values(), *NODES])
        script = f"""set -e
            ip link set lo up
            for address in {addresses}; do ip addr add $address/32 dev lo; done
            mount --bind '{hosts}' /etc/hosts
            for folder in /var/lib /var/backups /var/tmp; do mount -t tmpfs -o mode=1777 tmpfs $folder; done
            install -d -o postgres -g postgres /var/backups/orrery {WAL}
            echo ready
            read"""
        spaces = ["--mount", "--net", "--pid", "--fork", "--kill-child"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        holder = subprocess.Popen(["unshare", *spaces, "bash", "-c", script], **pipes)
        if holder.stdout.readline() != "ready\n":
            raise ServerFailed("the namespaces of the fleet cannot be made")
        return holder

    def _child(self) -> int:
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        return int(children.read_text().split()[0])

    def _begin(self) -> None:
        self._make_certificate()
        for name, primary in ((FIRST, None), ("db2", FIRST), (SECOND, None)):
            # In the namespace of processes too, so that PostgreSQL ends with it.
            within = (*self._enter, "--pid")
            machine = Machine(self._directory / "machines" / name, within, name, primary)
            self._machines[name] = machine.__enter__()
            if primary is None:
                machine.psql("CREATE ROLE replicator REPLICATION LOGIN", "postgres")
                machine.psql("CREATE ROLE orrery LOGIN PASSWORD 'a password of one run'", "postgres")
                machine.psql("CREATE DATABASE orrery OWNER orrery", "postgres")
        for name in ("main", "second"):
            (self._directory / f"{name}.password").write_text("a password of one run\n")
        drill = self._directory / "packaging" / "fleet" / "restore-drill.sh"
        drill.parent.mkdir(parents=True)
        shutil.copy(ROOT / "packaging" / "fleet" / drill.name, drill)

    def _make_certificate(self) -> None:
        """Makes a root and a certificate of the machines, which the programs of the page trust like a system's root."""
        folder = self._directory / "machines"
        folder.mkdir()
        names = ",".join(f"DNS:{name}" for name in HOSTS)
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        root = ["openssl", "req", "-x509", *key, "-days", "2", "-subj", "/CN=root", "-keyout", "root.key", "-out", "root.crt"]
        of_machines = [*root[:3], *key, "-days", "2", "-subj", "/CN=db", "-CA", "root.crt", "-CAkey", "root.key"]
        of_machines += ["-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE"]
        for words in (root, [*of_machines, "-keyout", "server.key", "-out", "server.crt"]):
            subprocess.run(words, cwd=folder, check=True, capture_output=True)
        shutil.chown(folder / "server.key", "postgres")
        self._environment["SSL_CERT_FILE"] = str(folder / "root.crt")

    def words(self, block: Block, words: list[str]) -> list[str]:
        """Returns the command line of a block in the namespaces, as the user whom it needs."""
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        is_of_postgres = OF_POSTGRES.search(block.text) is not None
        return [*self._enter, f"--wd={self._directory}", *(as_user if is_of_postgres else []), *words]

    def prepare(self, block: Block) -> None:
        """Does what the page's reader has done before this block."""
        if "orrery migrate-store" in block.text:
            self._stop_nodes()
            if "--to postgres" in block.text:
                self._empty_target()
                self._make_data()
        elif NODES_WANTED.search(block.text):
            self._ensure_nodes()

    def _empty_target(self) -> None:
        for name in (FIRST, SECOND):
            self._machines[name].psql("DROP SCHEMA IF EXISTS orrery CASCADE")

    def _make_data(self) -> None:
        """Makes `data`, the directory of one server with the container `blog/posts`."""
        server = Server.start(self._directory / "server.log", "--data-dir", str(self._directory / "data"))
        posts = self._directory / "posts.jsonl"
        posts.write_text(ITEMS)
        container = ["--database", "blog", "--container", "posts", "--create-container", "--partition-key", "/postId"]
        words = [program(), "import", str(posts), "--endpoint", server.endpoints.http, *container]
        try:
            subprocess.run(words, check=True, capture_output=True, env=self._environment)
        finally:
            server.stop()

    def serve(self, words: list[str]) -> None:
        """Starts the node of the page and, on another address, the node `b` of another machine."""
        self._start_words = words
        self._ensure_nodes()

    def _ensure_nodes(self) -> None:
        """Starts both nodes if they do not run with the cluster file as it is now; a node that gave the lease away is down."""
        clusters = (self._directory / "clusters.toml").read_text()
        if clusters != self._clusters_at_start:
            self._stop_nodes()
            self._clusters_at_start = clusters
        for name in ("a", "b"):
            server = self._nodes.get(name)
            if server is None or server.exit_code() is not None:
                self._nodes[name] = self._start_node(name)
                self._check_clusters()

    def _start_node(self, name: str) -> Server:
        words = list(self._start_words)
        if name != "a":
            swap = {"a": name, f"{NODES[0]}:8081": f"{NODES[1]}:8081", STATE: f"{STATE}-{name}"}
            words = [swap.get(word, word) for word in words] + ["--admin-listen", "127.0.0.1:8084"]
        self._lives += 1
        log = self._directory / f"{name}-{self._lives}.log"
        command = [*self._enter, f"--wd={self._directory}", *words, "--ready-json"]
        with log.open("wb") as errors:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": errors}
            return Server.of_process(subprocess.Popen(command, env=self._environment, **pipes), log)

    def _check_clusters(self) -> None:
        """Fails if the nodes cannot use a cluster of the file."""
        key = ["--data-dir", STATE, "--json"]
        words = [*self._enter, str(program()), "clusters", "list", *key]
        done = subprocess.run(words, capture_output=True, text=True, env=self._environment)
        if done.returncode or "writeFailure" in done.stdout:
            raise ServerFailed(f"the nodes do not use each cluster: {done.stdout}{done.stderr}")

    def _stop_nodes(self) -> None:
        nodes, self._nodes = self._nodes, {}
        for server in nodes.values():
            if server.exit_code() is None:
                server.stop()

    def sql(self, text: str) -> str:
        """Runs a statement of the page in the second cluster.

        One with ids gets those that the cluster had, and runs as after the restore of a backup from before the ids.
        """
        self._stop_nodes()
        machine = self._machines[SECOND]
        if "ID OF THE CLUSTER" not in text:
            ids = machine.psql("SELECT encode(cluster, 'hex'), encode(fleet, 'hex') FROM orrery.identity", separator=",")
            self._ids = ids.split(",")
            return machine.psql(text, user="orrery")
        machine.psql("DROP TABLE orrery.identity")
        for place, found in zip(("ID OF THE CLUSTER", "ID OF THE FLEET"), self._ids, strict=True):
            text = text.replace(place, found)
        return machine.psql(text, user="orrery")

    def close(self) -> None:
        """Ends all processes of the namespaces."""
        for server in self._nodes.values():
            if server.exit_code() is None:
                server.kill()
        self._holder.stdin.close()
        self._holder.wait()


def is_possible() -> bool:
    """Returns true if this process may make the namespaces."""
    return os.geteuid() == 0 and all(map(shutil.which, ("ip", "unshare", "nsenter", "setpriv")))
