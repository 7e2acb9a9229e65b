"""The client programs against our server.

    run.py [--quick] [NAME...]                 runs the programs of these clients, or all
    run.py --environments [--quick] [NAME...]  prints the environments that the run needs, a line each

Each program has a server of its own in memory; with ORRERY_ENDPOINT set, the server there is used. Prints a line for
each operation that failed, and at the end a table of all clients.

Promises: exit code 0 only if every program passed and no server exited or panicked.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

from clients import CLIENTS, Client, chosen  # noqa: E402
from document import finish  # noqa: E402
from orrery_server import EMULATOR_KEY, Endpoints, Server, ServerFailed  # noqa: E402
from report import Report, judge, table  # noqa: E402

# Most take 1 to 5 s; the largest frameworks need 10 s for their imports after an installation.
SECONDS_MAX = 180
# Frameworks that would report their use to their makers are told not to.
NO_TELEMETRY = {"HAYSTACK_TELEMETRY_ENABLED": "False", "LANGSMITH_TRACING": "false"}


def main() -> int:
    arguments = parse(sys.argv[1:])
    clients = chosen(arguments.names, arguments.quick)
    if arguments.environments:
        print("\n".join(sorted({client.environment for client in clients})))
        return 0
    reports = []
    with tempfile.TemporaryDirectory() as directory:
        for client in clients:
            report = run(client, Path(directory), show=arguments.verbose)
            reports.append(report)
            for failure in report.failures:
                print(f"{client.name}: {failure}", flush=True)
    print(table(reports))
    # A server of another implementation says nothing about this program.
    faults = [] if os.environ.get("ORRERY_ENDPOINT") else finish("clients", reports, [client.name for client in CLIENTS], arguments.write)
    print("\n".join(faults), end="\n" if faults else "")
    failed = sum(not report.has_passed for report in reports)
    print(f"{len(reports) - failed} passed, {failed} failed")
    return 1 if failed or faults else 0


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the quick choice only")
    parser.add_argument("--environments", action="store_true", help="print the environments and run nothing")
    parser.add_argument("--verbose", action="store_true", help="show everything that the programs print")
    parser.add_argument("--write", action="store_true", help="write the results into docs/compat.md")
    parser.add_argument("names", nargs="*", metavar="NAME")
    return parser.parse_args(words)


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
    environment |= {"PYTHONPATH": str(HERE / "shared"), "PYTHONDONTWRITEBYTECODE": "1"}
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
