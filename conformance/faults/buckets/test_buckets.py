"""Backups and continuous backups in a bucket of a service with the protocol of Amazon S3."""

import http.client
import json
import math
import random
import shutil
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from conftest import container_of, ids_of
from moto.server import ThreadedMotoServer
from orrery_server import free_port


def create(container, *ids, size=10):
    for id in ids:
        # Text that no compression makes shorter by much.
        container.create_item({"id": id, "pk": "a", "text": random.randbytes(size // 2).hex()})


def reached(server) -> dict:
    """Returns the state of the continuous backup, from /status of the management API."""
    request = urllib.request.Request(
        server.endpoints.admin.rstrip("/") + "/status",
        headers={"authorization": f"Bearer {server.endpoints.admin_key}"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())["continuousBackup"]


def wait_for(server, has_come) -> None:
    """Asks for the state of the continuous backup until it has come. The test has a limit of time."""
    while not has_come(reached(server)):
        pass


def wait_for_second(server, second: int, bases: int = 0) -> None:
    """Waits until everything of a second is in the log, and the server has made bases."""
    wait_for(server, lambda state: state.get("reachedSeconds", 0) >= second and state["bases"] >= bases)


def text_of(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


def restored_ids(place, tmp_path, name, *arguments) -> list[str]:
    directory = tmp_path / name
    place.succeed("restore", place.address, "--data-dir", str(directory), *arguments)
    server = place.start(tmp_path / f"{name}.log", "--data-dir", str(directory))
    found = ids_of(server)
    server.stop()
    return found


def test_backups_are_made_listed_verified_restored_and_pruned(place, tmp_path):
    data = str(tmp_path / "data")
    server = place.start(tmp_path / "server.log", "--data-dir", data)
    container = container_of(server)
    # More than one part of an upload.
    create(container, *[f"large-{n}" for n in range(20)], size=1_500_000)

    def backup(*arguments):
        return json.loads(place.succeed("backup", "create", place.address, "--data-dir", data, "--json", *arguments))

    # The server makes the backup itself, with its own variables.
    online = ["--admin-endpoint", server.endpoints.admin]
    first = backup(*online)
    assert first["status"] == "done" and first["newBytes"] > 10_000_000
    create(container, "second")
    second = backup(*online)
    server.stop()

    listed = json.loads(place.succeed("backup", "list", place.address, "--json"))
    assert [made["id"] for made in listed["backups"]] == [first["id"], second["id"]]
    assert f"Backups that can be restored: {first['id']}, {second['id']}" in place.succeed(
        "backup", "verify", place.address
    )
    assert len(restored_ids(place, tmp_path, "first", "--backup", first["id"])) == 20
    assert len(restored_ids(place, tmp_path, "newest")) == 21

    # A server that is stopped: the command reads the directory and writes to the bucket.
    third = backup()
    place.succeed("backup", "prune", place.address, "--keep-last", "1")
    assert place.keys("backups/") == [f"backups/{third['id']}.json"]
    named = {file["sha256"] for file in json.loads(place.content(f"backups/{third['id']}.json"))["files"]}
    assert {key.rsplit("/", 1)[1] for key in place.keys("objects/")} == named
    assert "lock" not in place.keys()


def test_each_second_of_a_continuous_backup_is_restored_and_a_killed_server_goes_on(place, tmp_path):
    arguments = ["--data-dir", str(tmp_path / "data"), "--continuous-backup", place.address]
    arguments += ["--continuous-backup-interval", "1"]
    server = place.start(tmp_path / "one.log", *arguments)
    container = container_of(server)
    wait_for_second(server, int(time.time()), bases=1)
    # The first base may be of the second that is not over.
    wait_for(server, lambda state: state.get("restorableFromSeconds", math.inf) <= time.time())

    create(container, "before")
    between = int(time.time())
    # The log has a whole second when it is over.
    wait_for_second(server, between)
    create(container, "behind")
    wait_for_second(server, int(time.time()))
    server.kill()

    # The lock of the killed server is its own, and its log goes on without a gap.
    server = place.start(tmp_path / "two.log", *arguments)
    create(container_of(server), "after the kill")
    wait_for_second(server, int(time.time()))
    server.stop()
    assert "has a gap" not in (tmp_path / "two.log").read_text()

    assert restored_ids(place, tmp_path, "between", "--to", text_of(between)) == ["before"]
    assert restored_ids(place, tmp_path, "latest", "--to", "latest") == ["after the kill", "before", "behind"]
    listed = json.loads(place.succeed("backup", "list", place.address, "--json"))
    assert len(listed["continuous"]) == 1 and listed["continuous"][0]["segments"] >= 2

    # A second server on the same log is refused: the data directory is another one.
    other = place.run("start", "--data-dir", str(tmp_path / "other"), "--continuous-backup", place.address)
    assert other.returncode == 2 and "has the backups of another data directory" in other.stderr


def test_damage_in_a_bucket_is_named_with_its_address(place, tmp_path):
    data = str(tmp_path / "data")
    server = place.start(tmp_path / "server.log", "--data-dir", data)
    create(container_of(server), "a")
    server.stop()
    place.succeed("backup", "create", place.address, "--data-dir", data)
    damaged, missing = sorted(place.keys("objects/"))[:2]
    place.put(damaged, b"other bytes")
    place.delete(missing)
    ended = place.run("backup", "verify", place.address)
    assert ended.returncode == 4
    assert f"{place.address}/{damaged}: has other bytes than were written" in ended.stdout
    assert f"{place.address}/{missing}: it is missing" in ended.stdout
    ended = place.run("restore", place.address, "--data-dir", str(tmp_path / "restored"))
    assert ended.returncode == 4 and f"{place.address}/" in ended.stderr
    # The next backup is whole.
    made = json.loads(place.succeed("backup", "create", place.address, "--data-dir", data, "--json"))
    ended = place.run("backup", "verify", place.address)
    assert ended.stdout.endswith(f"{made['id']}.\n"), ended.stdout
    assert restored_ids(place, tmp_path, "whole") == ["a"]


def test_addresses_and_settings_that_cannot_be_used_are_named(place, tmp_path):
    nothing = place.run("backup", "list", "s3://backups/nothing")
    assert nothing.returncode == 2 and "there are no backups at s3://backups/nothing" in nothing.stderr
    bucket = place.run("backup", "list", "s3://no-such-bucket/shop")
    assert bucket.returncode == 1 and "no-such-bucket" in bucket.stderr
    scheme = place.run("backup", "list", "gs://backups/shop")
    assert scheme.returncode == 2 and "s3://BUCKET/PREFIX" in scheme.stderr
    # A prefix of another program stays as it is.
    place.put("report.csv", b"a,b")
    data = str(tmp_path / "data")
    server = place.start(tmp_path / "server.log", "--data-dir", data)
    server.stop()
    foreign = place.run("backup", "create", place.address, "--data-dir", data)
    assert foreign.returncode == 2 and "report.csv" in foreign.stderr
    assert place.keys() == ["report.csv"]
    # A line feed of a file with a secret, and settings that no address has.
    place.succeed("backup", "create", f"{place.address}/below", "--data-dir", data)
    key = place.variables["AWS_ACCESS_KEY_ID"] + "\n"
    assert place.run("backup", "list", f"{place.address}/below", AWS_ACCESS_KEY_ID=key).returncode == 0
    for endpoint in ("127.0.0.1:9000", "http://", "ftp://127.0.0.1"):
        ended = place.run("backup", "list", place.address, AWS_ENDPOINT_URL=endpoint)
        assert ended.returncode == 2 and "AWS_ENDPOINT_URL" in ended.stderr, ended.stderr
    # A service that does not answer.
    gone = place.run("backup", "list", place.address, AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert gone.returncode == 1 and place.address in gone.stderr


def test_a_service_that_is_gone_delays_the_log_and_no_request(place, tmp_path):
    port = free_port()
    place.variables["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
    arguments = ["--data-dir", str(tmp_path / "data"), "--continuous-backup", place.address]
    server = place.start(tmp_path / "server.log", *arguments, "--continuous-backup-interval", "1")
    create(container_of(server), "a")
    assert "the continuous backup cannot begin now; trying again" in (tmp_path / "server.log").read_text()
    assert "reachedSeconds" not in reached(server)

    # The service comes, with the same buckets, and goes again.
    service = ThreadedMotoServer(port=port, verbose=False)
    service.start()
    wait_for_second(server, int(time.time()), bases=1)
    service.stop()
    create(container_of(server), "b")
    wait_for(server, lambda state: place.address in state.get("failure", ""))
    service = ThreadedMotoServer(port=port, verbose=False)
    service.start()
    wait_for_second(server, int(time.time()))
    assert "failure" not in reached(server)
    server.stop()
    assert restored_ids(place, tmp_path, "latest", "--to", "latest") == ["a", "b"]
    service.stop()


def test_a_copied_data_directory_does_not_take_the_lock_of_the_first(place, tmp_path):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    place.start(tmp_path / "first.log", "--data-dir", one).stop()
    shutil.copytree(one, two)
    arguments = ["--continuous-backup", place.address, "--continuous-backup-interval", "1"]
    server = place.start(tmp_path / "one.log", "--data-dir", one, *arguments)
    wait_for_second(server, int(time.time()), bases=1)
    copy = place.start(tmp_path / "two.log", "--data-dir", two, *arguments)
    wait_for(copy, lambda state: "is being written by process" in state.get("failure", ""))
    # The first one goes on.
    wait_for_second(server, int(time.time()))
    assert "failure" not in reached(server)
    assert len({key.split("/")[0] for key in place.keys("log/") if "/" in key}) == 1
    copy.kill()
    server.stop()


def test_a_service_that_ignores_conditions_is_refused(place, service, tmp_path):
    class Unconditional(BaseHTTPRequestHandler):
        def handle_any(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            dropped = ("if-none-match", "if-match", "connection")
            headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
            connection = http.client.HTTPConnection(urlsplit(service).netloc)
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = handle_any

        def log_message(self, *_):
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Unconditional)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    data = str(tmp_path / "data")
    place.start(tmp_path / "server.log", "--data-dir", data).stop()
    endpoint = f"http://127.0.0.1:{proxy.server_port}"
    ended = place.run("backup", "create", place.address, "--data-dir", data, AWS_ENDPOINT_URL=endpoint)
    proxy.shutdown()
    assert ended.returncode == 1 and "it ignores the condition If-None-Match" in ended.stderr, ended.stderr
