"""A container without a runtime: the entry point of an image in namespaces of its own.

The process is the first of its process namespace, as it is in a container, has the root file system of the image for
reading only, no capability and no way to get one. Its network is that of the tests, so that they reach its ports.

Promises: the process has ended after `stop` or `kill`.
Leaves out: limits of memory and of system calls.
"""

import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from unpacked import Image

# A server has ten seconds for requests in progress, a runtime kills after that.
STOP_SECONDS_MAX = 10

# Mounts what a runtime mounts and starts the program. Arguments: root, data, user, group, mounts, program.
ENTER = """
set -e
root=$1 data=$2 user=$3 group=$4 mounts=$5
shift 5
mount --bind "$root" "$root"
mount --bind "$data" "$root/data"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
for device in null zero random urandom; do
    mount --bind "/dev/$device" "$root/dev/$device"
done
for pair in $mounts; do
    mount --bind -o ro "${pair%%:*}" "$root${pair#*:}"
done
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid \
    chroot --userspec="$user:$group" --groups= "$root" "$@"
"""


@dataclass
class Settings:
    """What `docker run` would be told."""

    arguments: list[str] = field(default_factory=list)
    entry_point: list[str] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    user: tuple[int, int] | None = None
    # Files of this machine, each with its path in the container.
    mounts: dict[Path, str] = field(default_factory=dict)


class Container:
    """A running container. Build it with `Container.run`."""

    def __init__(self, process: subprocess.Popen, image: Image, log: Path, settings: Settings):
        self._process = process
        self._image = image
        self._log = log
        self._settings = settings

    @classmethod
    def run(cls, image: Image, data: Path, log: Path, settings: Settings | None = None) -> "Container":
        """Starts the entry point. Its output goes to `log`."""
        settings = settings or Settings()
        prepare(image, settings)
        user, group = settings.user or image.user
        mounts = " ".join(f"{source}:{place}" for source, place in settings.mounts.items())
        command = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-c", ENTER, "enter"]
        command += [str(image.root), str(data), str(user), str(group), mounts]
        command += (settings.entry_point or image.entry_point) + settings.arguments
        # Root's tools are found by the path of this machine before the program has its own.
        environment = {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        environment |= {name: value for name, value in image.environment.items() if name != "PATH"}
        environment |= settings.environment
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        return cls(process, image, log, settings)

    def pid(self) -> int:
        """The number of the container's first process, as this machine counts."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        [child] = children.read_text().split()
        return int(child)

    def exec(self, *command: str) -> subprocess.CompletedProcess:
        """Runs a further program in the container, as `docker exec` does."""
        user, group = self._settings.user or self._image.user
        enter = ["nsenter", "--target", str(self.pid()), "--mount", "--pid", "--root", "--wd=/"]
        enter += ["--setuid", str(user), "--setgid", str(group)]
        environment = self._image.environment | self._settings.environment
        environment["PATH"] = os.environ["PATH"]
        return subprocess.run([*enter, *command], env=environment, capture_output=True, text=True, timeout=30)

    def wait_for(self, condition, what: str, seconds: float = 30.0):
        """Waits until `condition` returns something true, and returns it."""
        deadline = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            assert time.monotonic() < deadline, f"no {what} within {seconds} s\n{self.log()}"
            try:
                code = self._process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"it ended with {code}\n{self.log()}")

    def wait(self) -> int:
        """Waits until the program ends by itself and returns its exit code."""
        return self._process.wait(30)

    def stop(self) -> float:
        """Sends SIGTERM, waits for the end, and returns the seconds that it took."""
        begun = time.monotonic()
        os.kill(self.pid(), signal.SIGTERM)
        try:
            code = self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"not stopped within {STOP_SECONDS_MAX} s\n{self.log()}") from None
        assert code == 0, f"it ended with {code}\n{self.log()}"
        return time.monotonic() - begun

    def kill(self) -> None:
        """Kills the container if it runs."""
        if self._process.poll() is None:
            os.kill(self.pid(), signal.SIGKILL)
            self._process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def __repr__(self) -> str:
        return shlex.join(self._settings.entry_point or self._image.entry_point)


def prepare(image: Image, settings: Settings) -> None:
    """Creates the places of the mounts, as runtimes do in the layer above those of the image."""
    (image.root / "proc").mkdir(exist_ok=True)
    (image.root / "dev").mkdir(exist_ok=True)
    for device in ("null", "zero", "random", "urandom"):
        (image.root / "dev" / device).touch()
    for place in settings.mounts.values():
        path = image.root / place.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
