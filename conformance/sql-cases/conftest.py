"""A server, a database for the run, and a container for each data set, made when a case first asks for it."""

import sys
import uuid
from pathlib import Path

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey

HERE = Path(__file__).resolve().parent
for shared in ("ratchet", "python"):
    sys.path.insert(0, str(HERE.parent / shared))

import recorder  # noqa: E402
from cases import Dataset, datasets  # noqa: E402
from expectations import Expectations, file_of  # noqa: E402
from serving import endpoints  # noqa: E402, F401

# The options of pytest that leave out cases.
SELECTING = ("keyword", "markexpr", "maxfail")

EXPECTATIONS = pytest.StashKey[Expectations]()
SURPRISES = pytest.StashKey[list]()


def pytest_configure(config):
    config.pluginmanager.register(recorder)
    config.stash[EXPECTATIONS] = Expectations.read(HERE / "expected.toml")


def pytest_sessionfinish(session):
    """The list decides: a failure that it names is none, and a pass that it does not expect is one."""
    config = session.config
    is_part = any(config.getoption(option) for option in SELECTING) or any("::" in word for word in config.args)
    whole_files = set() if is_part else {file_of(result.test) for result in recorder.results()}
    surprises = config.stash[EXPECTATIONS].surprises(recorder.results(), whole_files)
    config.stash[SURPRISES] = surprises
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if surprises else pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter, config):
    for surprise in config.stash.get(SURPRISES, []):
        terminalreporter.write_line(f"UNEXPECTED {surprise}")


def pytest_unconfigure(config):
    outcomes = [result.outcome for result in recorder.results()]
    passed = outcomes.count("passed")
    print(f"\n{passed} passed, {len(outcomes) - passed} failed; {len(config.stash.get(SURPRISES, []))} not as listed")


@pytest.fixture(scope="session")
def database(endpoints):
    with CosmosClient(endpoints.http, credential=endpoints.key, connection_verify=False) as client:
        database = client.create_database(f"cases-{uuid.uuid4().hex[:12]}")
        yield database
        client.delete_database(database)


@pytest.fixture(scope="session")
def container_of(database):
    """Gives the container that holds a data set: `container_of("food", spread=True)`."""
    known, made = datasets(), {}

    def container_of(name: str, spread: bool) -> ContainerProxy:
        if (name, spread) not in made:
            made[name, spread] = _filled(database, known[name], spread)
        return made[name, spread]

    return container_of


def _filled(database: DatabaseProxy, dataset: Dataset, spread: bool) -> ContainerProxy:
    items, path = dataset.items(spread)
    policies = {
        "indexing_policy": dataset.indexing_policy,
        "vector_embedding_policy": dataset.vector_embedding_policy,
    }
    container = database.create_container(
        f"{dataset.name}-{'spread' if spread else 'single'}",
        PartitionKey(path=path),
        **{name: policy for name, policy in policies.items() if policy is not None},
    )
    for item in items:
        container.create_item(item)
    return container
