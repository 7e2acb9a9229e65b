"""The report of a client program: what it printed and how it ended, judged.

A program prints a line of JSON for itself (`{"client": …, "version": …}`), a line for each operation
(`{"operation": …, "passed": …}`, with a `message` if it failed) and `{"end": true}` as its last; other lines are its
libraries' and are ignored.

Promises: a report has passed only if every operation passed, there was one at least, the program came to its end with
exit code 0, and the client was the one of the table in its version.
"""

import json
from dataclasses import dataclass, field
from typing import Protocol


class Client(Protocol):
    """A row of the table of a suite: what its program tests."""

    name: str
    version: str

    @property
    def package_name(self) -> str: ...


@dataclass
class Report:
    """What one program did."""

    client: Client
    seconds: float = 0.0
    passed: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def operations(self) -> int:
        return self.passed + sum(failure.startswith("operation: ") for failure in self.failures)

    @property
    def has_passed(self) -> bool:
        return not self.failures


def judge(client: Client, lines: list[str], code: int | None, seconds: float) -> Report:
    """Returns the report of a program that printed these lines; a `code` of None is a program that was too slow."""
    report = Report(client, seconds)
    said = [line for line in map(parsed, lines) if line]
    version = next((line["version"] for line in said if line.get("client") == client.package_name), None)
    if version != client.version:
        report.failures.append(f"the client of the table is {client.version}, the program found {version}")
    for line in said:
        if "operation" not in line:
            continue
        if line.get("passed") is True:
            report.passed += 1
        else:
            report.failures.append(f"operation: {line['operation']}: {line.get('message')}")
    if code is None:
        report.failures.append(f"the program did not end within {seconds:.0f} s")
    elif not said or not said[-1].get("end"):
        report.failures.append(f"the program ended with code {code} before its last operation")
    elif code != 0 and not report.failures:
        report.failures.append(f"the program ended with code {code}")
    if report.operations == 0:
        report.failures.append("the program did nothing")
    return report


def parsed(line: str) -> dict | None:
    """The object that a line contains, if it is one of a program's own."""
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if value.keys() & {"client", "operation", "end"} else None


def table(reports: list[Report]) -> str:
    """The table of all programs: client, version, operations, time, result."""
    rows = [("client", "version", "operations", "seconds", "result")]
    for report in reports:
        count = f"{report.passed} of {report.operations}"
        result = "passed" if report.has_passed else "FAILED"
        rows.append((report.client.name, report.client.version, count, f"{report.seconds:.1f}", result))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join(lines)
