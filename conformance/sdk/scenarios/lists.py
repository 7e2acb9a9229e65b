"""The known gaps of one SDK: missing public methods, failing scenarios, and public methods that no scenario calls.

```toml
[[missing]]                       # of the SDK: a scenario that asks for it does not run
reason = "the SDK has no stored procedures"
asked = ["create_stored_procedure", "query_items with feed_range"]

[[not_passing]]                   # see ratchet/expectations.py
outcome = "failed"
reason = "…"
tests = ["items.toml::…"]

[[unreached]]                     # public methods that no scenario calls; a `*` at the end stands for the rest
reason = "local: no request"
methods = ["ContainerClient.ID"]
```

Promises: a gap that is not listed is a surprise, and so is an entry that no longer applies: the lists only shrink.
"""

import tomllib
from pathlib import Path

from expectations import BadList, Expectations, Result


class Lists:
    """The lists of one SDK."""

    def __init__(self, text: str):
        parsed = tomllib.loads(text)
        for word in parsed:
            if word not in ("missing", "not_passing", "unreached"):
                raise BadList(f"`{word}` is not a list")
        self._scenarios = Expectations.parse(text)
        self._missing = _entries(parsed.get("missing", []), "asked")
        self._unreached = _entries(parsed.get("unreached", []), "methods")

    @classmethod
    def read(cls, file: Path) -> "Lists":
        try:
            return cls(file.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as problem:
            raise BadList(f"{file}: {problem}") from None

    def is_missing(self, asked: str) -> bool:
        """Returns True if the list names this as missing in the SDK."""
        return asked in self._missing

    def surprises(self, results: list[Result], asked_in_vain: set[str], *, whole: bool) -> list[str]:
        """Returns the differences between the scenarios and the lists; `whole`: the whole table was run."""
        files = {result.test.split("::", 1)[0] for result in results} if whole else set()
        found = self._scenarios.surprises([result for result in results if result.outcome != "skipped"], files)
        found += [f"the SDK has no `{asked}`, which is not listed" for asked in sorted(asked_in_vain - set(self._missing))]
        if whole:
            found += [
                f"`{asked}` is listed as missing, but the SDK has it or no scenario asks for it"
                for asked in sorted(set(self._missing) - asked_in_vain)
            ]
        return found

    def surprises_of_methods(self, methods: set[str], reached: set[str]) -> list[str]:
        """Returns the differences between the public methods of a whole run and the lists."""
        found = [f"{method} was reached, but the SDK has no such method" for method in sorted(reached - methods)]
        used = set()
        for method in sorted(methods - reached):
            entry = next((entry for entry in self._unreached if _covers(entry, method)), None)
            if entry is None:
                found.append(f"no scenario leads to {method}")
            else:
                used.add(entry)
        return found + [
            f"{entry} is listed as unreached, but it is reached or not there"
            for entry in sorted(set(self._unreached) - used)
        ]


def _covers(entry: str, method: str) -> bool:
    return method.startswith(entry[:-1]) if entry.endswith("*") else method == entry


def _entries(groups: list[dict], members: str) -> dict[str, str]:
    """Returns each member with the reason of its group."""
    reasons: dict[str, str] = {}
    for group in groups:
        reason = group.get("reason", "").strip()
        if not reason or set(group) - {"reason", members}:
            raise BadList(f"a group has a reason and {members}: {group}")
        for member in group.get(members, []):
            if member in reasons:
                raise BadList(f"{member} is listed twice")
            reasons[member] = reason
    return reasons
