"""The test suite of the official Python SDK, unchanged, and tests of ours on its data, against our server.

    run.py [--quick] [--jobs N] [test_FILE.py[::TEST] ...] [arguments for pytest]

Each file of the suite runs in a pytest of its own, as it keeps state in modules and makes up names as it is
imported; several files run at a time, all against one server. `expected.toml` lists failing tests with their reasons.

Promises: exit code 0 only if every test ended as listed and the server neither exited nor panicked.
Leaves out: tests that never reach a server, or that are about accounts with several regions (`chosen.py`).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONFORMANCE = HERE.parents[1]
for shared in ("lib/ratchet", "lib/server"):
    sys.path.insert(0, str(CONFORMANCE / shared))

from chosen import OWN, QUICK, chosen, selection  # noqa: E402
from expectations import BadList, Expectations, Result, file_of  # noqa: E402
from orrery_server import EMULATOR_KEY, Server, ServerFailed, free_port  # noqa: E402
from sdist import NoSuite, tests_of_the_sdk  # noqa: E402

# The arguments of pytest that deselect tests.
SELECTING = ("-k", "-m", "-x", "--maxfail", "--deselect", "--exitfirst")

# pytest's exit codes with results to compare: all passed, some failed, none matched the selection.
JUDGED_CODES = (0, 1, 5)


@dataclass(frozen=True)
class Account:
    """The address and key of the suite's account."""

    endpoint: str
    key: str


@dataclass(frozen=True)
class FileRun:
    """The results of one file of the suite."""

    file: str
    results: list[Result]
    code: int
    seconds: float
    log: Path


def main() -> int:
    arguments, for_pytest = parse(sys.argv[1:])
    try:
        expectations = Expectations.read(HERE / "expected.toml")
        tests = tests_of_the_sdk(arguments.cache)
        arguments.files = arguments.files or chosen(tests)
        with ServerOfThisRun(arguments.cache) as account:
            runs = run_files(arguments, for_pytest, tests, account)
    except (BadList, NoSuite, ServerFailed) as problem:
        print(problem, file=sys.stderr)
        return 2
    is_part = any(word.startswith(SELECTING) for word in for_pytest)
    return verdict(expectations, runs, set() if is_part else set(arguments.files))


def parse(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns our own arguments, and the remaining arguments for pytest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the files that show most in little time")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="files at a time")
    parser.add_argument("--cache", type=Path, default=CONFORMANCE.parent / "target" / "conformance" / "official-python")
    arguments, rest = parser.parse_known_args(words)
    named = [word for word in rest if word.startswith("test_") and file_of(word).endswith(".py")]
    arguments.files = named or list(QUICK if arguments.quick else ())
    return arguments, [word for word in rest if word not in named]


class ServerOfThisRun:
    """A server for the duration of the block; with ORRERY_ENDPOINT set, the server that runs there."""

    def __init__(self, cache: Path):
        self._log = cache / "server.log"
        self._server: Server | None = None

    def __enter__(self) -> Account:
        given = os.environ.get("ORRERY_ENDPOINT")
        if given:
            return Account(given, os.environ.get("ORRERY_KEY") or EMULATOR_KEY)
        # The vendor's emulator has the name `localhost` and sends its clients to 127.0.0.1; tests that simulate
        # several regions distinguish them by these names.
        port = free_port()
        options = ("--endpoint", f"https://127.0.0.1:{port}", "--cross-partition-queries", "refuse", "--entra", "accept-any")
        self._server = Server.start(self._log, "--memory", *options, port=port)
        return Account(f"https://localhost:{port}/", self._server.endpoints.key)

    def __exit__(self, *_problem) -> None:
        if self._server is not None:
            self._server.stop()


def run_files(arguments, for_pytest: list[str], tests: Path, account: Account) -> list[FileRun]:
    """Runs the files, several at a time, and prints a line about each when it ends."""
    logs = arguments.cache / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    streams = len(arguments.files) == 1

    def one(file: str) -> FileRun:
        run = run_file(file, for_pytest, tests, account, logs / f"{file_of(file)}.log", streams)
        print(f"{file:<50} {tally(run.results):<40} {run.seconds:7.1f} s", flush=True)
        return run

    with ThreadPoolExecutor(arguments.jobs) as pool:
        return list(pool.map(one, arguments.files))


def run_file(file: str, for_pytest: list[str], tests: Path, account: Account, log: Path, streams: bool) -> FileRun:
    """Runs one file, or one test of it, in a pytest process of its own."""
    paths = [HERE / "stand_in", CONFORMANCE / "lib" / "ratchet"]
    with tempfile.TemporaryDirectory() as scratch:
        recorded = Path(scratch) / "results.jsonl"
        environment = os.environ | {
            "ACCOUNT_HOST": account.endpoint,
            "ACCOUNT_KEY": account.key,
            "PYTHONPATH": os.pathsep.join(str(path) for path in paths),
            "RATCHET_RESULTS": str(recorded),
        }
        home = HERE if file_of(file) in OWN else tests
        pytest = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), f"--rootdir={home}"]
        pytest += ["-p", "no:cacheprovider", "-p", "emulator", "-p", "recorder"]
        pytest += ["-m", selection(), str(home / file), *for_pytest]
        began = time.monotonic()
        with log.open("wb") as out:
            to = {} if streams else {"stdout": out, "stderr": subprocess.STDOUT}
            code = subprocess.run(pytest, cwd=tests, env=environment, check=False, **to).returncode
        lines = recorded.read_text(encoding="utf-8").splitlines() if recorded.is_file() else []
    return FileRun(file, [Result(**json.loads(line)) for line in lines], code, time.monotonic() - began, log)


def tally(results: list[Result]) -> str:
    counts = Counter(result.outcome for result in results)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped") if counts[outcome])


def verdict(expectations: Expectations, runs: list[FileRun], whole_files: set[str]) -> int:
    """Prints the surprises, then the summary line."""
    results = [result for run in runs for result in run.results]
    surprises = expectations.surprises(results, whole_files)
    surprises += [
        f"{run.file}: pytest ended with code {run.code}, see {run.log}" for run in runs if run.code not in JUDGED_CODES
    ]
    for surprise in surprises:
        print(f"UNEXPECTED {surprise}")
    if surprises:
        print(f"the whole reports are below {runs[0].log.parent}")
    counts = Counter(result.outcome for result in results)
    print(
        f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped; "
        f"{len(surprises)} not as listed"
    )
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
