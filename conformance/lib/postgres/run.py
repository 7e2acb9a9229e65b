"""Runs a command, such as a suite, with a server program that keeps its data in a PostgreSQL of this run.

    run.py [--waiting] --program target/debug/orrery COMMAND [ARGUMENT...]

The command finds the server program in ORRERY_BIN, as every suite does. The exit code is that of the command.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from database import Database, DatabaseFailed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help="the real server program")
    parser.add_argument("--waiting", action="store_true", help="each server is a node beside the leaseholder")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("there is no command to run")
    folder = Path(tempfile.mkdtemp(prefix="orrery-on-postgres-"))
    try:
        with Database(folder) as database:
            environment = dict(
                os.environ,
                ORRERY_BIN=str(Path(__file__).resolve().parent / "on_postgres.py"),
                ORRERY_ON_POSTGRES_PROGRAM=str(arguments.program.resolve()),
                ORRERY_ON_POSTGRES_FOLDER=str(folder),
                ORRERY_ON_POSTGRES_PORT=str(database.port),
            )
            if arguments.waiting:
                environment["ORRERY_ON_POSTGRES_WAITING"] = "1"
            return subprocess.run(arguments.command, env=environment, check=False).returncode
    except DatabaseFailed as failed:
        print(failed, file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
