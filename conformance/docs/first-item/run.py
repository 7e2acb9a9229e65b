"""Measures the time from an empty home directory to the first item, in each language of `examples/first-item`.

    python run.py [LANGUAGE...] [--seconds-max N]

For each language, the steps of `LANGUAGES` run in a copy of its directory with a new, empty HOME: install the SDK from
the registry, build, run. The time begins with the start of the server program and ends with the printed item. The
program then runs again, since the second start of a program finds its database there.

Promises: nothing of the user's caches is read; the address in the program is the only text that is changed.
Leaves out: C#, for which there is no toolchain in CI; the toolchains themselves, which must be installed.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "first-item"
sys.path.insert(0, str(ROOT / "conformance" / "lib" / "server"))

from orrery_server import Server  # noqa: E402

# The address in the programs, and the schemes that they name.
ADDRESS = "127.0.0.1:8081"
STEP_SECONDS_MAX = 600

# Maven resolves the packages; compiling and running need no further plugin from the registry.
CLASS_PATH = "org.apache.maven.plugins:maven-dependency-plugin:2.8:build-classpath"


@dataclass
class Language:
    """The program's file, the steps to install and build, and the command that runs it."""

    source: str
    install: list[str]
    run: str
    # True if a library of the program writes notes of its own on standard error.
    has_notes: bool = False


LANGUAGES = {
    "python": Language(
        "first_item.py",
        ['"$PYTHON" -m venv .venv', ".venv/bin/pip install --quiet -r requirements.txt"],
        ".venv/bin/python first_item.py",
    ),
    "javascript": Language("first-item.mjs", ["npm ci --silent"], "node first-item.mjs"),
    "java": Language(
        "FirstItem.java",
        [
            # Maven takes its home from the account of the user, not from HOME.
            f'mvn --batch-mode --quiet -Dmaven.repo.local="$HOME/.m2/repository" {CLASS_PATH} -Dmdep.outputFile=class.path',
            'javac -proc:none -cp "$(cat class.path)" -d classes FirstItem.java',
        ],
        'java -cp "classes:$(cat class.path)" FirstItem',
        has_notes=True,
    ),
    "go": Language("main.go", ["go build -mod=readonly -buildvcs=false -o first-item ."], "./first-item"),
    "rust": Language("src/main.rs", ["cargo build --quiet --locked"], "target/debug/first-item"),
}


class StepFailed(Exception):
    """A step ended with an error; the message has its command and its output."""


def main() -> int:
    """Runs the chosen languages, prints a table, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Time from an empty home directory to the first item")
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=f"of {', '.join(LANGUAGES)}; all if none")
    parser.add_argument("--seconds-max", type=float, default=None, help="fail a language that needs longer")
    arguments = parser.parse_args()
    for name in arguments.languages:
        if name not in LANGUAGES:
            parser.error(f"there is no language `{name}`; the languages are {', '.join(LANGUAGES)}")

    rows, failures = [], []
    for name in arguments.languages or LANGUAGES:
        try:
            installed, total, processor, printed = first_item(LANGUAGES[name], EXAMPLES / name)
        except StepFailed as failure:
            failures.append(f"{name}: {failure}")
            continue
        rows.append((name, installed, total, processor, printed))
        if arguments.seconds_max is not None and total > arguments.seconds_max:
            failures.append(f"{name}: the first item came after {total:.1f} s, more than {arguments.seconds_max:g} s")

    print("| language | SDK installed, program built | first item after | time of the processor | it prints |\n|---|---:|---:|---:|---|")
    for name, installed, total, processor, printed in rows:
        print(f"| {name} | {installed:.1f} s | {total:.1f} s | {processor:.0f} s | `{printed[:40]}` |")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def first_item(language: Language, example: Path) -> tuple[float, float, float, str]:
    """Returns the seconds until the program was built and until it had printed its item, those of the processor, and
    what it printed."""
    with tempfile.TemporaryDirectory(prefix="orrery-first-item-") as directory:
        home, project = Path(directory) / "home", Path(directory) / "project"
        home.mkdir()
        ignored = shutil.ignore_patterns("node_modules", "target", ".venv", "classes", "obj", "bin")
        shutil.copytree(example, project, ignore=ignored)
        environment = empty_home(home)
        begun, used = time.monotonic(), processor_seconds()
        server = Server.start(Path(directory) / "server.log", "--memory")
        try:
            aim(project / language.source, server.endpoints.http.removeprefix("http://").rstrip("/"))
            for step in language.install:
                shell(step, project, environment)
            installed = time.monotonic() - begun
            # A first program shows its item and no warning.
            run = language.run if language.has_notes else f"{language.run} 2>&1"
            printed = shell(run, project, environment)
            total = time.monotonic() - begun
            processor = processor_seconds() - used
            again = shell(run, project, environment)
        finally:
            server.stop()
    for output in (printed, again):
        if "Hello from" not in output:
            raise StepFailed(f"`{language.run}` printed no item: {output!r}")
        if len(output.splitlines()) != 1:
            raise StepFailed(f"`{language.run}` printed more than its item:\n{output}")
    return installed, total, processor, printed.strip()


def processor_seconds() -> float:
    """Returns the time of the processor of all steps that have ended; the server is not among them."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def aim(source: Path, address: str) -> None:
    """Puts the address of the started server into the program, which names one in one place."""
    text = source.read_text()
    if text.count(ADDRESS) != 1:
        raise StepFailed(f"{source.name} names {ADDRESS} {text.count(ADDRESS)} times; the test replaces it once")
    source.write_text(text.replace(ADDRESS, address))


def empty_home(home: Path) -> dict[str, str]:
    """Returns an environment whose home is empty, with the toolchains of this machine and its settings of registries."""
    here = Path.home()
    environment = dict(os.environ)
    for name in [*environment]:
        # Caches and settings of the caller's tools would shorten the way.
        if name in ("GOPATH", "GOMODCACHE", "GOCACHE", "CARGO_HOME", "CARGO_TARGET_DIR", "XDG_CACHE_HOME"):
            del environment[name]
        elif name.startswith(("CARGO_", "npm_")) and name != "CARGO_NET_GIT_FETCH_WITH_CLI":
            del environment[name]
    environment |= {
        "HOME": str(home),
        "PYTHON": getattr(sys, "_base_executable", sys.executable),
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-modcacherw",
        "PIP_NO_CACHE_DIR": "1",
        # The toolchain is the prerequisite, not part of the time.
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(here / ".rustup")),
    }
    # The settings of the registries are those of this machine.
    for name in (".npmrc", ".cargo/config.toml", ".m2/settings.xml", ".config/go/env", ".config/pip/pip.conf"):
        if (here / name).is_file():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here / name, home / name)
    return environment


def shell(command: str, directory: Path, environment: dict[str, str]) -> str:
    """Runs a command line and returns its standard output."""
    try:
        run = subprocess.run(
            ["sh", "-c", command],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        raise StepFailed(f"`{command}` did not end within {STEP_SECONDS_MAX} s") from None
    if run.returncode != 0:
        end = (run.stdout + run.stderr).strip().splitlines()[-15:]
        raise StepFailed(f"`{command}` ended with {run.returncode}:\n" + "\n".join(end))
    return run.stdout


if __name__ == "__main__":
    sys.exit(main())
