"""The client programs: one row each.

The first word of a program's path is its environment, a directory with exact versions: `python-*` have a
requirements.txt, `javascript-*` a package-lock.json, `go-*` a go.sum, and `java` a pom.xml.

Leaves out: installing the environments, which `cargo xtask conformance clients` does.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
INSTALLED = Path(os.environ.get("ORRERY_CLIENTS_INSTALLED") or ROOT / "target" / "conformance" / "clients")


@dataclass(frozen=True)
class Client:
    """A client of a package registry and the program that uses it."""

    name: str
    version: str
    program: str
    # The name in the registry, if it is not that of the row.
    package: str = ""
    scheme: str = "http"
    # Part of the quick choice, which belongs to `cargo xtask ci`.
    quick: bool = False

    @property
    def package_name(self) -> str:
        return self.package or self.name

    @property
    def environment(self) -> str:
        return self.program.split("/")[0]

    def command(self) -> list[str]:
        """The command line of the program."""
        path = str(HERE / self.program)
        if self.environment.startswith("python-"):
            return [str(INSTALLED / self.environment / "bin" / "python"), "-W", "ignore", path]
        if self.environment.startswith("javascript-"):
            return ["node", "--no-deprecation", path]
        if self.environment.startswith("go-"):
            return [str(INSTALLED / self.environment / "program")]
        return java_command(self.program)


def java_command(program: str) -> list[str]:
    """The command line of a program in Java, which is compiled already."""
    installed = INSTALLED / "java"
    libraries = (installed / "class.path").read_text().strip()
    main = "orrery." + Path(program).stem
    # A run takes seconds on few cores: the quick compiler and the serial collector fit.
    start = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [*start, "-cp", f"{installed / 'classes'}:{libraries}", main]


CLIENTS = [
    Client("pydocumentdb", "2.3.5", "python-first/pydocumentdb_program.py", quick=True),
    Client("aio-cosmos", "0.2.4", "python-first/aio_cosmos_program.py", quick=True),
    Client("documentdb", "1.15.3", "javascript-first/documentdb.js", scheme="https", quick=True),
    Client("langchain-azure-cosmosdb", "1.0.1", "python-langchain/langchain_program.py", quick=True),
    Client(
        "langchain-azure-cosmosdb (LangGraph)",
        "1.0.1",
        "python-langchain/langgraph_program.py",
        package="langchain-azure-cosmosdb",
        quick=True,
    ),
    Client("langgraph-checkpoint-cosmosdb", "0.4.0", "python-langchain/langgraph_checkpoint_program.py"),
    Client("botbuilder-azure (Python)", "4.17.1", "python-bots/botbuilder_program.py", package="botbuilder-azure"),
    Client("microsoft-agents-storage-cosmos", "1.9.0", "python-frameworks/agents_program.py"),
    Client("llama-index-vector-stores-azurecosmosnosql", "1.6.0", "python-frameworks/llama_index_program.py"),
    Client("haystack-azure-cosmosdb", "0.1.0", "python-frameworks/haystack_program.py"),
    Client("semantic-kernel", "1.45.0", "python-frameworks/semantic_kernel_program.py"),
    Client("@langchain/azure-cosmosdb", "0.2.8", "javascript-frameworks/langchain.js"),
    Client(
        "@microsoft/agents-hosting-storage-cosmos",
        "1.6.0-beta.24.g285b02c21b",
        "javascript-frameworks/agents.js",
    ),
    Client("botbuilder-azure (npm)", "4.23.3", "javascript-frameworks/botbuilder.js", package="botbuilder-azure"),
    Client("node-cosmos", "0.1.4", "javascript-frameworks/node_cosmos.js", scheme="https"),
    Client(
        "vscode-cosmosdb 0.37.1, replayed with @azure/cosmos",
        "4.9.3",
        "javascript-frameworks/vscode.js",
        package="@azure/cosmos",
        scheme="https",
    ),
    Client(
        "Dapr state.azure.cosmosdb 1.18, replayed with azcosmos",
        "v1.5.0",
        "go-dapr/main.go",
        package="github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos",
        quick=True,
    ),
    Client("azure-documentdb", "2.6.5", "java/DocumentDb.java", scheme="https"),
    Client(
        "azure-cosmos (Java): change feed processor and its estimator",
        "4.73.1",
        "java/ChangeFeedTrigger.java",
        package="azure-cosmos",
        scheme="https",
    ),
    Client("azure-spring-data-cosmos", "5.23.0", "java/SpringData.java", scheme="https"),
]


def chosen(names: list[str], quick: bool) -> list[Client]:
    """The clients of these names, all without names; of the quick choice only, if asked for.

    Exits with a message if a name is not known.
    """
    known = [client.name for client in CLIENTS]
    for name in names:
        if name not in known:
            sys.exit(f"there is no client `{name}`; the clients are {', '.join(known)}")
    return [client for client in CLIENTS if (not names or client.name in names) and (client.quick or not quick)]
