"""The table of scenarios through one SDK.

    run.py --lists FILE [--only TEXT] [--scheme http|https] -- DRIVER [ARGUMENTS]

Starts a server in memory (with ORRERY_ENDPOINT set, uses the one there), starts the driver, runs every scenario on a
database of its own, and compares the results with the SDK's lists.

Promises: exit code 0 only if every scenario and every public method is as listed and the server neither exited nor
panicked.
"""

import argparse
import os
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
for shared in ("../../ratchet", "../python"):
    sys.path.insert(0, str((HERE / shared).resolve()))

from driver import Driver, DriverFailed  # noqa: E402
from expectations import BadList, Result  # noqa: E402
from lists import Lists  # noqa: E402
from matching import Mismatch, at, check, resolve  # noqa: E402
from operations import OPERATIONS  # noqa: E402
from orrery_server import EMULATOR_KEY, Endpoints, Server, ServerFailed  # noqa: E402
from table import GIVEN, BadTable, Scenario, Step, read  # noqa: E402


class Missing(Exception):
    """The SDK has no public method for a step."""


@dataclass
class Run:
    """The state of a run."""

    results: list[Result] = field(default_factory=list)
    asked_in_vain: set[str] = field(default_factory=set)


def main() -> int:
    arguments = parse(sys.argv[1:])
    try:
        lists = Lists.read(arguments.lists)
        scenarios = [scenario for scenario in read(HERE / "table") if arguments.only in scenario.id]
        with tempfile.TemporaryDirectory() as directory:
            return walk(arguments, lists, scenarios, Path(directory))
    except (BadList, BadTable, ServerFailed, DriverFailed) as problem:
        print(problem, file=sys.stderr)
        return 2


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=Path, required=True, help="what is known of the SDK")
    parser.add_argument("--only", default="", help="scenarios whose file::name has this text")
    parser.add_argument("--scheme", choices=("http", "https"), default="http")
    parser.add_argument("driver", nargs="+")
    return parser.parse_args(words)


def walk(arguments: argparse.Namespace, lists: Lists, scenarios: list[Scenario], directory: Path) -> int:
    """Runs every scenario, then compares the results with the lists."""
    given = os.environ.get("ORRERY_ENDPOINT")
    server = None if given else Server.start(directory / "server.log", "--memory")
    here = Endpoints(given, given, os.environ.get("ORRERY_KEY") or EMULATOR_KEY) if given else server.endpoints
    run = Run()
    began = time.monotonic()
    try:
        with Driver(arguments.driver, here.of(arguments.scheme), here.key, directory / "driver.log") as driver:
            for scenario in scenarios:
                run.results.append(outcome(driver, scenario, run))
            said = driver.ask("methods")
    finally:
        if server:
            server.stop()
    whole = not arguments.only
    surprises = lists.surprises(run.results, run.asked_in_vain, whole=whole)
    if whole:
        surprises += lists.surprises_of_methods(set(said["methods"]), set(said["reached"]))
    return verdict(run, said, surprises, time.monotonic() - began)


def outcome(driver: Driver, scenario: Scenario, run: Run) -> Result:
    """Returns the result of a scenario: passed, failed, or skipped because the SDK lacks one of its steps."""
    database = f"db-{uuid.uuid4().hex[:12]}"
    bound = {"database": database, "container": "items", "unique": uuid.uuid4().hex[:12]}
    try:
        prepare(driver, scenario.given, bound)
        for number, step in enumerate(scenario.steps, 1):
            try:
                take(driver, step, bound)
            except Mismatch as mismatch:
                return Result(scenario.id, "failed", f"step {number}, {step.operation}: {mismatch}")
    except Missing as missing:
        run.asked_in_vain.add(str(missing))
        return Result(scenario.id, "skipped", f"the SDK has no {missing}")
    except Mismatch as mismatch:
        return Result(scenario.id, "failed", f"before the first step: {mismatch}")
    finally:
        driver.ask("reset")
        driver.ask("delete_database", {"database": database})
    return Result(scenario.id, "passed")


def prepare(driver: Driver, given: str, bound: dict) -> None:
    """Creates the resources that the scenario is given."""
    if given == "nothing":
        return
    check(driver.ask("create_database", {"database": bound["database"]}), {"status": 201})
    throughput = GIVEN[given]
    if throughput:
        properties = {"id": bound["container"], "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
        asked = {"database": bound["database"], "properties": properties, "throughput": throughput}
        check(driver.ask("create_container", asked), {"status": 201})


def take(driver: Driver, step: Step, bound: dict) -> None:
    """Runs one step: sends the request, checks the answer, binds names for later steps."""
    known = OPERATIONS[step.operation]
    usual = {name: bound[name] for name in ("database", "container") if name in known}
    answer = driver.ask(step.operation, usual | resolve(step.arguments, bound))
    if "missing" in answer:
        raise Missing(answer["missing"])
    check(answer, resolve(step.expect, bound, keep_matchers=True))
    for name, path in step.bind.items():
        bound[name] = at(answer, path)


def verdict(run: Run, said: dict, surprises: list[str], seconds: float) -> int:
    """Prints the results."""
    for surprise in surprises:
        print(f"  {surprise}")
    counts = {kind: sum(result.outcome == kind for result in run.results) for kind in ("passed", "failed", "skipped")}
    print(
        f"{len(run.results)} scenarios in {seconds:.0f} s: {counts['passed']} passed, {counts['failed']} failed, "
        f"{counts['skipped']} not possible with this SDK; {len(said['reached'])} of {len(said['methods'])} public "
        f"methods reached; {len(surprises)} surprises"
    )
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
