"""A server, a database for the run, and a container for each data set, created when a case first needs it.

Without a directory of cases, the run prints a message and passes. With `--require`, or if the variable `CI` is set, it
fails if `shared` exists beside the repository and contains no cases.
"""

import os

import sys
import uuid
from pathlib import Path

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey

HERE = Path(__file__).resolve().parent
for shared in ("lib/ratchet", "lib/server"):
    sys.path.insert(0, str(HERE.parents[1] / shared))

import recorder  # noqa: E402
from cases import Case, Dataset, NoCases, cases, datasets, directory  # noqa: E402
from expectations import Expectations, file_of  # noqa: E402
from serving import endpoints  # noqa: E402, F401

# The options of pytest that deselect cases.
SELECTING = ("keyword", "markexpr", "maxfail")

EXPECTATIONS = pytest.StashKey[Expectations]()
SURPRISES = pytest.StashKey[list]()
DIRECTORY = pytest.StashKey[Path | None]()
CASES = pytest.StashKey[list[Case]]()
NOT_RUN = "not run: no cases there"


def pytest_addoption(parser):
    parser.addoption("--require", action="store_true", help="fail if shared has no cases")


def pytest_configure(config):
    config.pluginmanager.register(recorder)
    config.stash[EXPECTATIONS] = Expectations.read(HERE / "expected.toml")
    required = config.getoption("--require") or bool(os.environ.get("CI"))
    try:
        found = directory(required)
    except NoCases as missing:
        raise pytest.UsageError(str(missing)) from None
    config.stash[DIRECTORY] = found
    config.stash[CASES] = cases(found)


def pytest_ignore_collect(collection_path, config):
    """Ignores the cases if there is no directory of them."""
    if collection_path.name == "test_cases.py" and config.stash[DIRECTORY] is None:
        return True
    return None


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        found = metafunc.config.stash[CASES]
        metafunc.parametrize("case", found, ids=[case.name for case in found])


def pytest_sessionfinish(session):
    """Sets the exit status by the list: a listed failure is accepted, an unexpected pass is a failure."""
    config = session.config
    is_part = any(config.getoption(option) for option in SELECTING) or any("::" in word for word in config.args)
    whole_files = set() if is_part else {file_of(result.test) for result in recorder.results()}
    surprises = config.stash[EXPECTATIONS].surprises(recorder.results(), whole_files)
    config.stash[SURPRISES] = surprises
    if config.stash[DIRECTORY] is None and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if surprises else pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter, config):
    if config.stash[DIRECTORY] is None:
        terminalreporter.write_line(NOT_RUN)
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
def container_of(database, request):
    """Returns the container of a data set: `container_of("food", spread=True)`."""
    known, made = datasets(request.config.stash[DIRECTORY]), {}

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
