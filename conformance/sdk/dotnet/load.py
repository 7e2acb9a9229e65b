"""A load of the .NET SDK over restarts, splits and a container that is created again, in both modes
at the same time.

The program writes and logs each write, while the physical partitions of its container are split and
the server is killed or stopped and started again. The program then compares the log with the
container. Each mode has a server.

Promises: a lost or doubled write, or an item of a deleted container, is an AssertionError with the
program's words.
Leaves out: writes without an answer that the SDK repeats by itself, which the program counts apart.
"""

import itertools
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from management import Management
from orrery_server import Server, free_port

DATABASE, CONTAINER = "load", "items"
SECONDS = 30
# How the server ends. A stop lets it answer what is open, a kill does not.
ENDS = ("kill", "stop", "kill")
# The container is created again at seconds 10 and 20. The server ends at others: at a quarter, a
# half and three quarters of the time.
RECREATE_SECONDS = 10
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
        self.server = Server.start(
            log, "--data-dir", str(self._directory / "data"), port=self._port
        )

    def end(self, how: str) -> None:
        """Ends the server with a kill or a stop, and starts it again."""
        self.server.kill() if how == "kill" else self.server.stop()
        self.start()

    def words(self, mode: str) -> list[str]:
        """Returns the arguments that tell the program where the server is."""
        if mode == "gateway":
            return ["--endpoint", self.server.endpoints.http, "--mode", mode]
        endpoint = self.server.endpoints.https.replace("127.0.0.1", "localhost")
        return ["--endpoint", endpoint, "--mode", mode, "--insecure"]

    def management(self) -> Management:
        return Management(self.server.endpoints.admin, self.server.endpoints.admin_key)


def run_load(program: Path, directory: Path) -> str:
    """Runs the load and the comparison in both modes. Returns a summary."""
    modes = ("gateway", "direct")
    with ThreadPoolExecutor() as pool:
        begun = [pool.submit(run_mode, program, mode, directory / mode) for mode in modes]
        said = [f"{mode}: {one.result()}" for mode, one in zip(modes, begun, strict=True)]
    return "; ".join(said)


def run_mode(program: Path, mode: str, directory: Path) -> str:
    """Runs the load and the comparison in one mode. Returns a summary."""
    directory.mkdir()
    host = Host(directory)
    words = [*host.words(mode), "--log", str(directory / "writes.jsonl")]
    command = [str(program), "writer", *words, "--seconds", str(SECONDS)]
    command += [
        "--database",
        DATABASE,
        "--container",
        CONTAINER,
        "--recreate",
        str(RECREATE_SECONDS),
    ]
    splits = 0
    log = directory / "writer.log"
    with log.open("wb") as out:
        writer = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        for number, how in enumerate(ENDS, 1):
            splits += disturb(host, writer, seconds=SECONDS / (len(ENDS) + 1))
            if writer.poll() is not None:
                raise AssertionError(
                    f"the writer ended before end {number} of the server: {tail(log)}"
                )
            host.end(how)
        code = writer.wait(SECONDS + 60)
        assert code == 0, f"the writer ended with code {code}: {tail(log)}"
        checked = subprocess.run(
            [str(program), "check", *words], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert splits > 0, "no partition was split"
    finally:
        writer.kill()
        host.server.stop()
    said = tail(log).strip().splitlines()[-1]
    return f"{said}; true after {len(ENDS)} ends of the server and {splits} splits"


def disturb(host: Host, writer: subprocess.Popen, seconds: float) -> int:
    """Splits physical partitions until the time is over or the writer has ended.

    Returns the number of splits.
    """
    splits = 0
    management = host.management()
    home = f"/dbs/{DATABASE}/colls/{CONTAINER}/partitions"
    try:
        writer.wait(seconds / 2)
    except subprocess.TimeoutExpired:
        # The container may be deleted and created again at any time, which refuses a split.
        try:
            partitions = management.call("GET", home)["partitions"]
            for partition in partitions[: SPLITS_MAX // len(ENDS)]:
                management.call("POST", f"{home}/{partition['id']}/split", {})
                splits += 1
        except AssertionError as refused:
            print(f"a split was refused: {refused}")
    try:
        writer.wait(seconds / 2)
    except subprocess.TimeoutExpired:
        pass
    return splits


def tail(file: Path) -> str:
    """Returns the end of a file."""
    return file.read_text(errors="replace")[-2000:]
