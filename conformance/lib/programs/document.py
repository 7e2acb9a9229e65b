"""The tables of `docs/compat.md` that come from runs: each client or consumer, its version and its result.

    <!-- from a run of `cargo xtask conformance emulator --write` -->
    | consumer | version | operations | result |
    <!-- end -->

Promises: a run fails if the table says something else than the run, and `--write` puts the run's rows into the table;
rows that the run did not have are kept.
"""

from pathlib import Path

from report import Report

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "compat.md"
END = "<!-- end -->"
HEAD = ["consumer", "version", "operations", "result"]


def mark(suite: str) -> str:
    return f"<!-- from a run of `cargo xtask conformance {suite} --write` -->\n"


def rows_of(reports: list[Report]) -> dict[str, str]:
    """A row of the table for each report, by the name of its client."""
    rows = {}
    for report in reports:
        result = "works" if report.has_passed else "FAILS"
        cells = [report.client.name, report.client.version, f"{report.passed} of {report.operations}", result]
        rows[report.client.name] = f"| {' | '.join(cells)} |\n"
    return rows


def stale(text: str, suite: str, reports: list[Report]) -> list[str]:
    """Returns a sentence for each row of the run that the document does not have as it is."""
    known = table_of(text, suite)
    faults = [f"{name}: docs/compat.md does not have its row" for name, row in rows_of(reports).items() if row not in known]
    return [f"{fault}; `cargo xtask conformance {suite} --write` writes it" for fault in faults]


def written(text: str, suite: str, reports: list[Report], order: list[str]) -> str:
    """Returns the document with the rows of the run, in this order of names, and without rows of other names."""
    old = table_of(text, suite)
    rows = {row.split(" | ")[0].removeprefix("| "): row for row in old.splitlines(keepends=True)[2:]} | rows_of(reports)
    head = f"| {' | '.join(HEAD)} |\n| {' | '.join('---' for _ in HEAD)} |\n"
    return text.replace(mark(suite) + old, mark(suite) + head + "".join(rows[name] for name in order if name in rows))


def table_of(text: str, suite: str) -> str:
    """The text between the marks of a suite."""
    if mark(suite) not in text:
        raise SystemExit(f"docs/compat.md has no line `{mark(suite).strip()}`")
    after = text.split(mark(suite), 1)[1]
    return after[: after.index(END)]


def finish(suite: str, reports: list[Report], order: list[str], write: bool) -> list[str]:
    """Writes the table, or returns what is wrong with it."""
    text = DOCUMENT.read_text()
    if write:
        DOCUMENT.write_text(written(text, suite, reports, order))
        return []
    return stale(text, suite, reports)
