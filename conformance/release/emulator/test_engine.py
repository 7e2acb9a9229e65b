"""The stand-in for the Docker engine, and the table of consumers."""

import io
import json
import os
import socket
import tarfile
import urllib.error
import urllib.request

import pytest
from consumers import CONSUMERS, HERE
from engine import Engine

PROGRAM = """#!{python}
import os, socket, sys
server = socket.create_server(("0.0.0.0", 8081))
os.makedirs("/tmp/made", exist_ok=True)
open("/tmp/made/file.txt", "w").write(" ".join(sys.argv[1:]) + os.environ["WORD"])
print("Started", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(f"user {{os.getuid()}}".encode())
    connection.close()
"""


@pytest.fixture
def engine(tmp_path):
    program = tmp_path / "program"
    program.write_text(PROGRAM.format(python=os.path.realpath("/usr/bin/python3")))
    program.chmod(0o755)
    running = Engine.start(program, tmp_path / "containers")
    yield running
    running.stop()


def asked(engine, method, path, body=None):
    url = engine.url.replace("tcp:", "http:") + path
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, method=method)) as answer:
        return answer.read()


def started(engine):
    wanted = {"Image": "any", "Cmd": ["--word", "two"], "Env": ["WORD=three"],
              "HostConfig": {"PortBindings": {"8081/tcp": [{"HostPort": ""}]}}}  # fmt: skip
    id = json.loads(asked(engine, "POST", "/v1.44/containers/create", wanted))["Id"]
    asked(engine, "POST", f"/v1.44/containers/{id}/start")
    container = engine.find(id)
    with container.written:
        assert container.written.wait_for(lambda: "Started" in container.text or container.open_streams == 0, 30)
    assert "Started" in container.text, container.text
    return container


def test_a_container_listens_behind_its_published_port_and_is_not_root(engine):
    container = started(engine)
    with socket.create_connection(("127.0.0.1", container.ports["8081/tcp"]), timeout=10) as connection:
        assert connection.recv(100) == b"user 65532"


def test_its_log_comes_in_frames_and_its_files_in_an_archive(engine):
    container = started(engine)
    log = asked(engine, "GET", f"/v1.44/containers/{container.id}/logs?stdout=1&stderr=1")
    assert log == b"\x01\0\0\0\0\0\0\x08Started\n"
    archive = asked(engine, "GET", f"/v1.44/containers/{container.id}/archive?path=/tmp/made/file.txt")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.extractfile("file.txt").read() == b"emulator --word twothree"


def test_a_removed_container_has_ended_and_does_not_listen(engine):
    container = started(engine)
    port = container.ports["8081/tcp"]
    asked(engine, "DELETE", f"/v1.44/containers/{container.id}?force=1")
    assert not container.running and engine.find(container.id) is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)


def test_a_request_without_a_route_is_refused_and_remembered(engine):
    with pytest.raises(urllib.error.HTTPError) as refused:
        asked(engine, "POST", "/v1.44/build")
    assert refused.value.code == 501 and engine.refused == ["POST /build"]


def test_every_program_exists_and_every_row_has_its_own_name():
    for consumer in CONSUMERS:
        program = HERE / consumer.program
        sources = HERE / consumer.environment / "src" / "orrery"
        assert program.is_file() or (sources / program.name).is_file(), consumer.name
    names = [consumer.name for consumer in CONSUMERS]
    assert len(set(names)) == len(names)
