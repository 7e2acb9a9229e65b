#!/usr/bin/env python3
"""A server program that keeps its data in PostgreSQL: the program of a suite, in the place of `orrery`.

`start --memory` becomes `start --store postgres` with a schema of its own; `start --data-dir DIRECTORY` becomes the
same with a schema that belongs to the directory, so that a server that starts again finds its data. All other commands
and options go to the real program unchanged, which replaces this one.

With `ORRERY_ON_POSTGRES_WAITING` the server is a node that waits for the lease: another node with the same account is
started first, on free ports, and ends with the server.

`run.py` sets the variables that are read here.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CLUSTER = """\
[[cluster]]
name = "suite"
user = "orrery"
database = "postgres"
password_file = "{folder}/password"
schema = "{schema}"
tls = "off"
[[cluster.host]]
address = "127.0.0.1:{port}"
"""


def on_postgres(arguments: list[str], folder: Path, port: str) -> list[str]:
    """Returns the arguments of `start` with the store in PostgreSQL; a server without a place of data is left alone."""
    arguments = list(arguments)
    if "--memory" in arguments:
        arguments.remove("--memory")
        directory = Path(tempfile.mkdtemp(prefix="server-", dir=folder))
        arguments += ["--data-dir", str(directory)]
    elif "--data-dir" in arguments:
        directory = Path(arguments[arguments.index("--data-dir") + 1]).resolve()
    else:
        return arguments
    schema = "suite_" + hashlib.sha256(str(directory).encode()).hexdigest()[:16]
    file = folder / f"{schema}.toml"
    file.write_text(CLUSTER.format(folder=folder, schema=schema, port=port))
    return arguments + ["--store", "postgres", "--cluster-file", str(file), "--node", schema]


def start_leaseholder(program: str, arguments: list[str]) -> None:
    """Starts a leaseholder beside the server with these arguments; it ends with this process."""
    arguments = list(arguments)
    for option, change in {
        "--data-dir": lambda value: f"{value}-leaseholder",
        "--node": lambda value: f"{value}_leaseholder",
        "--listen": lambda _: "127.0.0.1:0",
        "--admin-listen": lambda _: "127.0.0.1:0",
    }.items():
        if option in arguments:
            place = arguments.index(option) + 1
            arguments[place] = change(arguments[place])
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    leaseholder = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", program, *arguments], **pipes)
    # Its first line says that it is ready.
    leaseholder.stdout.readline()


def main() -> None:
    program = os.environ["ORRERY_ON_POSTGRES_PROGRAM"]
    arguments = sys.argv[1:]
    if arguments[:1] == ["start"]:
        folder = Path(os.environ["ORRERY_ON_POSTGRES_FOLDER"])
        arguments = on_postgres(arguments, folder, os.environ["ORRERY_ON_POSTGRES_PORT"])
        if os.environ.get("ORRERY_ON_POSTGRES_WAITING") and "--node" in arguments:
            start_leaseholder(program, arguments)
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()
