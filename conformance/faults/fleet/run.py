"""A fleet under faults: numbered commits through the store, one fault after the other, and the check of all commits.

    run.py --writer PROGRAM [--faults N|NAME[,NAME]] [--json FILE] [--patroni PROGRAM] ...

PROGRAM is the example `numbered` of `orrery-storage-postgres`. Each fault has a schema of its own, so its history is
checked by itself. Prints an aligned table; `--json` writes the same figures.

Promises: exit code 0 only if no fault lost, doubled or reordered a commit and every gap was within the expected one.
Leaves out: nodes of Orrery and SDKs: this is the level of the store.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from faults import FAULTS, Fault
from gaps import longest_gap, read_history
from lab import STOPPED, Lab, LabFailed, Settings, find_programs, pause

PARTITIONS = 4
QUIET_SECONDS = 3


def main() -> int:
    arguments = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: STOPPED.set())
    rows: list[dict] = []
    try:
        programs = find_programs(arguments.patroni)
        chosen = choose(arguments.faults)
        with Lab(programs, Settings(ttl=arguments.ttl), keep=arguments.keep) as lab:
            began = time.monotonic()
            lab.start()
            print(f"the cluster was healthy after {time.monotonic() - began:.0f} s", flush=True)
            print(heading(), flush=True)
            for number, fault in enumerate(chosen):
                row = suffer(lab, fault, f"f{number}", arguments.writer)
                rows.append(row)
                print(line_of(row), flush=True)
                if arguments.json:
                    Path(arguments.json).write_text(json.dumps({"ttl": arguments.ttl, "faults": rows}, indent=1))
    except LabFailed as failed:
        print(failed, file=sys.stderr)
        return 2
    for row in rows:
        for text in row["anomalies"]:
            print(f"{row['fault']}: {text}")
    return 0 if all(row["is_good"] for row in rows) else 1


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writer", type=Path, required=True, help="the program `numbered`")
    parser.add_argument("--faults", default="", help="the first N faults, or names with commas; all by default")
    parser.add_argument("--patroni", help="the program of Patroni >= 3.0.3; by default the one on the PATH")
    parser.add_argument("--ttl", type=int, default=20, help="seconds after which Patroni replaces a primary")
    parser.add_argument("--json", help="the file of the figures")
    parser.add_argument("--keep", action="store_true", help="keep the folder with data and logs")
    return parser.parse_args(words)


def choose(text: str) -> list[Fault]:
    """Returns the faults of the option `--faults`."""
    if not text or text.isdigit():
        return FAULTS[: int(text)] if text else FAULTS
    by_name = {fault.name: fault for fault in FAULTS}
    unknown = [name for name in text.split(",") if name not in by_name]
    if unknown:
        raise LabFailed(f"there is no fault '{unknown[0]}'; the faults are {', '.join(by_name)}")
    return [by_name[name] for name in text.split(",")]


def suffer(lab: Lab, fault: Fault, schema: str, writer: Path) -> dict:
    """Writes while a fault comes and goes, and returns the figures."""
    cluster, node = lab.clusters[0], lab.clients[0]
    folder = node.folder / schema
    folder.mkdir()
    clusters = folder / "clusters.toml"
    clusters.write_text(cluster.file(schema))
    words = [str(clusters), str(folder), str(PARTITIONS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = node.start("writer", [str(writer), "write", *words], user=False, **pipes)
    if process.stdout.readline().strip() != b"begun":
        raise LabFailed(f"the writer did not begin: see {node.folder}/writer.log")
    # The faults are given in seconds, since Patroni and the store count seconds too.
    pause(QUIET_SECONDS)
    timeline, began = cluster.timeline(), time.time()
    repair = fault.make(lab)
    pause(fault.hold)
    repair()
    healthy = cluster.wait_until_healthy()
    pause(QUIET_SECONDS)
    ended = time.time()
    process.stdin.close()
    process.wait(timeout=120)
    verify = subprocess.run(
        ["ip", "netns", "exec", node.space, str(writer), "verify", *words], capture_output=True, text=True
    )
    try:
        figures = json.loads(verify.stdout)
    except ValueError:
        raise LabFailed(f"{fault.name}: the check did not end: {verify.stderr.strip()}") from None
    histories = [read_history(file) for file in sorted(folder.glob("*.history"))]
    gap = max(longest_gap(history, began, ended) for history in histories)
    figures |= {
        "fault": fault.name,
        "what": fault.what,
        "gap_seconds": round(gap, 2),
        "gap_seconds_max": fault.gap_max,
        "seconds_to_health": round(healthy, 1),
        "timelines": cluster.timeline() - timeline,
    }
    figures["is_good"] = not figures["anomalies"] and gap <= fault.gap_max
    cluster.sql(f"DROP SCHEMA {schema} CASCADE", "orrery")
    return figures


COLUMNS = "{:<18} {:>12} {:>8} {:>8} {:>9} {:>8} {:>8} {:>9}  {}"


def heading() -> str:
    return COLUMNS.format(
        "fault", "acknowledged", "refused", "unknown", "anomalies", "gap s", "at most", "promoted", "judgement"
    )


def line_of(row: dict) -> str:
    """Returns a row of the table."""
    numbers = [row[name] for name in ("acknowledged", "refused", "unknown")]
    judgement = "good" if row["is_good"] else "BAD"
    gaps = (f"{row['gap_seconds']:.1f}", f"{row['gap_seconds_max']:.0f}")
    return COLUMNS.format(row["fault"], *numbers, len(row["anomalies"]), *gaps, row["timelines"], judgement)


if __name__ == "__main__":
    sys.exit(main())
