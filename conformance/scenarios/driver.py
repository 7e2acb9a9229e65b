"""A driver: a program that carries out operations with one SDK, a line of JSON in and a line out.

It is started with the server's endpoint and key in `ORRERY_ENDPOINT` and `ORRERY_KEY`, and asked one thing at a time:

    {"do": "create_item", "with": {…}}   an answer (see matching.py), or {"missing": "what the SDK cannot do"},
                                         or {"raised": "a failure without an answer of the server"}
    {"do": "reset"}                      forget the client that `connect` made                       {}
    {"do": "methods"}                    {"methods": [every public method], "reached": [those called so far]}

Promises: a driver that dies, says something else, or takes longer than `ANSWER_SECONDS_MAX` is a `DriverFailed`.
"""

import json
import os
import queue
import subprocess
import threading
from pathlib import Path

ANSWER_SECONDS_MAX = 120
STOP_SECONDS_MAX = 20


class DriverFailed(Exception):
    """The driver broke its word."""


class Driver:
    """One running driver; a context manager."""

    def __init__(self, command: list[str], endpoint: str, key: str, log: Path):
        self._log = log
        self._lines: queue.Queue = queue.Queue()
        environment = os.environ | {"ORRERY_ENDPOINT": endpoint, "ORRERY_KEY": key}
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment
            )
        threading.Thread(target=self._drain, daemon=True).start()

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ask(self, what: str, arguments: dict | None = None) -> dict:
        """The driver's answer to one request."""
        line = json.dumps({"do": what, "with": arguments or {}})
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
            answer = self._lines.get(timeout=ANSWER_SECONDS_MAX)
        except OSError:
            answer = None
        except queue.Empty:
            raise DriverFailed(f"no answer to {line[:300]}{self._end_of_log()}") from None
        if answer is None:
            raise DriverFailed(f"the driver ended at {line[:300]}{self._end_of_log()}")
        try:
            return dict(json.loads(answer))
        except (ValueError, TypeError):
            raise DriverFailed(f"the driver said {answer[:300]!r}{self._end_of_log()}") from None

    def _drain(self) -> None:
        with self._process.stdout as stdout:
            for line in stdout:
                self._lines.put(line)
        self._lines.put(None)

    def _end_of_log(self) -> str:
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return f"; the end of its log ({self._log}):\n{text[-4000:]}" if text else "; its log is empty"
