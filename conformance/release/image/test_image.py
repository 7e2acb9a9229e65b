"""The image as a runtime and its users see it."""

import os
import stat
import urllib.error
import urllib.request

import pytest
from azure.cosmos import CosmosClient, PartitionKey

from container import Settings

# The public key of the emulator.
KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
READY = "http://127.0.0.1:8080/ready"


def answers(address: str) -> bool:
    """Returns true if a GET is answered with 200."""
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


def started(run, settings=None):
    """Runs a container and waits until it says at its port for readiness that it is ready."""
    container = run(settings)
    container.wait_for(lambda: answers(READY), READY)
    return container


def items(scheme: str):
    client = CosmosClient(f"{scheme}://localhost:8081/", KEY, connection_verify=False)
    database = client.create_database_if_not_exists("shop")
    return database.create_container_if_not_exists("items", PartitionKey(path="/id"))


def test_the_image_is_small(image):
    assert image.layer_bytes <= int(os.environ["ORRERY_IMAGE_BYTES_MAX"])


def test_the_image_has_one_program_and_nothing_that_gives_rights(image):
    programs = []
    for directory, _, names in os.walk(image.root):
        for name in names:
            path = os.path.join(directory, name)
            mode = os.lstat(path).st_mode
            assert not mode & (stat.S_ISUID | stat.S_ISGID), path
            if mode & 0o111:
                programs.append(path.removeprefix(str(image.root)))
            assert not mode & 0o022, f"others may write {path}"
    assert programs == ["/usr/bin/orrery"]


def test_the_image_says_how_it_is_run(image):
    config = image.config
    assert image.user[0] > 0, "a user without rights, by number, as Kubernetes checks it"
    assert set(config["ExposedPorts"]) == {"8081/tcp", "8080/tcp", "1234/tcp"}
    assert set(config["Volumes"]) == {"/data"}
    assert config["Healthcheck"]["Test"] == ["CMD", "/usr/bin/orrery", "healthcheck"]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "MIT OR Apache-2.0"
    assert image.entry_point == ["/usr/bin/orrery", "emulator"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_python_sdk_writes_and_reads(run, scheme):
    started(run)
    container = items(scheme)
    container.create_item({"id": "a", "price": 12})
    assert container.read_item("a", "a")["price"] == 12


def test_the_health_check_succeeds_when_the_server_is_ready(run):
    container = started(run)
    check = container.exec("/usr/bin/orrery", "healthcheck")
    assert check.returncode == 0, check.stderr


def test_the_health_check_fails_without_a_server(run):
    container = run(Settings(entry_point=["/usr/bin/orrery", "healthcheck"]))
    assert container.wait() == 1
    assert "8081" in container.log(), "the message names the address"


def test_data_survives_a_restart(run):
    first = started(run)
    items("http").create_item({"id": "kept"})
    assert first.stop() < 10
    started(run)
    assert items("http").read_item("kept", "kept")["id"] == "kept"


@pytest.mark.parametrize("user", [(1000770000, 0), (12345, 12345)])
def test_any_user_runs_the_image(run, user):
    started(run, Settings(user=user))
    items("http").create_item({"id": "a"})


def test_the_process_has_no_rights(run):
    container = started(run)
    with open(f"/proc/{container.pid()}/status") as status:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in status)
    assert fields["Uid"].split("\t") == ["65532"] * 4
    for capabilities in ("CapEff", "CapPrm", "CapBnd"):
        # The two calls that gave the process its root and user leave the rights to these calls only.
        assert int(fields[capabilities], 16) in (0, 0x400C0), capabilities
    assert fields["CapEff"] == "0000000000000000"


def test_options_after_the_name_of_the_image_are_those_of_the_command(run):
    container = run(Settings(arguments=["--no-such-option"]))
    assert container.wait() == 2
    assert "--no-such-option" in container.log()


def test_a_host_name_is_looked_up_without_libraries(run, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost database.internal\n")
    server = started(run)
    known = Settings(
        entry_point=["/usr/bin/orrery", "blog", "drift"],
        arguments=["--endpoint", "http://database.internal:8081"],
        environment={"ORRERY_KEY": KEY},
        mounts={hosts: "/etc/hosts"},
    )
    # There is no blog to compare, which the server says: the name was found.
    container = run(known)
    container.wait()
    assert "lookup" not in container.log() and "blog" in container.log(), container.log()
    server.stop()
