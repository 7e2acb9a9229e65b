"""The archive and the Debian package of `cargo xtask dist`, unpacked and installed.

The Debian package is installed into a copy of this machine's file system that is gone afterwards, and its service is
run as its unit says.
"""

import os
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest

PACKAGES = Path(os.environ["ORRERY_PACKAGES"])

# Runs the commands of the standard input in a copy of the file system, whose changes lie in memory.
COPY = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/run"
mkdir "$1/root/packages"
mount --bind "$2" "$1/root/packages"
exec chroot "$1/root" sh -e
"""


def one(pattern: str) -> Path:
    """Returns the only package whose name matches."""
    [path] = PACKAGES.glob(pattern)
    return path


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The unpacked archive."""
    place = tmp_path_factory.mktemp("archive")
    with tarfile.open(one("*.tar.gz")) as archive:
        archive.extractall(place, filter="data")
    [tree] = place.iterdir()
    return tree


@pytest.fixture
def in_a_copy(tmp_path):
    """A function that runs shell commands as root in a copy of this machine's file system."""

    def run(commands: str) -> str:
        command = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", COPY]
        command += ["copy", str(tmp_path), str(PACKAGES)]
        done = subprocess.run(command, input=commands, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def service_of(tree: Path) -> dict[str, str]:
    """Returns the settings of the unit."""
    lines = (tree / "systemd/orrery.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_the_checksums_are_those_of_the_packages():
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=PACKAGES, check=True)
    listed = {line.split()[1] for line in (PACKAGES / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in PACKAGES.iterdir() if path.is_file()} - {"SHA256SUMS"}


def test_the_entries_of_the_archive_depend_on_the_contents_alone():
    with tarfile.open(one("*.tar.gz")) as archive:
        entries = archive.getmembers()
    assert {(entry.uid, entry.gid, entry.uname) for entry in entries} == {(0, 0, "")}
    assert len({entry.mtime for entry in entries}) == 1
    files = [entry.name for entry in entries if entry.isfile()]
    assert len({name.split("/")[0] for name in files}) == 1
    assert {entry.mode for entry in entries if entry.isfile()} == {0o644, 0o755}


def test_the_program_of_the_archive_runs(tree):
    said = subprocess.run([tree / "orrery", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.split()[1] in tree.name


def test_the_archive_has_what_a_user_needs(tree):
    for name in (
        *("README.md", "INSTALL.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY.txt"),
        *("man/orrery.1", "completions/orrery.bash", "completions/_orrery", "completions/orrery.fish"),
    ):
        assert (tree / name).stat().st_size > 100, name


def test_the_line_tables_belong_to_the_program(tree):
    debug = subprocess.run(["gzip", "-dc", one("*.debug.gz")], capture_output=True, check=True).stdout
    assert debug[:4] == b"\x7fELF" and b".debug_line" in debug
    sections = subprocess.run(["readelf", "-p", ".gnu_debuglink", tree / "orrery"], capture_output=True)
    assert b"orrery.debug" in sections.stdout


def test_the_debian_package_installs_its_files_and_its_user(in_a_copy):
    said = in_a_copy(
        """
        dpkg --install /packages/*.deb >/dev/null
        orrery --version
        getent passwd orrery
        man_pages=$(ls /usr/share/man/man1/orrery*.gz | wc -l)
        test "$man_pages" -ge 1
        test -s /usr/share/bash-completion/completions/orrery
        test -s /lib/systemd/system/orrery.service
        dpkg --verify orrery
        """
    )
    assert said.startswith("orrery ")
    assert "/var/lib/orrery" in said


def test_the_service_of_the_debian_package_starts_as_its_user(in_a_copy, tree):
    service = service_of(tree)
    command = shlex.split(service["ExecStart"].lstrip("-@:+!"))
    # The directory is the one that systemd would create for the unit.
    state = "/var/lib/" + service["StateDirectory"].split()[0]
    said = in_a_copy(
        f"""
        dpkg --install /packages/*.deb >/dev/null
        python3 - <<'END'
import fcntl, socket, struct
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))
END
        install --directory --owner={service["User"]} --group={service["User"]} --mode=0700 {state}
        HOME={state} STATE_DIRECTORY={state} chroot --userspec={service["User"]} / {shlex.join(command)} >/tmp/log 2>&1 &
        for attempt in $(seq 300); do
            if orrery healthcheck 2>/dev/null; then break; fi
            kill -0 $! || {{ cat /tmp/log; exit 1; }}
            sleep 0.1
        done
        orrery healthcheck
        kill -TERM $!
        wait $!
        stat --format=%U {state}/*
        """
    )
    assert set(said.split()) == {service["User"]}, said


def test_a_purge_keeps_the_data(in_a_copy):
    said = in_a_copy(
        """
        dpkg --install /packages/*.deb >/dev/null
        install --directory --owner=orrery /var/lib/orrery
        echo kept >/var/lib/orrery/file
        dpkg --purge orrery >/dev/null
        cat /var/lib/orrery/file
        test ! -e /usr/bin/orrery
        test ! -e /lib/systemd/system/orrery.service
        """
    )
    assert said == "kept\n"
