"""The server of the suite: started on a free port, monitored, stopped.

The program prints `{"ready":true,"endpoint":…,"endpoint_http":…,"key":…}` on its standard output when it is ready;
nothing here waits for the clock. Its log goes to a file, and the end of that file is part of every error message.

Promises: the process has ended after `stop`, and a server that exited early or panicked is reported.
"""

import json
import os
import queue
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from watched import Output

ROOT = Path(__file__).resolve().parents[3]
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20

# The public key of the emulator.
EMULATOR_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="


class ServerFailed(Exception):
    """The server did not start, exited early, or panicked."""


@dataclass
class Endpoints:
    """The addresses and keys of a server. A server of another implementation may have no management API."""

    https: str
    http: str
    key: str
    admin: str | None = None
    admin_key: str | None = None

    def of(self, scheme: str) -> str:
        return self.https if scheme == "https" else self.http


def program() -> Path:
    """The server program: $ORRERY_BIN, else the one that `cargo build` leaves in target/debug."""
    path = Path(os.environ.get("ORRERY_BIN") or ROOT / "target" / "debug" / "orrery")
    if not path.is_file():
        raise ServerFailed(
            f"no server program at {path}: build it with `cargo build -p orrery-cli`, "
            "or name another one in ORRERY_BIN"
        )
    return path


def free_port() -> int:
    """Returns a free port, for a server that must know its own address before it listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One running server. Build it with `Server.start`."""

    def __init__(self, process: subprocess.Popen, log: Path):
        self._process = process
        self._output = Output(process, log)
        self.endpoints: Endpoints | None = None

    @classmethod
    def start(
        cls,
        log: Path,
        *arguments: str,
        port: int = 0,
        address: str = "127.0.0.1",
        within: tuple[str, ...] = (),
        other_program: Path | None = None,
        defaults: dict[str, str] | None = None,
    ) -> "Server":
        """Starts the program, on free ports unless one is named, and returns when it has reported that it is ready.

        `within` are the words before the program, such as those of `ip netns exec`; they must become the program.
        `defaults` are variables of the program's environment that the caller's environment does not have.
        """
        command = [*within, str(other_program or program()), "start", "--listen", f"{address}:{port}", "--ready-json"]
        command += ["--admin-listen", f"{address}:0", *arguments]
        with log.open("wb") as stderr:
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": stderr}
            process = subprocess.Popen(command, env={**(defaults or {}), **os.environ}, **streams)
        return cls.of_process(process, log)

    @classmethod
    def of_process(cls, process: subprocess.Popen, log: Path) -> "Server":
        """Returns the server that a caller has started with `--ready-json` and a pipe, as soon as it is ready."""
        server = cls(process, log)
        try:
            server.endpoints = server._wait_until_ready()
        except BaseException:
            process.kill()
            process.wait()
            raise
        return server

    def stop(self) -> None:
        """Ends the process. Raises ServerFailed if it had exited before or panicked at any time."""
        died = self._process.poll()
        if died is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise self._failure(f"the server did not stop within {STOP_SECONDS_MAX} s") from None
        else:
            raise self._failure(f"the server ended by itself with code {died}")
        self._output.join(STOP_SECONDS_MAX)
        if "panicked at" in self._output.log():
            raise self._failure("the server panicked")

    def kill(self) -> None:
        """Kills the process with SIGKILL. Raises ServerFailed if it had exited before."""
        died = self._process.poll()
        if died is not None:
            raise self._failure(f"the server ended by itself with code {died}")
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stops the threads of the process with SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets the threads of the process go on."""
        self._process.send_signal(signal.SIGCONT)

    def exit_code(self) -> int | None:
        """Returns the exit code of a process that has ended."""
        return self._process.poll()

    def wait_for_end(self, code: int) -> None:
        """Waits for the process to end by itself. Raises ServerFailed if the exit code is another one."""
        try:
            found = self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise self._failure(f"the server did not end within {STOP_SECONDS_MAX} s") from None
        if found != code:
            raise self._failure(f"the server ended with code {found}")

    def _wait_until_ready(self) -> Endpoints:
        try:
            line = self._output.line(READY_SECONDS_MAX)
        except queue.Empty:
            raise self._failure(f"the server was not ready after {READY_SECONDS_MAX} s") from None
        if line is None:
            raise self._failure("the server ended before it was ready")
        try:
            said = json.loads(line)
            assert said["ready"] is True
            return Endpoints(
                https=said["endpoint"],
                http=said["endpoint_http"],
                key=said["key"],
                admin=said["admin_endpoint"],
                admin_key=said["admin_key"],
            )
        except (ValueError, KeyError, TypeError, AssertionError):
            raise self._failure(f"the server's first line is not its ready line: {line!r}") from None

    def _failure(self, what: str) -> ServerFailed:
        return ServerFailed(what + self._output.end_of_log())
