"""The known gaps of one SDK: missing public methods, failing scenarios, public methods that no scenario calls, and
scenarios whose answers are others in direct mode than in gateway mode.

```toml
[[missing]]                       # of the SDK: a scenario that asks for it does not run
reason = "the SDK has no stored procedures"
asked = ["create_stored_procedure", "query_items with feed_range"]

[[not_passing]]                   # see ratchet/expectations.py
outcome = "failed"
reason = "…"
tests = ["items.toml::…"]
mode = "direct"                   # in this mode only

[[unreached]]                     # public methods that no scenario calls; a `*` at the end stands for the rest
reason = "local: no request"
methods = ["ContainerClient.ID"]

[[differing]]                     # scenarios whose answers in both modes differ
reason = "…"
scenarios = ["items.toml::…"]
by_chance = true                  # the difference may be there or not
```

Promises: a gap that is not listed is a surprise, and so is an entry that no longer applies: the lists only shrink.
"""

import tomllib
from pathlib import Path

from expectations import BadList, Expectations, Result

# The modes in which a client connects.
MODES = ("gateway", "direct")


class Lists:
    """The lists of one SDK."""

    def __init__(self, text: str):
        parsed = tomllib.loads(text)
        for word in parsed:
            if word not in ("missing", "not_passing", "unreached", "differing"):
                raise BadList(f"`{word}` is not a list")
        not_passing = parsed.get("not_passing", [])
        if any(group.get("mode", "direct") not in MODES for group in not_passing):
            raise BadList(f"a mode is one of {', '.join(MODES)}")
        self._scenarios = {
            mode: Expectations.of([group for group in not_passing if group.get("mode", mode) == mode])
            for mode in MODES
        }
        self._missing = _entries(parsed.get("missing", []), "asked")
        self._unreached = _entries(parsed.get("unreached", []), "methods")
        groups = parsed.get("differing", [])
        self._by_chance = {
            name for group in groups if group.pop("by_chance", False) for name in group.get("scenarios", [])
        }
        self._differing = _entries(groups, "scenarios")

    @classmethod
    def read(cls, file: Path) -> "Lists":
        try:
            return cls(file.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as problem:
            raise BadList(f"{file}: {problem}") from None

    def is_missing(self, asked: str) -> bool:
        """Returns True if the list names this as missing in the SDK."""
        return asked in self._missing

    def surprises(
        self, results: list[Result], asked_in_vain: set[str], *, mode: str = "gateway", whole: bool
    ) -> list[str]:
        """Returns the differences between the scenarios and the lists; `whole`: the whole table was run."""
        files = {result.test.split("::", 1)[0] for result in results} if whole else set()
        found = self._scenarios[mode].surprises([result for result in results if result.outcome != "skipped"], files)
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

    def surprises_of_modes(self, found: dict[str, list[str]], scenarios: set[str]) -> list[str]:
        """Returns the differences between the list and the scenarios whose answers in both modes differ.

        `found` has the texts of each of them; `scenarios` are those of a whole run.
        """
        lines = [
            f"{name} has other answers in direct mode: {'; '.join(texts)}"
            for name, texts in sorted(found.items())
            if name not in self._differing
        ]
        for name in sorted(set(self._differing) - set(found)):
            if name in scenarios and name not in self._by_chance:
                lines.append(f"{name} has the same answers in both modes: take it off the list")
            elif scenarios and name not in scenarios:
                lines.append(f"{name} is listed as differing, but there is no such scenario")
        return lines


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
