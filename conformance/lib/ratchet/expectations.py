"""The list of tests that do not pass yet, each with its reason, and its comparison with a run.

```toml
[[not_passing]]
outcome = "failed"                # or "skipped": the test skips itself; "by chance": it passes or fails
reason = "needs partition splits"
tests = ["test_query.py::TestQuery::test_across_a_split"]
```

Promises: a test that fails and is not listed is a surprise, and so is one that is listed and passes: the list only
shrinks. A listed test that no longer exists is a surprise too, if all of its file ran. "By chance" is for tests with a
race in the test itself, which the reason names: both results are accepted.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

BY_CHANCE = "by chance"
OUTCOMES = ("failed", "skipped", BY_CHANCE)


class BadList(Exception):
    """The list is invalid; the message names the problem."""


@dataclass(frozen=True)
class Result:
    """The result of one test: `passed`, `failed` or `skipped`, and the reason if it did not pass."""

    test: str
    outcome: str
    why: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Expectation:
    """The entry of a test that does not pass."""

    outcome: str
    reason: str


class Expectations:
    """The list, by test."""

    def __init__(self, by_test: dict[str, Expectation]):
        self._by_test = by_test

    @classmethod
    def read(cls, file: Path) -> "Expectations":
        try:
            return cls.parse(file.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as problem:
            raise BadList(f"{file}: {problem}") from None

    @classmethod
    def parse(cls, text: str) -> "Expectations":
        return cls.of(tomllib.loads(text).get("not_passing", []))

    @classmethod
    def of(cls, groups: list[dict]) -> "Expectations":
        """Returns the list of these groups of tests."""
        by_test: dict[str, Expectation] = {}
        for group in groups:
            outcome, reason = group.get("outcome"), group.get("reason", "").strip()
            if outcome not in OUTCOMES:
                raise BadList(f"an outcome is one of {', '.join(OUTCOMES)}, not {outcome!r}")
            if not reason:
                raise BadList("a group of tests has no reason")
            for test in group.get("tests", []):
                if test in by_test:
                    raise BadList(f"{test} is listed twice")
                by_test[test] = Expectation(outcome, reason)
        return cls(by_test)

    def surprises(self, results: list[Result], whole_files: set[str] | None = None) -> list[str]:
        """Returns the differences between a run and the list, one sentence each.

        `whole_files` are the files of which every test was asked to run; None if no listed test may be missed.
        """
        found = []
        for result in results:
            expected = self._by_test.get(result.test)
            if result.outcome == (expected.outcome if expected else "passed"):
                continue
            if expected and expected.outcome == BY_CHANCE and result.outcome in ("passed", "failed"):
                continue
            if expected is None:
                found.append(f"{result.test} {result.outcome}: {result.why}")
            elif result.outcome == "passed":
                found.append(f"{result.test} passes now: take it off the list ({expected.reason})")
            else:
                found.append(f"{result.test} {result.outcome}, listed as {expected.outcome}: {result.why}")
        ran = {result.test for result in results}
        for test in self._by_test:
            if test not in ran and whole_files is not None and file_of(test) in whole_files:
                found.append(f"{test} is on the list, but there is no such test")
        return found


def file_of(test: str) -> str:
    """Returns the file of a test."""
    return test.split("::", 1)[0]
