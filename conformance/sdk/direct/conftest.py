"""The fixtures: a server, and clients of the Java SDK in direct mode."""

import os
from contextlib import ExitStack
from itertools import count

import pytest
from driver import Driver
from orrery_server import Server


class World:
    """A server, and clients that connect to it in direct mode."""

    def __init__(self, server: Server, folder, stack: ExitStack):
        self.server = server
        self._folder = folder
        self._stack = stack
        self._numbers = count(1)

    def client(self) -> Driver:
        """Starts a client with caches of its own."""
        command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += ["-cp", os.environ["ORRERY_JAVA_CLASS_PATH"], "orrery.Main"]
        endpoints = self.server.endpoints
        log = self._folder / f"client-{next(self._numbers)}.log"
        client = self._stack.enter_context(Driver(command, endpoints.https, endpoints.key, log))
        client.ask("mode", {"mode": "direct"})
        return client


@pytest.fixture
def start(tmp_path):
    """Returns a function that starts a server with further options."""
    with ExitStack() as stack:

        def start_world(*options: str) -> World:
            server = Server.start(tmp_path / "server.log", "--memory", *options)
            # The clients end first.
            stack.callback(server.stop)
            return World(server, tmp_path, stack)

        yield start_world
