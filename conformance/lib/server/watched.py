"""The output of a child process: its lines, and the log file with its standard error.

A thread reads all lines at once, because a full pipe would stop the process.
"""

import queue
import subprocess
import threading
from pathlib import Path


class Output:
    """The output of a process whose standard output is a pipe."""

    def __init__(self, process: subprocess.Popen, log: Path):
        self._stdout = process.stdout
        self._log = log
        self._lines: queue.Queue = queue.Queue()
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._drainer.start()

    def line(self, seconds: float) -> bytes | None:
        """Returns the next line, or None at the end. Raises `queue.Empty` after the given time."""
        return self._lines.get(timeout=seconds)

    def join(self, seconds: float) -> None:
        """Waits until everything is read."""
        self._drainer.join(seconds)

    def log(self) -> str:
        """Returns the whole log; an empty text if there is none."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def end_of_log(self) -> str:
        """Returns the end of the log, for an error message."""
        text = self.log()
        return f"; the end of its log ({self._log}):\n{text[-4000:]}" if text else "; its log is empty"

    def _drain(self) -> None:
        with self._stdout as stdout:
            for line in stdout:
                self._lines.put(line)
        self._lines.put(None)
