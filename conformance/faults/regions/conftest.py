"""The fixtures: a PostgreSQL of the run, and nodes in two regions."""

import socket
import sys
import threading
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import pytest

HERE = Path(__file__).resolve().parent
# The suites beside this one have the database and the program.
sys.path += [str(HERE.parents[1] / "lib" / shared) for shared in ("postgres", "server")]

from database import Database, DatabaseFailed, Standby  # noqa: E402
from on_postgres import CLUSTER  # noqa: E402
from orrery_server import Server  # noqa: E402


@pytest.fixture(scope="session")
def database(tmp_path_factory):
    folder = Path(tmp_path_factory.mktemp("postgresql"))
    # The user `postgres` must reach the folder.
    for parent in [folder, *folder.parents[:2]]:
        parent.chmod(0o755)
    try:
        with Database(folder) as database:
            database.folder = folder
            yield database
    except DatabaseFailed as failed:
        pytest.exit(str(failed), returncode=2)


@pytest.fixture(scope="session")
def standby(database):
    folder = database.folder / "standby"
    folder.mkdir()
    with Standby(folder, database) as standby:
        yield standby


class Fleet:
    """Nodes on clusters of their own."""

    def __init__(self, database: Database, folder: Path):
        self._folder = folder
        schema = f"regions_{uuid.uuid4().hex[:12]}"
        self._file = folder / "clusters.toml"
        self._file.write_text(CLUSTER.format(folder=database.folder, schema=schema, port=database.port))
        self._running: list[Server] = []

    def add_standby(self, standby: Database, delay_ms: int) -> None:
        """Gives nodes that start later a standby, whose states they show with a delay on purpose."""
        text = self._file.read_text().replace("[[cluster.host]]", f"follower_delay_ms = {delay_ms}\n[[cluster.host]]")
        self._file.write_text(f'{text}[[cluster.host]]\naddress = "127.0.0.1:{standby.port}"\n')

    def start(self, name: str, region: str, *options: str) -> Server:
        store = ["--store", "postgres", "--cluster-file", str(self._file), "--node", name, "--region", region]
        place = ["--data-dir", str(self._folder / name)]
        node = Server.start(self._folder / f"{name}.log", *store, *place, *options)
        self._running.append(node)
        return node

    def kill(self, node: Server) -> None:
        self._running.remove(node)
        node.kill()

    def stop(self, node: Server) -> None:
        self._running.remove(node)
        node.stop()

    def end(self) -> None:
        for node in list(self._running):
            self.stop(node)


@pytest.fixture
def fleet(database, tmp_path):
    fleet = Fleet(database, tmp_path)
    yield fleet
    fleet.end()


class Balancer:
    """A port in front of several nodes: each connection goes to the first node that accepts one."""

    def __init__(self, *addresses: str):
        self._nodes = [(urlsplit(address).hostname, urlsplit(address).port) for address in addresses]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # Closing the socket alone would not wake the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            node = self._connect()
            if node is None:
                client.close()
                continue
            for source, target in [(client, node), (node, client)]:
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _connect(self) -> socket.socket | None:
        for node in self._nodes:
            try:
                return socket.create_connection(node)
            except OSError:
                continue
        return None

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@pytest.fixture
def balancer():
    """Starts balancers: `balancer(address, address)` returns the address of one."""
    balancers = []

    def start(*addresses):
        balancers.append(Balancer(*addresses))
        return balancers[-1].address

    yield start
    for one in balancers:
        one.close()
