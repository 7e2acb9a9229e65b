"""A container with one hot logical key and one with even keys, under the same load, through the official Python SDK.

    run.py [--ru 2000] [--offered 0.9] [--seconds 30] [--hot 0.75]

Starts a server that enforces throughput, creates a container of four physical partitions, and offers it the same load
twice: distributed evenly over its keys, and with a share of it on one key. Prints for each partition the offered and
the served load, the share of answers with 429, and the operations that the SDK gave up after nine retries.

Promises: exit code 1 if more than the provisioned rate and 2 % was served in any ten seconds, by a partition or by all.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib" / "server"))

from orrery_server import Server  # noqa: E402
from workload import PARTITIONS, WINDOW_SECONDS, Outcome, most_in_a_window, run_load  # noqa: E402

TOLERANCE = 1.02


def table(name: str, outcome: Outcome) -> list[str]:
    """Returns the lines of one run, one for each partition."""
    share = outcome.ru / PARTITIONS
    lines = [
        f"{name}: {outcome.seconds:.0f} s on {outcome.ru} RU/s, {share:.0f} for each partition; a create costs {outcome.charge:g} RU",
        "  partition   offered RU/s   served RU/s   of its share   429 of all answers   given up   most in 10 s",
    ]
    for partition in [*range(PARTITIONS), None]:
        attempts = outcome.attempts if partition is None else outcome.of(partition)
        served = [a for a in attempts if a.status < 400]
        refused = [a for a in attempts if a.status == 429]
        given_up = sum(n for key, n in outcome.given_up.items() if partition in (None, outcome.partition_of[key]))
        # Requests that are served after the end of the load were offered before it.
        within = [a for a in served if a.received <= outcome.attempts[0].sent + outcome.seconds]
        rate = sum(a.charge for a in within) / outcome.seconds
        offered = (len(served) + given_up) * outcome.charge / outcome.seconds
        budget = outcome.ru if partition is None else share
        lines.append(
            f"  {'all' if partition is None else partition:>9}   {offered:>12.0f}   {rate:>11.0f}   {rate / budget:>12.1%}"
            f"   {len(refused) / max(1, len(attempts)):>18.1%}   {given_up:>8}"
            f"   {most_in_a_window(attempts) / (budget * WINDOW_SECONDS):>12.1%}"
        )
    return lines


def too_much(outcome: Outcome) -> list[str]:
    """Returns the places where more was served than is provisioned."""
    found = []
    for partition in [*range(PARTITIONS), None]:
        attempts = outcome.attempts if partition is None else outcome.of(partition)
        budget = outcome.ru / (1 if partition is None else PARTITIONS)
        most = most_in_a_window(attempts)
        if most > budget * WINDOW_SECONDS * TOLERANCE:
            found.append(f"partition {partition}: {most:.0f} RU in {WINDOW_SECONDS} s at {budget:.0f} RU/s")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ru", type=int, default=2000, help="RU/s of the container")
    parser.add_argument("--offered", type=float, default=0.9, help="load, as a share of the RU/s")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--hot", type=float, default=0.75, help="share of the load on one logical key")
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="orrery-hot-key") as directory:
        server = Server.start(Path(directory) / "server.log", "--memory", "--enforce-throughput", "on")
        try:
            for name, hot in (("even keys", 0.0), ("one hot key", arguments.hot)):
                load = run_load(
                    server.endpoints.http,
                    server.endpoints.key,
                    arguments.ru,
                    arguments.ru * arguments.offered,
                    arguments.seconds,
                    hot,
                )
                outcome = asyncio.run(load)
                print("\n".join(table(name, outcome)), flush=True)
                found += too_much(outcome)
        finally:
            server.stop()
    for line in found:
        print(f"too much: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
