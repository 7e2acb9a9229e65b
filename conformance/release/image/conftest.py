"""The fixtures: the unpacked image, containers of it, an empty volume."""

import fcntl
import os
import socket
import struct
from pathlib import Path

import pytest

from container import Container
from unpacked import unpack

ROOT = Path(__file__).resolve().parents[3]
# Calls and flags of the system for network interfaces.
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


@pytest.fixture(scope="session", autouse=True)
def network():
    """The loopback of the tests' own network, switched on."""
    assert [name for _, name in socket.if_nameindex()] == ["lo"], "run it by `cargo xtask image`"
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    archive = Path(os.environ["ORRERY_IMAGE"])
    place = tmp_path_factory.mktemp("image")
    # Other users enter the directories above the files of the image.
    for directory in (place, *place.parents[:2]):
        directory.chmod(0o755)
    return unpack(archive, place / "root")


@pytest.fixture
def volume(tmp_path):
    """An empty volume. A runtime gives it the mode of the image's directory of the same path."""
    place = tmp_path / "volume"
    place.mkdir()
    place.chmod(0o1777)
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o755)
    return place


@pytest.fixture
def run(image, volume, tmp_path):
    """A function that runs a container with the volume; the containers end with the test."""
    containers = []

    def run(settings=None):
        log = tmp_path / f"log-{len(containers)}"
        containers.append(Container.run(image, volume, log, settings))
        return containers[-1]

    yield run
    for container in containers:
        container.kill()
