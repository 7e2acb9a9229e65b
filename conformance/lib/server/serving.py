"""The fixture with the server of a run of pytest."""

import os
from pathlib import Path

import pytest

from orrery_server import EMULATOR_KEY, Endpoints, Server, ServerFailed


@pytest.fixture(scope="session")
def endpoints(tmp_path_factory):
    """The server of this run. With ORRERY_ENDPOINT set, the server there is used and none is started."""
    given = os.environ.get("ORRERY_ENDPOINT")
    if given:
        yield Endpoints(https=given, http=given, key=os.environ.get("ORRERY_KEY") or EMULATOR_KEY)
        return
    try:
        server = Server.start(Path(tmp_path_factory.mktemp("orrery")) / "server.log", "--memory")
    except ServerFailed as failed:
        pytest.exit(str(failed), returncode=2)  # once, not for each test
    yield server.endpoints
    server.stop()
