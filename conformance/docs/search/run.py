"""Runs the example `examples/search` against a server of its own and checks what it finds.

    python run.py

The program is installed into a virtual environment with its pins and runs as a person runs it. Promises: each question
has the function that answers it among the rows of each search by meaning and by both, and the indexes cost less than
reading the items. The program itself compares the answers with those of a container without indexes.
"""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "search"
sys.path.insert(0, str(ROOT / "conformance" / "lib" / "server"))

from orrery_server import Server  # noqa: E402

# A function that answers each question of the program.
ANSWERS = {
    "copy a directory with all its files?": "shutil.copytree",
    "wait until a thread has finished?": "threading.Thread.join",
    "choose a random element of a list?": "random.choice",
}
COSTS = re.compile(r"with indexes ([0-9.]+) RU, .*; without ([0-9.]+) RU")


def main() -> int:
    """Runs the program, prints what it prints, and returns the exit code."""
    environment = ROOT / "target" / "conformance" / "search"
    if not (environment / "bin" / "python").exists():
        venv.create(environment, with_pip=True)
    requirements = EXAMPLE / "requirements.txt"
    subprocess.run([environment / "bin" / "pip", "install", "--quiet", "-r", requirements], check=True)
    with tempfile.TemporaryDirectory(prefix="orrery-search-") as directory:
        server = Server.start(Path(directory) / "server.log", "--memory")
        try:
            command = [environment / "bin" / "python", EXAMPLE / "search.py", "--endpoint", server.endpoints.http]
            printed = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
        finally:
            server.stop()
    print(printed)
    failures = problems(printed)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def problems(printed: str) -> list[str]:
    """Returns what is wrong with the output of the program."""
    found = []
    for question, function in ANSWERS.items():
        part = printed.partition(question)[2].partition("?\n")[0]
        for way in ("by meaning", "by both"):
            rows = part.partition(f"  {way}")[2].partition("\n  by ")[0]
            if function not in rows:
                found.append(f"`{question}` {way}: {function} is not among the rows")
    costs = COSTS.findall(printed)
    if len(costs) != 3 * len(ANSWERS):
        found.append(f"the program printed the costs of {len(costs)} searches")
    for with_indexes, without in costs:
        if float(with_indexes) >= float(without):
            found.append(f"a search costs {with_indexes} RU with indexes and {without} RU without")
    return found


sys.exit(main())
