"""The report of a replay. See `conformance/clients/report.py`."""

import json
import sys
import traceback
from contextlib import contextmanager


class Replay:
    """A run of a replay: it reports the name and the version of the consumer whose calls it makes."""

    def __init__(self, consumer: str, version: str):
        self.failed = False
        say({"client": consumer, "version": version})

    @contextmanager
    def operation(self, name: str):
        try:
            yield
        except Exception as problem:  # noqa: BLE001
            traceback.print_exc()
            self.failed = True
            say({"operation": name, "passed": False, "message": f"{type(problem).__name__}: {problem}"[:800]})
        else:
            say({"operation": name, "passed": True})

    def end(self) -> None:
        say({"end": True})
        sys.exit(1 if self.failed else 0)


def say(line: dict) -> None:
    print(json.dumps(line), flush=True)
