"""A Python that runs the blocks of one page, one after another, with the names of the earlier ones.

The process reads a line of JSON, runs its text, and answers with what was printed and raised.
"""

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path

LOOP = """
import contextlib, io, json, sys, traceback, warnings
warnings.simplefilter("ignore")
answers, names = sys.stdout, {"__name__": "__main__"}
for line in sys.stdin:
    printed, raised = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(json.loads(line), "block", "exec"), names)
    except BaseException:
        raised = traceback.format_exc()
    answers.write(json.dumps([printed.getvalue(), raised]) + "\\n")
    answers.flush()
"""


class Session:
    """A running Python. `close` ends it."""

    def __init__(self, directory: Path, environment: dict[str, str]):
        self._process = subprocess.Popen(
            [sys.executable, "-c", LOOP],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def run(self, text: str, seconds_max: float) -> tuple[str, str | None]:
        """Runs a text and returns what it printed, and the traceback of what it raised."""
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        try:
            answer = self._answers.get(timeout=seconds_max)
        except queue.Empty:
            self.close()
            return "", f"it did not end within {seconds_max} s"
        if not answer:
            return "", "the Python of the page ended"
        printed, raised = json.loads(answer)
        return printed, raised

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
