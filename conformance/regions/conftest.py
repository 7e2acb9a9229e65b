"""The fixtures: a PostgreSQL of the run, and nodes in two regions."""

import sys
import uuid
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
# The suites beside this one have the database and the program.
sys.path += [str(HERE.parent / "postgres"), str(HERE.parent / "python")]

from database import Database, DatabaseFailed  # noqa: E402
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


class Fleet:
    """Nodes on clusters of their own."""

    def __init__(self, database: Database, folder: Path):
        self._folder = folder
        schema = f"regions_{uuid.uuid4().hex[:12]}"
        self._file = folder / "clusters.toml"
        self._file.write_text(CLUSTER.format(folder=database.folder, schema=schema, port=database.port))
        self._running: list[Server] = []

    def start(self, name: str, region: str) -> Server:
        store = ["--store", "postgres", "--cluster-file", str(self._file), "--node", name, "--region", region]
        node = Server.start(self._folder / f"{name}.log", *store, "--data-dir", str(self._folder / name))
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
