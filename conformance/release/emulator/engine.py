"""A stand-in for the Docker engine: the part of its API that Testcontainers uses, with one image.

Every image that a client asks for is there, and is the program under test with `emulator` as its entry point. A container
is a process with its own network and its own root (see `container.py`), so that the program listens on the ports that it
has by itself, and clients reach it through the ports that the engine publishes.

    engine = Engine.start(program, directory)
    … DOCKER_HOST=engine.url …
    engine.stop()

Promises: `stop` ends every process that a container began; the output of every container is in `directory`.
Leaves out: builds, networks beside the one that exists, execution in a container (the image has no shell, and says so),
health checks, TLS.
"""

import base64
import contextlib
import io
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

HERE = Path(__file__).resolve().parent
API_VERSION = "1.51"
STDOUT, STDERR = 1, 2
NETWORK = {"Name": "bridge", "Id": "0" * 64, "Driver": "bridge", "Scope": "local",
           "IPAM": {"Config": [{"Subnet": "172.17.0.0/16", "Gateway": "172.17.0.1"}]}}  # fmt: skip


@dataclass
class Container:
    """A container: what its client wanted, its process if it was started, and the lines that it wrote."""

    id: str
    name: str
    wanted: dict
    root: Path
    created: str = field(default_factory=lambda: now())
    started: str = "0001-01-01T00:00:00Z"
    process: subprocess.Popen | None = None
    # Host ports by the ports inside, such as `8081/tcp`.
    ports: dict[str, int] = field(default_factory=dict)
    lines: list[tuple[int, bytes, float]] = field(default_factory=list)
    written: threading.Condition = field(default_factory=threading.Condition)
    open_streams: int = 0
    host: str = ""

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def text(self) -> str:
        """Everything that the program wrote."""
        return b"".join(line for _, line, _ in self.lines).decode(errors="replace")

    def start(self, program: Path, host: str) -> None:
        """Starts the program behind published ports."""
        host_config = self.wanted.get("HostConfig") or {}
        sockets = {port: listening(host, wanted) for port, wanted in published(self.wanted)}
        self.ports = {port: sock.getsockname()[1] for port, sock in sockets.items()}
        self.host = host
        specification = {
            "root": str(self.root),
            "program": str(program),
            "argv": ["/orrery", "emulator", *(self.wanted.get("Cmd") or [])],
            "env": dict(pair.split("=", 1) for pair in self.wanted.get("Env") or [] if "=" in pair),
            "mounts": [bind.split(":")[:2] for bind in host_config.get("Binds") or []],
            "relays": [[sock.fileno(), int(port.split("/")[0])] for port, sock in sockets.items()],
        }
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", sys.executable, str(HERE / "container.py"), json.dumps(specification)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            pass_fds=[sock.fileno() for sock in sockets.values()], start_new_session=True,
        )  # fmt: skip
        for sock in sockets.values():
            sock.close()
        self.started = now()
        self.open_streams = 2
        for stream, pipe in ((STDOUT, self.process.stdout), (STDERR, self.process.stderr)):
            threading.Thread(target=self._collect, args=(stream, pipe), daemon=True).start()

    def stop(self, seconds: float) -> None:
        """Ends the program: with SIGTERM, after the time with SIGKILL; and with SIGKILL what it left behind."""
        if self.process is None:
            return
        if self.running and seconds > 0:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        # The relay is no child of this process: its end shows by its ports.
        until = time.monotonic() + 10
        while any(is_open(self.host, port) for port in self.ports.values()) and time.monotonic() < until:
            threading.Event().wait(0.01)

    def _collect(self, stream: int, pipe) -> None:
        for line in pipe:
            with self.written:
                self.lines.append((stream, line, time.time()))
                self.written.notify_all()
        with self.written:
            self.open_streams -= 1
            self.written.notify_all()

    def described(self) -> dict:
        """The answer to an inspection."""
        ports = {port: [{"HostIp": "0.0.0.0", "HostPort": str(number)}] for port, number in self.ports.items()}
        code = self.process.poll() if self.process else None
        status = "created" if self.process is None else "running" if code is None else "exited"
        end = {"IPAddress": "172.17.0.2", "Gateway": "172.17.0.1", "NetworkID": NETWORK["Id"], "MacAddress": ""}
        return {
            "Id": self.id, "Name": f"/{self.name}", "Created": self.created, "Image": f"sha256:{'1' * 64}",
            "Path": "/orrery", "Args": ["emulator"], "Platform": "linux", "Driver": "overlay2", "Mounts": [],
            "State": {"Status": status, "Running": status == "running", "Paused": False, "Restarting": False,
                      "OOMKilled": False, "Dead": False, "Pid": self.process.pid if self.process else 0,
                      "ExitCode": code or 0, "Error": "", "StartedAt": self.started,
                      "FinishedAt": "0001-01-01T00:00:00Z"},
            "Config": {"Hostname": self.id[:12], "Tty": False, "Labels": {}, "Entrypoint": ["/orrery", "emulator"]}
            | {name: value for name, value in self.wanted.items() if name not in ("HostConfig", "NetworkingConfig")},
            "HostConfig": {"NetworkMode": "bridge"} | (self.wanted.get("HostConfig") or {}),
            "NetworkSettings": {"Ports": ports, "Networks": {"bridge": end}, **end},
        }  # fmt: skip


def published(wanted: dict) -> list[tuple[str, int]]:
    """The ports to publish, each with the number that it shall have outside; 0 is any."""
    bindings = (wanted.get("HostConfig") or {}).get("PortBindings") or {}
    ports = {with_protocol(port): int((ends or [{}])[0].get("HostPort") or 0) for port, ends in bindings.items()}
    if (wanted.get("HostConfig") or {}).get("PublishAllPorts"):
        for port in wanted.get("ExposedPorts") or {}:
            ports.setdefault(with_protocol(port), 0)
    return list(ports.items())


def with_protocol(port: str) -> str:
    return port if "/" in port else f"{port}/tcp"


def listening(host: str, port: int) -> socket.socket:
    return socket.create_server((host, port), backlog=128)


def is_open(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Engine:
    """A running engine. Build it with `Engine.start`."""

    def __init__(self, program: Path, directory: Path, host: str):
        self.program, self.directory, self.host = program, directory, host
        self.containers: dict[str, Container] = {}
        # Containers that their client removed, for their output.
        self.removed: list[Container] = []
        # Requests that the engine has no answer to.
        self.refused: list[str] = []

    @classmethod
    def start(cls, program: Path, directory: Path, host: str = "127.0.0.1") -> "Engine":
        """Starts an engine on a free port of an address of the loopback, on which it publishes the ports as well."""
        engine = cls(program, directory, host)
        handler = type("EngineHandler", (Handler,), {"engine": engine})
        engine.server = ThreadingHTTPServer((host, 0), handler)
        engine.server.daemon_threads = True
        threading.Thread(target=engine.server.serve_forever, daemon=True).start()
        return engine

    @property
    def url(self) -> str:
        """The value of DOCKER_HOST."""
        name = "localhost" if self.host == "127.0.0.1" else self.host
        return f"tcp://{name}:{self.server.server_address[1]}"

    @property
    def texts(self) -> list[str]:
        """The output of every container."""
        return [container.text for container in [*self.containers.values(), *self.removed]]

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        for container in [*self.containers.values(), *self.removed]:
            container.stop(10)

    def create(self, name: str, wanted: dict) -> Container:
        id = uuid.uuid4().hex * 2
        root = self.directory / id[:12]
        root.mkdir(parents=True)
        container = Container(id, name or f"container-{id[:12]}", wanted, root)
        self.containers[id] = container
        return container

    def find(self, name: str) -> Container | None:
        for container in self.containers.values():
            if name in (container.id, container.id[:12], container.name):
                return container
        return None


class Handler(BaseHTTPRequestHandler):
    """The API: a method for each route, chosen by `ROUTES`."""

    protocol_version = "HTTP/1.1"
    engine: Engine

    def log_message(self, *arguments) -> None:
        """Says nothing: the programs under test write to the same terminal."""

    def do_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            self.body = self.chunks()
        else:
            self.body = self.rfile.read(length)
        url = urlsplit(self.path)
        self.query = {name: values[-1] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        path = re.sub(r"^/v\d+\.\d+", "", url.path)
        for method, pattern, work in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method == self.command:
                return work(self, *map(unquote, found.groups()))
        self.engine.refused.append(f"{self.command} {path}")
        self.reply(501, {"message": f"the stand-in for the engine has no {self.command} {path}"})

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_any

    def chunks(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def reply(self, status: int, value=None, kind: str = "application/json", headers: dict | None = None) -> None:
        data = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Api-Version": API_VERSION, "Ostype": "linux", **(headers or {})}.items():
            self.send_header(name, text)
        if status not in (204, 304):
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(data)

    def missing(self, what: str) -> None:
        self.reply(404, {"message": f"No such {what}"})

    # The engine itself.

    def ping(self) -> None:
        self.reply(200, b"OK", "text/plain; charset=utf-8", {"Builder-Version": "2"})

    def version(self) -> None:
        self.reply(200, {"Version": "28.3.0", "ApiVersion": API_VERSION, "MinAPIVersion": "1.24", "Os": "linux",
                         "Arch": "amd64", "KernelVersion": "6", "GitCommit": "", "GoVersion": "", "BuildTime": ""})  # fmt: skip

    def info(self) -> None:
        self.reply(200, {"ID": "orrery", "Name": "orrery", "ServerVersion": "28.3.0", "OperatingSystem": "Linux",
                         "OSType": "linux", "Architecture": "x86_64", "MemTotal": 2**33, "NCPU": 2, "Driver": "overlay2",
                         "Containers": len(self.engine.containers), "Images": 1, "Labels": [],
                         "IndexServerAddress": "", "SecurityOptions": [], "RegistryConfig": {}})  # fmt: skip

    def networks(self) -> None:
        self.reply(200, [NETWORK])

    def network(self, name: str) -> None:
        self.reply(200, NETWORK) if name in ("bridge", NETWORK["Id"]) else self.missing(f"network: {name}")

    # Images: each that is asked for is there.

    def image(self, name: str) -> None:
        self.reply(200, {"Id": f"sha256:{'1' * 64}", "RepoTags": [name], "Os": "linux", "Architecture": "amd64",
                         "Created": now(), "Size": 30_000_000,
                         "Config": {"ExposedPorts": {"8081/tcp": {}, "8080/tcp": {}, "1234/tcp": {}}, "Env": [],
                                    "Entrypoint": ["/orrery", "emulator"], "Labels": {}}})  # fmt: skip

    def images(self) -> None:
        self.reply(200, [])

    def pull(self) -> None:
        self.reply(200, b'{"status":"Image is up to date"}\r\n')

    # Containers.

    def list(self) -> None:
        self.reply(200, [])

    def prune(self) -> None:
        self.reply(200, {"SpaceReclaimed": 0})

    def create(self) -> None:
        container = self.engine.create(self.query.get("name", ""), json.loads(self.body))
        self.reply(201, {"Id": container.id, "Warnings": []})

    def with_container(self, name: str, work) -> None:
        container = self.engine.find(name)
        if container is None:
            return self.missing(f"container: {name}")
        work(container)

    def inspect(self, name: str) -> None:
        self.with_container(name, lambda container: self.reply(200, container.described()))

    def begin(self, name: str) -> None:
        def work(container: Container) -> None:
            if container.running:
                return self.reply(304)
            try:
                container.start(self.engine.program, self.engine.host)
            except OSError as problem:
                return self.reply(500, {"message": f"driver failed programming external connectivity: {problem}"})
            self.reply(204)

        self.with_container(name, work)

    def halt(self, name: str) -> None:
        def work(container: Container) -> None:
            container.stop(0 if self.path.split("?")[0].endswith("/kill") else float(self.query.get("t") or 10))
            self.reply(204)

        self.with_container(name, work)

    def remove(self, name: str) -> None:
        def work(container: Container) -> None:
            container.stop(0)
            self.engine.removed.append(self.engine.containers.pop(container.id))
            self.reply(204)

        self.with_container(name, work)

    def wait(self, name: str) -> None:
        self.with_container(name, lambda container: self.reply(200, {"StatusCode": container.process.wait()}))

    def archive(self, name: str) -> None:
        """A file of the container, in an archive."""

        def work(container: Container) -> None:
            path = container.root / self.query["path"].lstrip("/")
            if not path.exists():
                return self.missing(f"file: {self.query['path']}")
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w") as tar:
                tar.add(path, arcname=path.name)
            stat = {"name": path.name, "size": path.stat().st_size, "mode": path.stat().st_mode & 0o777,
                    "mtime": now(), "linkTarget": ""}  # fmt: skip
            coded = base64.b64encode(json.dumps(stat).encode()).decode()
            self.reply(200, out.getvalue(), "application/x-tar", {"X-Docker-Container-Path-Stat": coded})

        self.with_container(name, work)

    def unpack(self, name: str) -> None:
        """Files for the container, in an archive."""

        def work(container: Container) -> None:
            with tarfile.open(fileobj=io.BytesIO(self.body)) as tar:
                tar.extractall(container.root / self.query["path"].lstrip("/"), filter="data")
            self.reply(200)

        self.with_container(name, work)

    def logs(self, name: str) -> None:
        """The lines of a container, each in a frame that begins with its stream and its length."""

        def work(container: Container) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for stream, line in self.followed(container):
                    frame = struct.pack(">BxxxI", stream, len(line)) + line
                    self.wfile.write(f"{len(frame):x}\r\n".encode() + frame + b"\r\n")
                self.wfile.write(b"0\r\n\r\n")
            except OSError:
                self.close_connection = True

        self.with_container(name, work)

    def followed(self, container: Container):
        """The lines that the query asks for, as they come."""
        follows = self.query.get("follow") in ("1", "true", "True")
        kinds = {stream for stream, word in ((STDOUT, "stdout"), (STDERR, "stderr"))
                 if self.query.get(word) in ("1", "true", "True")}  # fmt: skip
        since = float(self.query.get("since") or 0)
        place = len(container.lines) if self.query.get("tail") == "0" else 0
        while True:
            with container.written:
                if follows:
                    ended = lambda: container.process is not None and container.open_streams == 0  # noqa: E731
                    container.written.wait_for(lambda: len(container.lines) > place or ended())
                lines = container.lines[place:]
            place += len(lines)
            for stream, line, at in lines:
                if stream in kinds and at >= since:
                    yield stream, line
            if not lines:
                return

    def execute(self, name: str) -> None:
        self.with_container(name, lambda container: self.reply(201, {"Id": uuid.uuid4().hex}))

    def executed(self, id: str) -> None:
        """What the engine answers for an image without a shell."""
        problem = b'OCI runtime exec failed: exec failed: unable to start container process: exec: "/bin/sh": ' \
                  b"stat /bin/sh: no such file or directory: unknown\r\n"  # fmt: skip
        hijacks = bool(self.headers.get("Upgrade"))
        self.send_response(101 if hijacks else 200, "UPGRADED" if hijacks else "OK")
        self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
        if hijacks:
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", "tcp")
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(struct.pack(">BxxxI", STDOUT, len(problem)) + problem)
        self.close_connection = True

    def execution(self, id: str) -> None:
        self.reply(200, {"ID": id, "Running": False, "ExitCode": 127, "Pid": 0})


NAME = r"([^/]+)"
ROUTES = [
    ("GET", "/_ping", Handler.ping),
    ("HEAD", "/_ping", Handler.ping),
    ("GET", "/version", Handler.version),
    ("GET", "/info", Handler.info),
    ("GET", "/networks", Handler.networks),
    ("GET", f"/networks/{NAME}", Handler.network),
    ("GET", "/images/json", Handler.images),
    ("GET", "/images/(.+)/json", Handler.image),
    ("POST", "/images/create", Handler.pull),
    ("GET", "/containers/json", Handler.list),
    ("POST", "/(?:containers|images|networks|volumes)/prune", Handler.prune),
    ("POST", "/containers/create", Handler.create),
    ("GET", f"/containers/{NAME}/json", Handler.inspect),
    ("POST", f"/containers/{NAME}/start", Handler.begin),
    ("POST", f"/containers/{NAME}/(?:stop|kill)", Handler.halt),
    ("POST", f"/containers/{NAME}/wait", Handler.wait),
    ("GET", f"/containers/{NAME}/logs", Handler.logs),
    ("GET", f"/containers/{NAME}/archive", Handler.archive),
    ("PUT", f"/containers/{NAME}/archive", Handler.unpack),
    ("DELETE", f"/containers/{NAME}", Handler.remove),
    ("POST", f"/containers/{NAME}/exec", Handler.execute),
    ("POST", f"/exec/{NAME}/start", Handler.executed),
    ("GET", f"/exec/{NAME}/json", Handler.execution),
]
