"""The table of scenarios through one SDK.

    run.py --lists FILE [--only TEXT] [--scheme http|https|both] [--mode gateway|direct|both]
           -- DRIVER [ARGUMENTS]

Starts a server in memory (with ORRERY_ENDPOINT set, uses the one there), starts the driver, runs every scenario on a
database of its own, and compares the results with the SDK's lists; with both schemes, once over each. With both modes,
runs all in direct mode at the same time, over https alone, and compares the answers.

Promises: exit code 0 only if every scenario and every public method is as listed, every answer that the driver recorded
keeps the rules of all answers, the answers in both modes differ only as listed, and the server neither exited nor
panicked.
"""

import argparse
import os
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
for shared in ("../../lib/ratchet", "../../lib/server"):
    sys.path.insert(0, str((HERE / shared).resolve()))

from driver import Driver, DriverFailed  # noqa: E402
from expectations import BadList, Result  # noqa: E402
from lists import Lists  # noqa: E402
from matching import MATCHERS, at, check  # noqa: E402
from modes import differences  # noqa: E402
from operations import OPERATIONS  # noqa: E402
from orrery_server import EMULATOR_KEY, Endpoints, Server, ServerFailed  # noqa: E402
from rules import broken_rules  # noqa: E402
from table import GIVEN, BadTable, Scenario, Step, read  # noqa: E402
from values import Mismatch, resolve  # noqa: E402

# The modes, and how many drivers run the scenarios of each at the same time. The Java SDK lets every fifth request in
# direct mode wait for up to 0.1 s before it sends it, whatever the server does.
DRIVERS = {"gateway": 1, "direct": 3}
# The texts of an expectation that are not names.
_KEPT = frozenset(MATCHERS)


class Missing(Exception):
    """The SDK has no public method for a step."""


@dataclass
class Run:
    """The state of a run."""

    mode: str
    seconds: float = 0
    methods: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    results: list[Result] = field(default_factory=list)
    asked_in_vain: set[str] = field(default_factory=set)
    broken_rules: list[str] = field(default_factory=list)
    # By scenario, the names that stand for its resources, and the answers to its steps.
    bound: dict[str, dict] = field(default_factory=dict)
    answers: dict[str, list[dict]] = field(default_factory=dict)


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
    parser.add_argument("--mode", choices=("gateway", "direct", "both"), default="gateway")
    parser.add_argument("driver", nargs="+")
    return parser.parse_args(words)


def walk(arguments: argparse.Namespace, lists: Lists, scenarios: list[Scenario], directory: Path) -> int:
    """Runs every scenario over each scheme, in each mode, and compares the results with the lists. Returns the exit
    code."""
    given = os.environ.get("ORRERY_ENDPOINT")
    server = None if given else Server.start(directory / "server.log", "--memory")
    here = Endpoints(given, given, os.environ.get("ORRERY_KEY") or EMULATOR_KEY) if given else server.endpoints
    schemes = ("http", "https") if arguments.scheme == "both" else (arguments.scheme,)
    modes = tuple(DRIVERS) if arguments.mode == "both" else (arguments.mode,)
    whole = not arguments.only
    code = 0
    try:
        for scheme in schemes:
            with ThreadPoolExecutor() as pool:
                begun = [
                    pool.submit(walk_in, mode, arguments.driver, here.of(scheme), here.key, scenarios, directory)
                    # The server takes frames behind TLS alone.
                    for mode in (modes if scheme == "https" else ("gateway",))
                ]
                runs = [one.result() for one in begun]
            for run in runs:
                title = scheme if run.mode == "gateway" else f"{scheme} in {run.mode} mode"
                code |= verdict(title, run, surprises_of(run, lists, whole=whole))
            if len(runs) == 2:
                code |= compare(*runs, lists, whole=whole)
    finally:
        if server:
            server.stop()
    return code


def walk_in(
    mode: str, command: list[str], endpoint: str, key: str, scenarios: list[Scenario], directory: Path
) -> Run:
    """Runs the scenarios in one mode, divided among its drivers."""
    run = Run(mode)
    began = time.monotonic()
    with ThreadPoolExecutor(DRIVERS[mode]) as pool:
        shares = [scenarios[number :: DRIVERS[mode]] for number in range(DRIVERS[mode])]
        begun = [
            pool.submit(walk_share, run, share, command, endpoint, key, directory / f"driver-{mode}-{number}.log")
            for number, share in enumerate(shares)
            if share
        ]
        for one in begun:
            one.result()
    run.seconds = time.monotonic() - began
    return run


def walk_share(
    run: Run, scenarios: list[Scenario], command: list[str], endpoint: str, key: str, log: Path
) -> None:
    """Runs some scenarios with a driver of their own."""
    with Driver(command, endpoint, key, log) as driver:
        if run.mode != "gateway":
            driver.ask("mode", {"mode": run.mode})
        for scenario in scenarios:
            run.results.append(outcome(driver, scenario, run))
        said = driver.ask("methods")
        run.methods.update(said["methods"])
        run.reached.update(said["reached"])


def surprises_of(run: Run, lists: Lists, *, whole: bool) -> list[str]:
    """Returns the differences between a run and the lists."""
    surprises = lists.surprises(run.results, run.asked_in_vain, mode=run.mode, whole=whole) + run.broken_rules
    return surprises + (lists.surprises_of_methods(run.methods, run.reached) if whole else [])


def compare(gateway: Run, direct: Run, lists: Lists, *, whole: bool) -> int:
    """Compares the answers in both modes with the list. Returns 1 if there is a surprise."""
    names = {result.test for result in gateway.results}
    found = {
        name: differences(gateway.answers[name], direct.answers[name], gateway.bound[name], direct.bound[name])
        for name in names
    }
    found = {name: texts for name, texts in found.items() if texts}
    surprises = lists.surprises_of_modes(found, names if whole else set())
    for surprise in surprises:
        print(f"  {surprise}")
    steps = sum(map(len, direct.answers.values()))
    print(f"{steps} answers in both modes: {len(found)} scenarios differ; {len(surprises)} surprises")
    return 1 if surprises else 0


def outcome(driver: Driver, scenario: Scenario, run: Run) -> Result:
    """Returns the result of a scenario: passed, failed, or skipped because the SDK lacks one of its steps."""
    database = f"db-{uuid.uuid4().hex[:12]}"
    bound = {"database": database, "container": "items", "unique": uuid.uuid4().hex[:12]}
    bound |= resolve(scenario.let, bound)
    answers = run.answers.setdefault(scenario.id, [])
    run.bound[scenario.id] = bound
    try:
        prepare(driver, scenario, bound)
        for each in resolve(list(scenario.each), bound):
            take_all(driver, scenario.steps, bound | {"each": each}, answers)
    except Missing as missing:
        run.asked_in_vain.add(str(missing))
        return Result(scenario.id, "skipped", f"the SDK has no {missing}")
    except Mismatch as mismatch:
        return Result(scenario.id, "failed", str(mismatch))
    finally:
        # Drivers of SDKs that can be watched return all answers of the server since the reset before.
        watched = driver.ask("reset").get("answers", [])
        run.broken_rules += [f"{scenario.id}: {complaint}" for complaint in broken_rules(watched)]
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


def take_all(driver: Driver, steps: tuple[Step, ...], bound: dict, answers: list[dict]) -> None:
    """Runs the steps one after another, and adds their answers."""
    for number, step in enumerate(steps, 1):
        try:
            take(driver, step, bound, answers)
        except Mismatch as mismatch:
            value = f" with {bound['each']!r}" if bound["each"] is not None else ""
            raise Mismatch(f"step {number}, {step.operation}{value}: {mismatch}") from None


def take(driver: Driver, step: Step, bound: dict, answers: list[dict]) -> None:
    """Runs one step: sends the request, checks the answer, binds names for later steps."""
    known = OPERATIONS[step.operation]
    usual = {name: bound[name] for name in ("database", "container") if name in known}
    answer = driver.ask(step.operation, usual | resolve(step.arguments, bound))
    if "missing" in answer:
        raise Missing(answer["missing"])
    answers.append(answer)
    check(answer, resolve(step.expect, bound, keep=_KEPT))
    for name, path in step.bind.items():
        bound[name] = at(answer, path)


def verdict(title: str, run: Run, surprises: list[str]) -> int:
    """Prints the results. Returns 1 if there is a surprise."""
    for surprise in surprises:
        print(f"  {surprise}")
    counts = {kind: sum(result.outcome == kind for result in run.results) for kind in ("passed", "failed", "skipped")}
    print(
        f"{len(run.results)} scenarios over {title} in {run.seconds:.0f} s: {counts['passed']} passed, "
        f"{counts['failed']} failed, {counts['skipped']} not possible with this SDK; {len(run.reached)} of "
        f"{len(run.methods)} public methods reached; {len(surprises)} surprises"
    )
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
