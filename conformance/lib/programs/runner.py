"""The command line of a suite of programs, and its verdict.

    run.py [--quick] [--verbose] [--write] [WORD...]
    run.py --environments [--quick] [WORD...]

Promises: exit code 0 only if every program passed and docs/compat.md has the rows of the run.
"""

import argparse
import sys
from collections.abc import Callable

from document import finish
from report import Report, table


def main(suite: str, description: str, names: list[str], chosen: Callable, environments: Callable, run_all: Callable) -> int:
    """Runs the programs that the command line chooses, and returns the exit code.

    `names` are those of the whole suite, `chosen(words, quick)` returns the programs, `environments(programs)` the names of
    their environments, and `run_all(programs, show)` yields a report for each. Without `names`, the document is not judged.
    """
    arguments = parse(description, sys.argv[1:])
    programs = chosen(arguments.names, arguments.quick)
    if arguments.environments:
        print("\n".join(sorted(environments(programs))))
        return 0
    reports: list[Report] = []
    for report in run_all(programs, arguments.verbose):
        reports.append(report)
        for failure in report.failures:
            print(f"{report.client.name}: {failure}", flush=True)
    print(table(reports))
    faults = finish(suite, reports, names, arguments.write) if names else []
    print("\n".join(faults), end="\n" if faults else "")
    failed = sum(not report.has_passed for report in reports)
    print(f"{len(reports) - failed} passed, {failed} failed")
    return 1 if failed or faults else 0


def parse(description: str, words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the choice of `cargo xtask ci` only")
    parser.add_argument("--environments", action="store_true", help="print the environments and run nothing")
    parser.add_argument("--verbose", action="store_true", help="show everything that the programs print")
    parser.add_argument("--write", action="store_true", help="write the results into docs/compat.md")
    parser.add_argument("names", nargs="*", metavar="WORD")
    return parser.parse_args(words)
