"""A driver: a program that executes operations with one SDK; it reads and writes one line of JSON for each.

It is started with the server's endpoint and key in `ORRERY_ENDPOINT` and `ORRERY_KEY`, and gets one request at a time:

    {"do": "create_item", "with": {…}}   an answer (see matching.py), or {"missing": "a gap of the SDK"},
                                         or {"raised": "a failure without an answer of the server"}
    {"do": "reset"}                      {}, and the client that `connect` created is dropped; a driver that sees the
                                         answers of the server below its SDK returns {"answers": […]}, all since the
                                         reset before, each with the fields of `Answer` in ../../lib/server/rules.py
    {"do": "mode", "with": {"mode": "direct"}}
                                         {}, and all further clients connect in this mode; asked of drivers of SDKs
                                         with a direct mode alone
    {"do": "methods"}                    {"methods": [every public method], "reached": [those called so far]}

Promises: a driver that exits, writes another answer, or takes longer than `ANSWER_SECONDS_MAX` is a `DriverFailed`.
"""

import json
import os
import queue
import subprocess
from pathlib import Path

from watched import Output

ANSWER_SECONDS_MAX = 120
STOP_SECONDS_MAX = 20


class DriverFailed(Exception):
    """The driver violated the protocol."""


class Driver:
    """One running driver; a context manager."""

    def __init__(self, command: list[str], endpoint: str, key: str, log: Path):
        environment = os.environ | {"ORRERY_ENDPOINT": endpoint, "ORRERY_KEY": key}
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment
            )
        self._output = Output(self._process, log)

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
        """Returns the driver's answer to one request."""
        line = json.dumps({"do": what, "with": arguments or {}})
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
            answer = self._output.line(ANSWER_SECONDS_MAX)
        except OSError:
            answer = None
        except queue.Empty:
            raise self._failure(f"no answer to {line[:300]}") from None
        if answer is None:
            raise self._failure(f"the driver ended at {line[:300]}")
        try:
            return dict(json.loads(answer))
        except (ValueError, TypeError):
            raise self._failure(f"the driver said {answer[:300]!r}") from None

    def _failure(self, what: str) -> DriverFailed:
        return DriverFailed(what + self._output.end_of_log())
