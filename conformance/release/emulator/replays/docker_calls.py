"""The calls that a client of Docker makes for one container, for the replays: create, start, follow its log, inspect."""

import http.client
import json
import os
import re
import struct
import threading
import time
from urllib.parse import urlsplit

SECONDS_MAX = 60


class Docker:
    """The engine of DOCKER_HOST."""

    def __init__(self):
        self.address = urlsplit(os.environ["DOCKER_HOST"])
        self.host = self.address.hostname

    def call(self, method: str, path: str, body: dict | None = None) -> dict | None:
        connection = http.client.HTTPConnection(self.host, self.address.port, timeout=SECONDS_MAX)
        text = None if body is None else json.dumps(body)
        connection.request(method, f"/v1.44{path}", text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status < 400, f"{method} {path}: {answer.status} {data.decode()}"
        return json.loads(data) if data else None

    def run(self, image: str, environment: dict, ports: list[int], binds: list[str] | None = None) -> "Container":
        """Creates and starts a container whose ports get numbers of the engine's choice."""
        self.call("GET", f"/images/{image}/json")
        made = self.call("POST", "/containers/create", {
            "Image": image,
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "ExposedPorts": {f"{port}/tcp": {} for port in ports},
            "HostConfig": {"PortBindings": {f"{port}/tcp": [{"HostPort": "0"}] for port in ports},
                           "Binds": binds or []},
        })  # fmt: skip
        self.call("POST", f"/containers/{made['Id']}/start")
        return Container(self, made["Id"])


class Container:
    """A container that was started; `with` removes it."""

    def __init__(self, docker: Docker, id: str):
        self.docker, self.id = docker, id

    def __enter__(self) -> "Container":
        return self

    def __exit__(self, *problem) -> None:
        self.docker.call("POST", f"/containers/{self.id}/stop?t=10")
        self.docker.call("DELETE", f"/containers/{self.id}?force=true&v=true")

    def port(self, inside: int) -> int:
        ports = self.docker.call("GET", f"/containers/{self.id}/json")["NetworkSettings"]["Ports"]
        return int(ports[f"{inside}/tcp"][0]["HostPort"])

    def wait_for_log(self, pattern: str) -> None:
        """Reads the log from its beginning, again and again as the modules do, until it has the pattern."""
        until = time.monotonic() + SECONDS_MAX
        while not re.search(pattern, text := self.log(), re.MULTILINE):
            running = self.docker.call("GET", f"/containers/{self.id}/json")["State"]["Running"]
            assert running and time.monotonic() < until, f"the log has no {pattern!r}: {text}"
            threading.Event().wait(0.05)

    def log(self) -> str:
        connection = http.client.HTTPConnection(self.docker.host, self.docker.address.port, timeout=SECONDS_MAX)
        connection.request("GET", f"/v1.44/containers/{self.id}/logs?stdout=true&stderr=true")
        data, text = connection.getresponse().read(), b""
        while data:
            length = struct.unpack(">I", data[4:8])[0]
            text, data = text + data[8 : 8 + length], data[8 + length :]
        return text.decode()
