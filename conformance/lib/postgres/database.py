"""A PostgreSQL server for one run: created in a folder, started on a free port, stopped at the end.

PostgreSQL does not run as root, so root starts it as the user `postgres` of the Debian package.
"""

import os
import shutil
import socket
import subprocess
from pathlib import Path

READY_SECONDS_MAX = 60


class DatabaseFailed(Exception):
    """The server could not be created or started."""


def programs() -> Path:
    """Returns the folder with initdb and pg_ctl: that of the newest version which is installed."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if installed:
        return installed[-1]
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    raise DatabaseFailed("there is no initdb: install the package postgresql")


class Database:
    """One running server with the role `orrery`, whose password is in the file `password` of the folder.

    `within` are words before each command line, such as those of `nsenter`.
    """

    def __init__(self, folder: Path, within: tuple[str, ...] = ()):
        self._bin = programs()
        self._folder = folder
        self._data = folder / "postgresql"
        self._within = within
        self.port = 0

    def __enter__(self) -> "Database":
        password = self._folder / "password"
        password.write_text("a password of one run\n")
        self._data.mkdir(mode=0o700)
        if os.getuid() == 0:
            shutil.chown(self._data, "postgres")
            shutil.chown(password, "postgres")
            self._folder.chmod(0o755)
        self._create(password)
        # Another program may take the port between the look and the start.
        for attempt in range(5):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            try:
                self._start()
                return self
            except DatabaseFailed:
                if attempt == 4:
                    raise
        return self

    def _create(self, password: Path) -> None:
        create = ["initdb", "-U", "orrery", "-A", "scram-sha-256", "-N", "--locale=C", f"--pwfile={password}"]
        self._run(*create, "-D", str(self._data))

    def __exit__(self, *_: object) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "stop")

    def crash_and_start(self) -> None:
        """Ends the server as a crash does, and starts it on the same port."""
        self.__exit__()
        self._start()

    def _start(self) -> None:
        log = str(self._data / "server.log")
        wait = ["-w", "-t", str(READY_SECONDS_MAX)]
        self._run("pg_ctl", "-D", str(self._data), "-l", log, *wait, "-o", self._options(), "start")

    def _options(self) -> str:
        # The data of a run is worth nothing after a crash of the machine.
        options = f"-p {self.port} -k '' -c listen_addresses=127.0.0.1 -c max_connections=500 -c fsync=off"
        # Only a standby uses the setting, which delayed reads need.
        return options + " -c hot_standby_feedback=on"

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._bin / name), *arguments]
        if os.getuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
        command = [*self._within, *command]
        # The server inherits no pipe: a pipe would stay open for as long as the server runs.
        with open(self._folder / f"{name}.log", "w+b") as output:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", check=False)
            output.seek(0)
            if done.returncode != 0:
                raise DatabaseFailed(f"{name} failed: {output.read().decode(errors='replace')}")


class Standby(Database):
    """A standby of another server, which applies the log of that server as it arrives."""

    def __init__(self, folder: Path, primary: Database):
        super().__init__(folder)
        self._primary = primary

    def _create(self, password: Path) -> None:
        # `-R` writes the password into the settings of the standby.
        address = f"host=127.0.0.1 port={self._primary.port} user=orrery password='{password.read_text().strip()}'"
        self._run("pg_basebackup", "-d", address, "-R", "-c", "fast", "-X", "stream", "-D", str(self._data))
