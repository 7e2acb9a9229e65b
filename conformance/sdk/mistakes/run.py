"""The table of beginners' mistakes through the SDKs: what each shows, and the page that is made of it.

    run.py --page FILE [--write] [--only TEXT] --driver NAME COMMAND [--driver …]

NAME is an SDK and COMMAND a JSON array, the command line of its driver (see ../scenarios). Starts a server in
memory, makes every mistake through every SDK, and compares the page of the results with FILE, or writes it.

Promises: exit code 0 only if every user of an SDK that can make a mistake sees the status and the remedy of the table,
and the page is current.
"""

import argparse
import json
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
for shared in ("sdk/scenarios", "lib/ratchet", "lib/server"):
    sys.path.insert(0, str(HERE.parents[1] / shared))

from driver import Driver, DriverFailed  # noqa: E402
from matching import MATCHERS, at, check  # noqa: E402
from operations import OPERATIONS  # noqa: E402
from orrery_server import Server, ServerFailed  # noqa: E402
from table import GIVEN, BadTable  # noqa: E402
from values import Mismatch, resolve  # noqa: E402

from mistakes import Mistake, read  # noqa: E402
from page import page  # noqa: E402
from rest import Rest  # noqa: E402
from seen import masked, sentences  # noqa: E402

# A text that makes an item larger than 2 MB, and a body not larger than the server takes.
LARGE = "x" * 2_200_000
# The name under which requests written by hand stand beside the SDKs.
BY_HAND = "HTTP"


@dataclass
class Seen:
    """What the users of one mistake see, by SDK."""

    texts: dict[str, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    impossible: list[str] = field(default_factory=list)


class Impossible(Exception):
    """The SDK has no way to make the mistake."""


def main() -> int:
    arguments = parse(sys.argv[1:])
    try:
        mistakes = [mistake for mistake in read(HERE / "table") if arguments.only in mistake.name]
        with tempfile.TemporaryDirectory() as directory:
            return walk(arguments, mistakes, Path(directory))
    except (BadTable, ServerFailed, DriverFailed) as problem:
        print(problem, file=sys.stderr)
        return 2


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, required=True, help="the page of the documentation")
    parser.add_argument("--write", action="store_true", help="write the page instead of comparing it")
    parser.add_argument("--only", default="", help="mistakes whose name has this text; the page is then left alone")
    parser.add_argument("--driver", nargs=2, action="append", default=[], metavar=("NAME", "COMMAND"))
    return parser.parse_args(words)


def walk(arguments: argparse.Namespace, mistakes: list[Mistake], directory: Path) -> int:
    """Makes every mistake through every SDK, then judges texts and page."""
    began = time.monotonic()
    seen = {mistake.name: Seen() for mistake in mistakes}
    problems: list[str] = []
    server = Server.start(directory / "server.log", "--memory")
    try:
        for name, command in arguments.driver:
            # The client of Java needs TLS in its default mode.
            endpoint = server.endpoints.of("https" if name == "java" else "http")
            with Driver(json.loads(command), endpoint, server.endpoints.key, directory / f"{name}.log") as driver:
                rest = Rest(server.endpoints.http, server.endpoints.key)
                for mistake in mistakes:
                    problems += make(name, driver, rest, mistake, seen[mistake.name])
    finally:
        server.stop()
    if not arguments.only:
        problems += judge(arguments, page(mistakes, seen, HERE / "table"))
    made = sum(len(one.texts) + len(one.own) + len(one.silent) for one in seen.values())
    for problem in problems:
        print(f"  {problem}")
    print(
        f"{len(mistakes)} mistakes through {len(arguments.driver)} SDKs in {time.monotonic() - began:.0f} s: "
        f"{made} answers seen, {len(problems)} problems"
    )
    return 1 if problems else 0


def make(sdk: str, driver: Driver, rest: Rest, mistake: Mistake, seen: Seen) -> list[str]:
    """Makes a mistake through one SDK. Returns the problems."""
    if mistake.is_by_hand:
        if seen.texts:
            return []
        sdk = BY_HAND
    if sdk in mistake.prevented:
        seen.impossible.append(sdk)
        return []
    database = f"db-{uuid.uuid4().hex[:12]}"
    bound = {"database": database, "container": "items", "large": LARGE}
    try:
        prepare(driver, mistake, bound)
        arguments = resolve(mistake.arguments, bound)
        if mistake.is_by_hand:
            answer = rest.send(arguments)
        else:
            answer = ask(driver, mistake.operation, arguments, bound)
        note(sdk, mistake, answer, bound, seen)
    except Impossible:
        seen.impossible.append(sdk)
    except Mismatch as mismatch:
        return [f"{sdk}: {mistake.name}: {mismatch}"]
    finally:
        driver.ask("reset")
        driver.ask("delete_database", {"database": database})
    return []


def note(sdk: str, mistake: Mistake, answer: dict, bound: dict, seen: Seen) -> None:
    """Checks the answer to a mistake and keeps its text."""
    if sdk in mistake.own:
        text = answer.get("raised") or answer.get("message", "")
        if mistake.own[sdk] not in text:
            raise Mismatch(f"the SDK does not say {mistake.own[sdk]!r}: {text[:400]}")
        seen.own[sdk] = masked(text, bound["database"])
        return
    if sdk in mistake.silent:
        check(answer, {"status": mistake.expect["status"]})
        seen.silent.append(sdk)
        return
    if "raised" not in answer:
        answer = answer | {"message": sentences(answer.get("message", ""))}
    check(answer, resolve(mistake.expect, bound))
    seen.texts[sdk] = masked(answer["message"], bound["database"])


def prepare(driver: Driver, mistake: Mistake, bound: dict) -> None:
    """Creates the resources of a mistake and runs the steps before it."""
    if mistake.given != "nothing":
        check(driver.ask("create_database", {"database": bound["database"]}), {"status": 201})
        if throughput := GIVEN[mistake.given]:
            properties = {"id": "items", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
            ask(driver, "create_container", {"properties": properties, "throughput": throughput}, bound)
    for step in mistake.before:
        answer = ask(driver, step.operation, resolve(step.arguments, bound), bound)
        check(answer, resolve(step.expect, bound, keep=frozenset(MATCHERS)))
        for name, path in step.bind.items():
            bound[name] = at(answer, path)


def ask(driver: Driver, operation: str, arguments: dict, bound: dict) -> dict:
    """Returns the answer of an SDK to one operation."""
    known = OPERATIONS[operation]
    usual = {name: bound[name] for name in ("database", "container") if name in known}
    answer = driver.ask(operation, usual | arguments)
    if "missing" in answer:
        raise Impossible
    return answer


def judge(arguments: argparse.Namespace, text: str) -> list[str]:
    """Writes the page, or compares it with the one of the checkout."""
    if arguments.write:
        arguments.page.parent.mkdir(parents=True, exist_ok=True)
        arguments.page.write_text(text)
        return []
    if not arguments.page.is_file() or arguments.page.read_text() != text:
        return [f"{arguments.page} is not current: run `cargo xtask conformance mistakes --write`"]
    return []


if __name__ == "__main__":
    sys.exit(main())
