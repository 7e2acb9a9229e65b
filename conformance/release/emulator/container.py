"""A container without an engine: gives this process the namespaces and the root of an image, and becomes the program.

    unshare --net --mount python3 container.py SPECIFICATION

The specification is JSON: `root` (a directory that becomes `/`), `program` (the file that is the whole image), `argv`,
`env`, `mounts` (pairs of a path outside and a path inside), `relays` (pairs of an inherited listening socket and a port).

The image has the program as `/orrery`, an empty `/data` and an empty `/tmp`, and its user is not root. The libraries of
the machine are there too, because the program of a test is not linked statically.

Promises: connections to an inherited socket, which listens outside, arrive at the port of the loopback inside.
Leaves out: limits of memory and of processors, names of hosts, namespaces of processes and of users.
"""

import asyncio
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path

# The user of the image, as in images without a distribution.
USER = 65532
SHARED = ["/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sys", "/usr"]

MS_BIND, MS_REC = 4096, 16384
PR_SET_PDEATHSIG = 1
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    wanted = json.loads(sys.argv[1])
    raise_loopback()
    if os.fork() == 0:
        relay(wanted["relays"])
    for descriptor, _ in wanted["relays"]:
        os.close(descriptor)
    enter(Path(wanted["root"]), wanted["program"], wanted["mounts"])
    # Signals that Python ignores would be ignored by the program too.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execve("/orrery", wanted["argv"], wanted["env"])


def raise_loopback() -> None:
    """Sets the loopback interface of the new network up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def enter(root: Path, program: str, mounts: list[list[str]]) -> None:
    """Makes the directory the root of this process, with what the image and its mounts have, and drops its rights."""
    for directory in ("data", "tmp"):
        (root / directory).mkdir(exist_ok=True)
        os.chown(root / directory, USER, USER)
    bind(program, root / "orrery")
    for path in SHARED:
        if os.path.isdir(path):
            bind(path, root / path.lstrip("/"))
    for outside, inside in mounts:
        bind(outside, root / inside.lstrip("/"))
    os.chroot(root)
    os.chdir("/")
    drop_rights()


def drop_rights() -> None:
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)


def bind(source: str, target: Path) -> None:
    """Shows a file or directory at another path as well."""
    if os.path.isdir(source):
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    if LIBC.mount(source.encode(), str(target).encode(), None, MS_BIND | MS_REC, None) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount {source} at {target}")


def relay(relays: list[list[int]]) -> None:
    """Serves the inherited sockets until the program ends; never returns."""
    # A signal from the program's user reaches only processes of that user.
    drop_rights()
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The output of the program ends with the program.
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    try:
        asyncio.run(serve(relays))
    finally:
        os._exit(0)


async def serve(relays: list[list[int]]) -> None:
    servers = []
    for descriptor, port in relays:
        listening = socket.socket(fileno=descriptor)
        servers.append(await asyncio.start_server(to_port(port), sock=listening))
    await asyncio.gather(*(server.serve_forever() for server in servers))


def to_port(port: int):
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            # Nothing listens inside: the engine's own relay resets such a connection too.
            writer.transport.abort()
            return
        await asyncio.gather(copied(reader, inner_writer), copied(inner_reader, writer))

    return connected


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


if __name__ == "__main__":
    main()
