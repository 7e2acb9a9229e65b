"""The steps of the .NET SDK, run by a program that contains that SDK.

    run.py PROGRAM [--run NAME]... [--only THEME[/STEP],...]

PROGRAM has the commands `scenarios`, `bench`, `writer` and `check`; see README.md. Without --run, the
runs `http`, `direct` and `plans`; `--run all` is every run. Each run starts a server of its own. The
runs `http` and `direct` go side by side if both are chosen, and are compared.

Promises: exit code 0 only if every step passed that the run expects to pass, every step failed that the run expects to
fail, no step was skipped but those that the run expects to skip, the two modes differ as `differences.toml` says, and
the server neither exited nor panicked.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib" / "server"))

import comparison  # noqa: E402
from load import run_load  # noqa: E402
from orrery_server import Server, ServerFailed  # noqa: E402
from plans import run_plans  # noqa: E402
from speed import run_speed  # noqa: E402

# With `--entra` the program skips the step that shows a server without directory identities.
SKIPPED = frozenset({"entra/without the setting, tokens are 401"})
# The steps that the program skips in direct mode, too.
SKIPPED_IN_DIRECT_MODE = frozenset(
    {
        "account/application name is in the user agent",
        "account/429 is retried as often as MaxRetryAttempts allows",
        "diagnostics/backend duration of the response",
    }
)
# Steps that assert what the service does not do. The SDK's own suite asserts that a query finds an item with the
# directive Exclude where the indexing policy is automatic.
WRONG = frozenset({"items/indexing directive exclude hides an item from queries by property"})
# The fewest steps of a whole run. A program that runs fewer is another one.
STEPS_MIN = 550
# Themes whose steps wait for a clock most of their time, each group about as long as all other themes together. The
# groups run at the same time, and the other themes beside them.
WAITING = (("processor",), ("permissions", "faults"), ("consistency",))


class RunFailed(Exception):
    """A run had an unexpected result."""


@dataclass(frozen=True)
class Run:
    """One pass over all steps: options of the server, variables of the program, steps that fail in the SDK itself."""

    scheme: str = "http"
    mode: str = "gateway"
    server: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    fails: frozenset[str] = frozenset()

    @property
    def skips(self) -> frozenset[str]:
        """The steps that the program skips."""
        return SKIPPED | SKIPPED_IN_DIRECT_MODE if self.mode == "direct" else SKIPPED

    def endpoint(self, server: Server) -> str:
        """Returns the endpoint of the client. In direct mode by name, as users write it: the server's addresses of
        partitions must then have the name too."""
        endpoint = server.endpoints.of(self.scheme)
        return endpoint.replace("127.0.0.1", "localhost") if self.mode == "direct" else endpoint


# The client makes the plans of queries itself.
CLIENT_PLANS = {"AZURE_COSMOS_USE_QUERY_PLAN_INTEROP_LINUX": "true"}
# All containers have ten physical partitions.
TEN_PARTITIONS = ("--throughput", "60000", "--physical-partition-limit", "1MB")
# The step reads one page, and the error belongs to a row: the first partition has none that calls the function.
FAILS_ON_TEN = frozenset({"scripts/unknown function in a query is 400"})

RUNS = {
    "http": Run(),
    "direct": Run(scheme="https", mode="direct"),
    "https": Run(scheme="https"),
    "refuse": Run(server=("--cross-partition-queries", "refuse")),
    "partitions": Run(server=TEN_PARTITIONS, fails=FAILS_ON_TEN),
    "client-plans": Run(variables=CLIENT_PLANS),
    "binary": Run(
        variables={"AZURE_COSMOS_BINARY_ENCODING_ENABLED": "true"},
        # The SDK refuses the text before it sends a request.
        fails=frozenset({"items/stream that is no JSON is 400"}),
    ),
    # As Windows clients are by default, on containers with several addresses.
    "direct-partitions": Run(
        scheme="https", mode="direct", server=TEN_PARTITIONS, variables=CLIENT_PLANS, fails=FAILS_ON_TEN
    ),
    # Reads ask for a quorum of copies.
    "direct-strong": Run(
        scheme="https",
        mode="direct",
        server=("--consistency", "strong"),
        # A strong read costs twice as much, and heeds no session token.
        fails=frozenset({"items/read", "consistency/session token from the future is 404/1002"}),
    ),
}

# The two runs that are compared, and the list of their differences.
COMPARED = ("http", "direct")
DIFFERENCES = HERE / "differences.toml"

# The runs that are not the steps of the program.
OTHERS = {"plans": run_plans, "load": run_load, "speed": run_speed}


def main() -> int:
    arguments = parse(sys.argv[1:])
    names = [*RUNS, *OTHERS] if "all" in arguments.run else arguments.run or [*COMPARED, "plans"]
    rounds = [[name] for name in names if name not in COMPARED or not set(COMPARED) <= set(names)]
    if set(COMPARED) <= set(names):
        rounds.insert(0, list(COMPARED))
    code = 0
    for together in rounds:
        began = time.monotonic()
        title = " and ".join(together)
        try:
            with tempfile.TemporaryDirectory() as directory:
                said = run_round(together, arguments, Path(directory))
            print(f"dotnet {title}: {said}, {time.monotonic() - began:.0f} s")
        except (RunFailed, ServerFailed, comparison.BadList, AssertionError) as problem:
            print(f"dotnet {title} failed: {problem}", file=sys.stderr)
            code = 1
    return code


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the program with the SDK")
    parser.add_argument("--run", action="append", default=[], choices=[*RUNS, *OTHERS, "all"])
    parser.add_argument("--only", default="", help="some themes or steps")
    return parser.parse_args(words)


def run_round(names: list[str], arguments: argparse.Namespace, directory: Path) -> str:
    """Runs one run, or the two that are compared. Returns a summary."""
    program, only = arguments.program, arguments.only
    if names[0] in OTHERS:
        return OTHERS[names[0]](program, directory)
    with ThreadPoolExecutor() as pool:
        begun = [pool.submit(run_steps, program, name, only, directory) for name in names]
        runs = dict(zip(names, (one.result() for one in begun), strict=True))
    problems = [
        f"{name}: {problem}"
        for name, results in runs.items()
        for problem in surprises(results, RUNS[name], whole=not only)
    ]
    said = [f"{sum(passed(step) for step in steps)} of {len(steps)} steps passed" for steps in runs.values()]
    if len(runs) == 2:
        found = comparison.differences(*runs.values())
        ran = {step["FullName"] for steps in runs.values() for step in steps}
        problems += comparison.surprises(found, comparison.read(DIFFERENCES), ran, whole=not only)
        said.append(f"{len(found)} differences, all listed")
    if problems:
        raise RunFailed("\n  ".join([f"{len(problems)} surprises", *problems]))
    return "; ".join(said)


def passed(step: dict) -> bool:
    return step["Ok"] and not step["Skipped"]


def run_steps(program: Path, name: str, only: str, directory: Path) -> list[dict]:
    """Runs all steps, or those of `only`, on a server of their own. Returns the result of each."""
    run = RUNS[name]
    log = directory / f"{name}.server.log"
    server = Server.start(log, "--memory", "--entra", "accept-any", *run.server)
    try:
        groups = [only] if only else themes(program)
        with ThreadPoolExecutor(len(groups)) as pool:
            begun = [
                pool.submit(steps, program, run, run.endpoint(server), group, directory / f"{name}-{number}")
                for number, group in enumerate(groups)
            ]
            return [result for one in begun for result in one.result()]
    finally:
        server.stop()


def themes(program: Path) -> list[str]:
    """Returns the themes of the program in groups that run at the same time."""
    listed = subprocess.run([str(program), "scenarios", "--list"], capture_output=True, text=True, check=True)
    waiting = {theme for group in WAITING for theme in group}
    others = [theme for theme in listed.stdout.split() if theme not in waiting]
    return [",".join(group) for group in (others, *WAITING)]


def steps(program: Path, run: Run, endpoint: str, only: str, files: Path) -> list[dict]:
    """Runs some steps and returns the result of each. The names of the files that are written begin with `files`."""
    report = files.with_suffix(".json")
    command = [str(program), "scenarios", "--endpoint", endpoint, "--mode", run.mode, "--entra"]
    command += ["--json", str(report), "--only", only]
    command += ["--insecure"] if run.scheme == "https" else []
    log = files.with_suffix(".log")
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
            if name not in run.skips:
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
