"""The operations of a client program or of a replay, reported a line each. See `../programs/report.py`.

    program = Program("aio-cosmos")
    with program.operation("an item is created"):
        ...
    program.end()

An operation that raises is reported as failed, and the program goes on.
"""

import json
import os
import sys
import traceback
import uuid
from contextlib import contextmanager
from importlib.metadata import version

ENDPOINT = os.environ["ORRERY_ENDPOINT"]
KEY = os.environ["ORRERY_KEY"]


class Program:
    """A run of a program.

    Without `release`, `client` is an installed package, whose version is reported. A replay, which makes the calls of a
    client that is not installed, gives the version that it replays.
    """

    def __init__(self, client: str, release: str | None = None):
        self._failed = False
        self.database = f"clients-{uuid.uuid4().hex[:12]}"
        say({"client": client, "version": release or version(client)})

    @contextmanager
    def operation(self, name: str):
        """One operation and the assertions about its answer."""
        try:
            yield
        except Exception as problem:  # noqa: BLE001
            traceback.print_exc()
            self._failed = True
            say({"operation": name, "passed": False, "message": f"{type(problem).__name__}: {problem}"[:800]})
        else:
            say({"operation": name, "passed": True})

    def end(self) -> None:
        """Ends the process: with code 0 if every operation passed."""
        say({"end": True})
        sys.exit(1 if self._failed else 0)


def equal(found, expected) -> None:
    """Asserts that two values are equal."""
    assert found == expected, f"{found!r} is not {expected!r}"


def raises(kind: type, call, *arguments, **named):
    """Asserts that a call raises an error of this kind, and returns the error."""
    try:
        answer = call(*arguments, **named)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}, but {answer!r}")


def say(line: dict) -> None:
    print(json.dumps(line), flush=True)
