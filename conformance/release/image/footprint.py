"""The footprint of the program without load: bytes, time to the first answer, memory.

Each row is a server that was started for it. Times are from the start of the process (fork and exec included) to its
ready line and to the end of the first answered request; the median and the longest of the rounds are printed. Memory is
the resident set, which counts the parts of the program's file that were read; `anonymous` is the part that it shares
with no file.
"""

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from azure.cosmos import CosmosClient, PartitionKey

FREE_PORTS = ["--listen", "127.0.0.1:0", "--ready-json"]
START = [*FREE_PORTS, "--admin-listen", "127.0.0.1:0"]
EMULATOR = [*FREE_PORTS, "--explorer-port", "0", "--health-port", "0"]
SERVERS = (
    ["start", "--memory", *START],
    ["start", "--data-dir", "PLACE/data", *START],
    ["emulator", "--data-path", "PLACE/data", *EMULATOR],
)


def start(program: Path, arguments: list[str]) -> tuple[subprocess.Popen, dict, float, float]:
    """Starts a server. Returns it, its ready line, and the seconds to that line and to the first answer."""
    begun = time.perf_counter()
    process = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    ready = json.loads(process.stdout.readline())
    ready_seconds = time.perf_counter() - begun
    address = urlsplit(ready["endpoint_http"])
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 401", "a request without a signature is refused"
    return process, ready, ready_seconds, time.perf_counter() - begun


def memory(process: subprocess.Popen) -> tuple[float, float]:
    """Returns the resident set and its anonymous part, in MB, of the process and its children."""
    pids = [process.pid]
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        pids += [int(pid) for pid in (task / "children").read_text().split()]
    totals = {"VmRSS": 0, "RssAnon": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in totals:
                totals[name] += int(value.split()[0]) * 1024
    return totals["VmRSS"] / 1e6, totals["RssAnon"] / 1e6


def first_requests(ready: dict) -> None:
    """A database, a container, a hundred items, and queries with one that orders them."""
    client = CosmosClient(ready["endpoint_http"], ready["key"])
    database = client.create_database("shop")
    container = database.create_container("items", PartitionKey(path="/id"))
    for number in range(100):
        container.create_item({"id": str(number), "price": number, "text": "x" * 500})
    assert len(list(container.query_items("SELECT * FROM c ORDER BY c.price", enable_cross_partition_query=True))) == 100


def measure(program: Path, arguments: list[str], rounds: int, idle_seconds: float) -> str:
    """Measures a server several times and returns its row."""
    ready_times, answer_times, idle, used = [], [], [], []
    for round_number in range(rounds):
        with tempfile.TemporaryDirectory() as place:
            given = [argument.replace("PLACE", place) for argument in arguments]
            process, ready, ready_seconds, answer_seconds = start(program, given)
            ready_times.append(ready_seconds * 1e3)
            answer_times.append(answer_seconds * 1e3)
            # Memory hardly differs between rounds, and the wait is long.
            if round_number == 0:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    raise AssertionError(f"the server ended with {process.wait(idle_seconds)}")
                idle = memory(process)
                first_requests(ready)
                used = memory(process)
            process.terminate()
            assert process.wait(20) == 0
    median = statistics.median
    name = " ".join(arguments[: arguments.index("--listen")])
    return (
        f"{name:<28} {median(ready_times):6.1f} {max(ready_times):7.1f} {median(answer_times):8.1f} "
        f"{max(answer_times):7.1f} {idle[0]:9.1f} {idle[1]:9.1f} {used[0]:9.1f} {used[1]:9.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="the program to measure")
    parser.add_argument("--rounds", type=int, default=20, help="starts of each server")
    parser.add_argument("--idle", type=float, default=10, help="seconds before memory is read")
    given = parser.parse_args()
    print(f"{'program':<28} {given.program.stat().st_size / 1e6:6.1f} MB")
    print(f"{'':28} {'ready, ms':>14} {'answer, ms':>16} {'idle, MB':>19} {'100 items, MB':>19}")
    print(f"{'':28} {'p50':>6} {'longest':>7} {'p50':>8} {'longest':>7} {'all':>9} {'anonymous':>9} {'all':>9} {'anonymous':>9}")
    for arguments in SERVERS:
        print(measure(given.program, arguments, given.rounds, given.idle), flush=True)


if __name__ == "__main__":
    main()
