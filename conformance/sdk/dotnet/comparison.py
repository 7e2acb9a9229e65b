"""The comparison of two runs of the .NET program, and the list of the differences that stay.

```toml
[[difference]]
of = ["charge"]                   # or "result" (passed, failed, skipped or not run), "status"
reason = "the client adds the charges of its retries"
steps = ["containers/…"]
by_chance = true                  # the difference may be there or not; without it, it must be
```

Promises: a difference that is not listed is a surprise, and so is a listed one that does not occur.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

KINDS = ("result", "status", "charge")
# Lists of databases and offers cost more the more of them there are, and the number of them differs
# by the moment.
CHARGE_DIFFERENCE_MIN = 0.1


class BadList(Exception):
    """The list of differences is invalid; the message names the problem."""


@dataclass(frozen=True)
class Difference:
    """A step, and in what its two results differ."""

    step: str
    of: str


def read(file: Path) -> dict[Difference, bool]:
    """Returns the listed differences, each with whether it is there by chance."""
    listed: dict[Difference, bool] = {}
    for group in tomllib.loads(file.read_text(encoding="utf-8")).get("difference", []):
        kinds = group.get("of", [])
        if (
            set(group) - {"of", "reason", "steps", "by_chance"}
            or not kinds
            or set(kinds) - set(KINDS)
        ):
            raise BadList(
                f"a group has a reason, steps and `of`, some of {', '.join(KINDS)}: {group}"
            )
        if not group.get("reason", "").strip():
            raise BadList(f"a group has no reason: {group}")
        for difference in (Difference(step, of) for step in group.get("steps", []) for of in kinds):
            if difference in listed:
                raise BadList(f"{difference.step} is listed twice")
            listed[difference] = group.get("by_chance", False)
    return listed


def differences(left: list[dict], right: list[dict]) -> dict[Difference, str]:
    """Returns in what the steps of two runs differ, each with the two values."""
    ours, theirs = ({step["FullName"]: step for step in steps} for steps in (left, right))
    found = {}
    for name in ours | theirs:
        pair = (ours.get(name), theirs.get(name))
        results = [_result(step) for step in pair]
        if results[0] != results[1]:
            # The other values of such a step say nothing.
            found[Difference(name, "result")] = " | ".join(results)
            continue
        statuses = [f"{step['Status']}/{step['SubStatus']}" for step in pair]
        if statuses[0] != statuses[1]:
            found[Difference(name, "status")] = " | ".join(statuses)
        charges = [step["Charge"] for step in pair]
        if abs(charges[0] - charges[1]) >= CHARGE_DIFFERENCE_MIN:
            found[Difference(name, "charge")] = " | ".join(f"{charge:g} RU" for charge in charges)
    return found


def surprises(
    found: dict[Difference, str], listed: dict[Difference, bool], ran: set[str], *, whole: bool
) -> list[str]:
    """Returns a line for each difference that is not listed, and for each listed one that is gone.

    `ran` are the steps that ran in one of the runs; `whole`: all steps were to run.
    """
    lines = [
        f"{difference.step}: another {difference.of}: {values}"
        for difference, values in found.items()
        if difference not in listed
    ]
    for difference, by_chance in listed.items():
        if difference.step not in ran:
            lines += [
                f"{difference.step} is on the list of differences, but there is no such step"
            ] * whole
        elif difference not in found and not by_chance:
            lines.append(
                f"{difference.step} has no other {difference.of} now: take it off the list"
            )
    return lines


def _result(step: dict | None) -> str:
    if step is None:
        return "not run"
    return "skipped" if step["Skipped"] else "passed" if step["Ok"] else "failed"
