"""The table of scenarios through one SDK.

    run.py --lists FILE [--only TEXT] [--scheme http|https|both] -- DRIVER [ARGUMENTS]

Starts a server in memory (with ORRERY_ENDPOINT set, uses the one there), starts the driver, runs every scenario on a
database of its own, and compares the results with the SDK's lists; with both schemes, once over each.

Promises: exit code 0 only if every scenario and every public method is as listed, every answer that the driver recorded
keeps the rules of all answers, and the server neither exited nor panicked.
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
for shared in ("../../lib/ratchet", "../../lib/server"):
    sys.path.insert(0, str((HERE / shared).resolve()))

from driver import Driver, DriverFailed  # noqa: E402
from expectations import BadList, Result  # noqa: E402
from lists import Lists  # noqa: E402
from matching import MATCHERS, at, check  # noqa: E402
from operations import OPERATIONS  # noqa: E402
from orrery_server import EMULATOR_KEY, Endpoints, Server, ServerFailed  # noqa: E402
from rules import broken_rules  # noqa: E402
from table import GIVEN, BadTable, Scenario, Step, read  # noqa: E402
from values import Mismatch, resolve  # noqa: E402

# The texts of an expectation that are not names.
_KEPT = frozenset(MATCHERS)


class Missing(Exception):
    """The SDK has no public method for a step."""


@dataclass
class Run:
    """The state of a run."""

    results: list[Result] = field(default_factory=list)
    asked_in_vain: set[str] = field(default_factory=set)
    broken_rules: list[str] = field(default_factory=list)


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
    parser.add_argument("--scheme", choices=("http", "https", "both"), default="http")
    parser.add_argument("driver", nargs="+")
    return parser.parse_args(words)


def walk(arguments: argparse.Namespace, lists: Lists, scenarios: list[Scenario], directory: Path) -> int:
    """Runs every scenario over each scheme, then compares the results with the lists. Returns the exit code."""
    given = os.environ.get("ORRERY_ENDPOINT")
    server = None if given else Server.start(directory / "server.log", "--memory")
    here = Endpoints(given, given, os.environ.get("ORRERY_KEY") or EMULATOR_KEY) if given else server.endpoints
    schemes = ("http", "https") if arguments.scheme == "both" else (arguments.scheme,)
    code = 0
    try:
        for scheme in schemes:
            with Driver(arguments.driver, here.of(scheme), here.key, directory / "driver.log") as driver:
                code |= walk_over(scheme, driver, lists, scenarios, whole=not arguments.only)
    finally:
        if server:
            server.stop()
    return code


def walk_over(scheme: str, driver: Driver, lists: Lists, scenarios: list[Scenario], *, whole: bool) -> int:
    """Runs the scenarios over one scheme. Returns 1 if a result differs from the lists."""
    run = Run()
    began = time.monotonic()
    for scenario in scenarios:
        run.results.append(outcome(driver, scenario, run))
    said = driver.ask("methods")
    surprises = lists.surprises(run.results, run.asked_in_vain, whole=whole) + run.broken_rules
    if whole:
        surprises += lists.surprises_of_methods(set(said["methods"]), set(said["reached"]))
    return verdict(scheme, run, said, surprises, time.monotonic() - began)


def outcome(driver: Driver, scenario: Scenario, run: Run) -> Result:
    """Returns the result of a scenario: passed, failed, or skipped because the SDK lacks one of its steps."""
    database = f"db-{uuid.uuid4().hex[:12]}"
    bound = {"database": database, "container": "items", "unique": uuid.uuid4().hex[:12]}
    bound |= resolve(scenario.let, bound)
    try:
        prepare(driver, scenario, bound)
        for each in resolve(list(scenario.each), bound):
            take_all(driver, scenario.steps, bound | {"each": each})
    except Missing as missing:
        run.asked_in_vain.add(str(missing))
        return Result(scenario.id, "skipped", f"the SDK has no {missing}")
    except Mismatch as mismatch:
        return Result(scenario.id, "failed", str(mismatch))
    finally:
        # Drivers of SDKs that can be watched return all answers of the server since the reset before.
        answers = driver.ask("reset").get("answers", [])
        run.broken_rules += [f"{scenario.id}: {complaint}" for complaint in broken_rules(answers)]
        driver.ask("delete_database", {"database": database})
    return Result(scenario.id, "passed")


def prepare(driver: Driver, scenario: Scenario, bound: dict) -> None:
    """Creates the resources that the scenario is given."""
    if scenario.given == "nothing":
        return
    try:
        check(driver.ask("create_database", {"database": bound["database"]}), {"status": 201})
        owner = {"database": bound["database"]}
        throughput = GIVEN[scenario.given]
        if throughput:
            properties = {"id": bound["container"], "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
            asked = owner | {"properties": properties, "throughput": throughput}
            check(driver.ask("create_container", asked), {"status": 201})
        for item in resolve(scenario.items, bound):
            asked = owner | {"container": bound["container"], "item": item, "partition_key": [item["pk"]]}
            check(driver.ask("create_item", asked), {"status": 201})
    except Mismatch as mismatch:
        raise Mismatch(f"before the first step: {mismatch}") from None


def take_all(driver: Driver, steps: tuple[Step, ...], bound: dict) -> None:
    """Runs the steps one after another."""
    for number, step in enumerate(steps, 1):
        try:
            take(driver, step, bound)
        except Mismatch as mismatch:
            value = f" with {bound['each']!r}" if bound["each"] is not None else ""
            raise Mismatch(f"step {number}, {step.operation}{value}: {mismatch}") from None


def take(driver: Driver, step: Step, bound: dict) -> None:
    """Runs one step: sends the request, checks the answer, binds names for later steps."""
    known = OPERATIONS[step.operation]
    usual = {name: bound[name] for name in ("database", "container") if name in known}
    answer = driver.ask(step.operation, usual | resolve(step.arguments, bound))
    if "missing" in answer:
        raise Missing(answer["missing"])
    check(answer, resolve(step.expect, bound, keep=_KEPT))
    for name, path in step.bind.items():
        bound[name] = at(answer, path)


def verdict(scheme: str, run: Run, said: dict, surprises: list[str], seconds: float) -> int:
    """Prints the results. Returns 1 if there is a surprise."""
    for surprise in surprises:
        print(f"  {surprise}")
    counts = {kind: sum(result.outcome == kind for result in run.results) for kind in ("passed", "failed", "skipped")}
    print(
        f"{len(run.results)} scenarios over {scheme} in {seconds:.0f} s: {counts['passed']} passed, "
        f"{counts['failed']} failed, {counts['skipped']} not possible with this SDK; {len(said['reached'])} of "
        f"{len(said['methods'])} public methods reached; {len(surprises)} surprises"
    )
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
