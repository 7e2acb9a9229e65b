"""The steps of the .NET SDK, run by a program that contains that SDK.

    run.py PROGRAM [--run NAME]... [--only THEME[/STEP],...]

PROGRAM has the commands `scenarios`, `writer` and `check`; see README.md. Without --run, the runs `http` and `plans`;
`--run all` is every run. Each run starts a server of its own.

Promises: exit code 0 only if every step passed that the run expects to pass, every step failed that the run expects to
fail, no step was skipped but those of `SKIPPED`, and the server neither exited nor panicked.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib" / "server"))

from load import run_load  # noqa: E402
from orrery_server import Server, ServerFailed  # noqa: E402
from plans import run_plans  # noqa: E402

# With `--entra` the program skips the step that shows a server without directory identities.
SKIPPED = {"entra/without the setting, tokens are 401"}
# Steps that assert what the service does not do. The SDK's own suite asserts that a query finds an item with the
# directive Exclude where the indexing policy is automatic.
WRONG = frozenset({"items/indexing directive exclude hides an item from queries by property"})
# The fewest steps of a whole run. A program that runs fewer is another one.
STEPS_MIN = 550


class RunFailed(Exception):
    """A run had an unexpected result."""


@dataclass(frozen=True)
class Run:
    """One pass over all steps: options of the server, variables of the program, steps that fail in the SDK itself."""

    scheme: str = "http"
    server: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    fails: frozenset[str] = frozenset()


RUNS = {
    "http": Run(),
    "https": Run(scheme="https"),
    "refuse": Run(server=("--cross-partition-queries", "refuse")),
    # All containers have ten physical partitions.
    "partitions": Run(
        server=("--throughput", "60000", "--physical-partition-limit", "1MB"),
        # The step reads one page, and the error belongs to a row: the first partition has none that calls the function.
        fails=frozenset({"scripts/unknown function in a query is 400"}),
    ),
    # The client makes the plans of queries itself.
    "client-plans": Run(variables={"AZURE_COSMOS_USE_QUERY_PLAN_INTEROP_LINUX": "true"}),
    "binary": Run(
        variables={"AZURE_COSMOS_BINARY_ENCODING_ENABLED": "true"},
        # The SDK refuses the text before it sends a request.
        fails=frozenset({"items/stream that is no JSON is 400"}),
    ),
}

# The runs that are not the steps of the program.
OTHERS = {"plans": run_plans, "load": run_load}


def main() -> int:
    arguments = parse(sys.argv[1:])
    names = [*RUNS, *OTHERS] if "all" in arguments.run else arguments.run or ["http", "plans"]
    code = 0
    for name in names:
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as directory:
                if name in OTHERS:
                    said = OTHERS[name](arguments.program, Path(directory))
                else:
                    said = run_steps(arguments.program, RUNS[name], arguments.only, Path(directory))
            print(f"dotnet {name}: {said}, {time.monotonic() - began:.0f} s")
        except (RunFailed, ServerFailed, AssertionError) as problem:
            print(f"dotnet {name} failed: {problem}", file=sys.stderr)
            code = 1
    return code


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the program with the SDK")
    parser.add_argument("--run", action="append", default=[], choices=[*RUNS, *OTHERS, "all"])
    parser.add_argument("--only", default="", help="some themes or steps")
    return parser.parse_args(words)


def run_steps(program: Path, run: Run, only: str, directory: Path) -> str:
    """Runs all steps, or those of `only`, and compares the results with the expected ones. Returns a summary."""
    server = Server.start(directory / "server.log", "--memory", "--entra", "accept-any", *run.server)
    try:
        results = steps(program, server.endpoints.of(run.scheme), run, only, directory)
    finally:
        server.stop()
    problems = surprises(results, run, whole=not only)
    if problems:
        raise RunFailed("\n  ".join([f"{len(problems)} surprises", *problems]))
    passed = sum(result["Ok"] and not result["Skipped"] for result in results)
    return f"{passed} steps passed, {len(results) - passed} are known not to"


def steps(program: Path, endpoint: str, run: Run, only: str, directory: Path) -> list[dict]:
    """Runs the steps and returns the result of each."""
    report = directory / "report.json"
    command = [str(program), "scenarios", "--endpoint", endpoint, "--mode", "gateway", "--entra", "--json", str(report)]
    command += ["--insecure"] if run.scheme == "https" else []
    command += ["--only", only] if only else []
    log = directory / "steps.log"
    with log.open("wb") as out:
        ended = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | run.variables, check=False)
    if not report.is_file():
        raise RunFailed(f"the program ended with code {ended.returncode}: {log.read_text(errors='replace')[-2000:]}")
    return json.loads(report.read_text())


def surprises(results: list[dict], run: Run, *, whole: bool) -> list[str]:
    """Returns a line for each step that ended otherwise than expected."""
    found = []
    failing = run.fails | WRONG
    for result in results:
        name = result["FullName"]
        if result["Skipped"]:
            if name not in SKIPPED:
                found.append(f"{name}: skipped")
        elif not result["Ok"] and name not in failing:
            found.append(f"{name}: {result['Problem']}")
        elif result["Ok"] and name in failing:
            found.append(f"{name}: passed, and is expected to fail")
    if whole and len(results) < STEPS_MIN:
        found.append(f"only {len(results)} steps ran")
    return found


if __name__ == "__main__":
    sys.exit(main())
