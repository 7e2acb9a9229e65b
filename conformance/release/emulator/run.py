"""The consumers of the emulator against `orrery emulator`.

    run.py [--quick] [WORD...]                 runs the consumers with one of these words in their names, or all
    run.py --environments [--quick] [WORD...]  prints the environments that the run needs, a line each

Each program has an engine of its own (see `engine.py`), and begins on an empty home directory. Prints a line for each
operation that failed, with the output of the containers, and at the end a table.

Promises: exit code 0 only if every program passed as docs/compat.md says, removed its containers, asked the engine for nothing that it does
not have, and no emulator panicked.
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
from consumers import CONSUMERS, Consumer, chosen  # noqa: E402
from engine import Engine  # noqa: E402
from orrery_server import program  # noqa: E402
from report import Report, judge  # noqa: E402

SECONDS_MAX = 180
IMAGE = "orrery/orrery:latest"


def main() -> int:
    def environments(consumers: list[Consumer]) -> set[str]:
        return {consumer.environment for consumer in consumers if not consumer.is_replay}

    def run_all(consumers: list[Consumer], show: bool) -> Iterator[Report]:
        return (run(consumer, show) for consumer in consumers)

    names = [consumer.name for consumer in CONSUMERS]
    return runner.main("emulator", __doc__, names, chosen, environments, run_all)


def run(consumer: Consumer, show: bool) -> Report:
    """Runs the program of a consumer with an engine and a home directory of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        # The user of the image is not root, and its root is below this directory.
        os.chmod(directory, 0o755)
        home = Path(directory, "home")
        home.mkdir()
        engine = Engine.start(program(), Path(directory, "containers"), consumer.host)
        try:
            report, output = run_with(engine, consumer, home)
        finally:
            engine.stop()
        report.failures += blamed(engine)
        if show or report.failures:
            print(output, *("--- a container wrote:\n" + text for text in engine.texts), sep="\n", flush=True)
    return report


def run_with(engine: Engine, consumer: Consumer, home: Path) -> tuple[Report, str]:
    began = time.monotonic()
    with (home / "errors.log").open("w+") as errors:
        process = subprocess.Popen(
            consumer.command(), cwd=HERE / consumer.environment, env=environment(engine, home), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=SECONDS_MAX)
            code = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            code = None
        errors.seek(0)
        said = output + errors.read()
    return judge(consumer, output.splitlines(), code, time.monotonic() - began), said


def environment(engine: Engine, home: Path) -> dict[str, str]:
    """The environment of a program: it finds the engine, and no settings of the machine's user."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DOCKER_", "TESTCONTAINERS_"))}
    return kept | {
        "DOCKER_HOST": engine.url,
        "HOME": str(home),
        # The reaper would be a second image; a program that forgets a container fails the run.
        "TESTCONTAINERS_RYUK_DISABLED": "true",
        "ORRERY_IMAGE": IMAGE,
        "ORRERY_ENDPOINT": "",
        "ORRERY_KEY": "",
        "PYTHONPATH": f"{LIB / 'operations'}:{HERE / 'replays'}:{LIB / 'server'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def blamed(engine: Engine) -> list[str]:
    """The faults that the engine saw."""
    faults = [f"the engine has no {request}" for request in engine.refused]
    if not engine.texts:
        faults.append("no container was made")
    if engine.containers:
        faults.append(f"{len(engine.containers)} containers were not removed")
    if any("panicked at" in text for text in engine.texts):
        faults.append("the emulator panicked")
    return faults


if __name__ == "__main__":
    sys.exit(main())
