"""A load of the .NET SDK over restarts, splits and a container that is created again.

The program writes and logs each write, while the physical partitions of its container are split and the server is
killed and started again. The program then compares the log with the container.

Promises: a lost or doubled write, or an item of a deleted container, is an AssertionError with the program's words.
Leaves out: writes without an answer that the SDK repeats by itself, which the program counts apart.
"""

import itertools
import subprocess
from pathlib import Path

from management import Management
from orrery_server import Server, free_port

DATABASE, CONTAINER = "load", "items"
SECONDS = 30
KILLS = 3
SPLITS_MAX = 12


class Host:
    """The server of the load, which starts again at the same address with the same data."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._port = free_port()
        self._starts = itertools.count(1)
        self.start()

    def start(self) -> None:
        log = self._directory / f"server-{next(self._starts)}.log"
        self.server = Server.start(log, "--data-dir", str(self._directory / "data"), port=self._port)

    def management(self) -> Management:
        return Management(self.server.endpoints.admin, self.server.endpoints.admin_key)


def run_load(program: Path, directory: Path) -> str:
    """Runs the load and the comparison. Returns a summary."""
    host = Host(directory)
    log = directory / "writes.jsonl"
    words = ["--endpoint", host.server.endpoints.http, "--log", str(log)]
    command = [str(program), "writer", *words, "--mode", "gateway", "--seconds", str(SECONDS)]
    command += ["--database", DATABASE, "--container", CONTAINER, "--recreate", "11"]
    splits = 0
    with (directory / "writer.log").open("wb") as out:
        writer = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        for kill in range(KILLS):
            splits += disturb(host, writer, seconds=SECONDS / (KILLS + 1))
            if writer.poll() is not None:
                raise AssertionError(f"the writer ended before kill {kill + 1}: {tail(directory / 'writer.log')}")
            host.server.kill()
            host.start()
        code = writer.wait(SECONDS + 60)
        assert code == 0, f"the writer ended with code {code}: {tail(directory / 'writer.log')}"
        checked = subprocess.run([str(program), "check", *words], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert splits > 0, "no partition was split"
    finally:
        writer.kill()
        host.server.stop()
    return f"{lines(log)} lines of the log are true after {KILLS} kills and {splits} splits"


def disturb(host: Host, writer: subprocess.Popen, seconds: float) -> int:
    """Splits physical partitions until the time is over or the writer has ended. Returns the number of splits."""
    splits = 0
    management = host.management()
    home = f"/dbs/{DATABASE}/colls/{CONTAINER}/partitions"
    try:
        writer.wait(seconds / 2)
    except subprocess.TimeoutExpired:
        # The container may be deleted and created again at any time, which refuses a split.
        try:
            partitions = management.call("GET", home)["partitions"]
            for partition in partitions[: SPLITS_MAX // KILLS]:
                management.call("POST", f"{home}/{partition['id']}/split", {})
                splits += 1
        except AssertionError as refused:
            print(f"a split was refused: {refused}")
    try:
        writer.wait(seconds / 2)
    except subprocess.TimeoutExpired:
        pass
    return splits


def lines(file: Path) -> int:
    """Returns the number of lines of a file."""
    with file.open() as opened:
        return sum(1 for _ in opened)


def tail(file: Path) -> str:
    """Returns the end of a file."""
    return file.read_text(errors="replace")[-2000:]
