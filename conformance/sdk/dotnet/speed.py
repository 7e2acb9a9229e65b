"""The speed of the .NET SDK in direct mode against gateway mode over https.

Promises: no request fails.
Leaves out: a bound on the ratios, which depend on the machine and on what else it does.
"""

import json
import subprocess
from pathlib import Path

from orrery_server import Server

OPERATIONS = ("read", "create")
SECONDS = 3


def run_speed(program: Path, directory: Path) -> str:
    """Measures point reads and creations by 1, 16 and 64 callers.

    Returns the rates of gateway mode and the ratios of direct mode to them.
    """
    server = Server.start(directory / "server.log", "--memory")
    try:
        found = {
            (operation, mode): bench(program, server.endpoints.https, operation, mode)
            for operation in OPERATIONS
            for mode in ("gateway", "direct")
        }
    finally:
        server.stop()
    said = []
    for operation in OPERATIONS:
        gateway, direct = found[operation, "gateway"], found[operation, "direct"]
        for callers, rate in gateway.items():
            said.append(
                f"{operation} by {callers}: {rate:.0f}/s, direct {direct[callers] / rate:.2f} of it"
            )
    return "; ".join(said)


def bench(program: Path, endpoint: str, operation: str, mode: str) -> dict[int, float]:
    """Returns the requests in a second by the number of callers."""
    command = [str(program), "bench", "--endpoint", endpoint, "--insecure", "--mode", mode]
    command += ["--op", operation, "--seconds", str(SECONDS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert not any(line["failures"] for line in lines), ended.stdout
    return {line["concurrency"]: line["requestsPerSecond"] for line in lines}
