"""A pytest plugin that combines the phases of each test into one result.

With `RATCHET_RESULTS` set, the results are written to that file, one JSON object a line, for a run that spreads its
tests over several processes.

Promises: each test that began has one result; a phase that fails makes the test fail; a file that cannot be
collected is a failed result under the file's own name.
"""

import json
import os
import re

from expectations import Result

# Names that some suites generate for each run.
MADE_UP = re.compile(r"-?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_results: dict[str, Result] = {}


def results() -> list[Result]:
    """Returns the results, in the order in which the tests began."""
    return list(_results.values())


def stable_name(node_id: str) -> str:
    """Returns the name of a test without the parts that differ from run to run."""
    return MADE_UP.sub("", node_id)


def pytest_runtest_logreport(report):
    name = stable_name(report.nodeid)
    known = _results.get(name, Result(name, "passed"))
    outcome, why = known.outcome, known.why
    if report.failed or (report.skipped and outcome == "passed"):
        outcome, why = report.outcome, why or _cause(report)
    _results[name] = Result(name, outcome, why, known.seconds + report.duration)


def pytest_collectreport(report):
    if report.failed:
        name = stable_name(report.nodeid)
        _results[name] = Result(name, "failed", f"cannot be collected: {_cause(report)}")


def pytest_sessionfinish():
    file = os.environ.get("RATCHET_RESULTS")
    if file:
        with open(file, "w", encoding="utf-8") as out:
            for result in results():
                out.write(json.dumps(vars(result)) + "\n")


def _cause(report) -> str:
    """Returns the last line of the report: the exception or the reason of a skip."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return " ".join(crash.message.split())[:400]
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[-1])
    lines = str(report.longrepr or report.outcome).strip().splitlines()
    return lines[-1][:400]
