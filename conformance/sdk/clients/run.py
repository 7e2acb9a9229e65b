"""The client programs against our server.

    run.py [--quick] [NAME...]                 runs the programs of these clients, or all
    run.py --environments [--quick] [NAME...]  prints the environments that the run needs, a line each

Each program has a server of its own in memory; with ORRERY_ENDPOINT set, the server there is used. Prints a line for
each operation that failed, and at the end a table of all clients.

Promises: exit code 0 only if every program passed and no server exited or panicked.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIB = HERE.parents[1] / "lib"
sys.path[1:1] = [str(LIB / "programs"), str(LIB / "server")]

import runner  # noqa: E402
from clients import CLIENTS, Client, chosen  # noqa: E402
from orrery_server import EMULATOR_KEY, Endpoints, Server, ServerFailed  # noqa: E402
from report import Report, judge  # noqa: E402

# Most take 1 to 5 s; the largest frameworks need 10 s for their imports after an installation.
SECONDS_MAX = 180
# Frameworks that would report their use to their makers are told not to.
NO_TELEMETRY = {"HAYSTACK_TELEMETRY_ENABLED": "False", "LANGSMITH_TRACING": "false"}


def main() -> int:
    def environments(clients: list[Client]) -> set[str]:
        return {client.environment for client in clients}

    # A server of another implementation says nothing about this program.
    is_ours = not os.environ.get("ORRERY_ENDPOINT")
    names = [client.name for client in CLIENTS] if is_ours else []
    return runner.main("clients", __doc__, names, chosen, environments, run_all)


def run_all(clients: list[Client], show: bool) -> Iterator[Report]:
    with tempfile.TemporaryDirectory() as directory:
        for client in clients:
            yield run(client, Path(directory), show)


def run(client: Client, directory: Path, show: bool) -> Report:
    """Runs the program of a client against a server that no other program has used."""
    given = os.environ.get("ORRERY_ENDPOINT")
    if given:
        key = os.environ.get("ORRERY_KEY") or EMULATOR_KEY
        return run_against(Endpoints(given, given, key), client, directory, show)
    try:
        server = Server.start(directory / f"{client.program.replace('/', '-')}.server.log", "--memory")
        try:
            report = run_against(server.endpoints, client, directory, show)
        finally:
            server.stop()
    except ServerFailed as failed:
        return Report(client, failures=[str(failed)])
    return report


def run_against(server: Endpoints, client: Client, directory: Path, show: bool) -> Report:
    """Runs the program of a client against this server."""
    environment = os.environ | NO_TELEMETRY
    environment |= {"ORRERY_ENDPOINT": server.of(client.scheme), "ORRERY_KEY": server.key}
    environment |= {"PYTHONPATH": f"{LIB / 'operations'}:{HERE / 'shared'}", "PYTHONDONTWRITEBYTECODE": "1"}
    log = directory / "program.log"
    began = time.monotonic()
    with log.open("w") as errors:
        process = subprocess.Popen(
            client.command(), cwd=HERE / client.environment, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=SECONDS_MAX)
            code = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            code = None
    report = judge(client, output.splitlines(), code, time.monotonic() - began)
    if show or report.failures:
        print(output + log.read_text(errors="replace"), flush=True)
    return report


if __name__ == "__main__":
    sys.exit(main())
