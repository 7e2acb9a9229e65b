"""The table of scenarios: reads `table/*.toml` and refuses steps that no driver could execute.

```toml
[let]                           # names that are bound in every scenario of the file
key = { paths = ["/pk"], kind = "Hash", version = 2 }

[[scenario]]
name = "a created item is read back"
given = "container"             # existing resources: nothing, database, container, wide container; a list: each of them
items = [{ id = "0", pk = "a" }]     # items that exist, each with its pk as the partition key
each = ["a", "b"]               # the steps run once for each of these values, with ${each}
steps = [
  { do = "create_item", with = { item = { id = "1", pk = "a" }, partition_key = ["a"] }, expect = { status = 201 } },
]
```

Promises: every scenario has a unique name, and every step without bindings has at least one expectation.
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from matching import EXPECTATIONS
from operations import OPERATIONS

# What a scenario may be given, and how many request units per second its container has: one physical partition for
# each 6,000 begun. Enough that no step is throttled.
GIVEN = {"nothing": None, "database": None, "container": 6_000, "wide container": 12_000}

_STEP_WORDS = {"do", "with", "expect", "bind"}
_SCENARIO_WORDS = {"name", "given", "items", "each", "steps"}


class BadTable(Exception):
    """The table is invalid; the message names the place and the problem."""


@dataclass(frozen=True)
class Step:
    """One request, its expected answer, and the parts of it that later steps use."""

    operation: str
    arguments: dict
    expect: dict
    bind: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A named sequence of steps on a database of its own."""

    file: str
    name: str
    given: str
    steps: tuple[Step, ...]
    items: list | dict | str = ()
    each: tuple = (None,)
    let: dict = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.file}::{self.name}"


def read(directory: Path) -> list[Scenario]:
    """Returns all scenarios, file after file."""
    scenarios = [scenario for file in sorted(directory.glob("*.toml")) for scenario in parse(file.name, file.read_text())]
    if not scenarios:
        raise BadTable(f"there is no scenario below {directory}")
    return scenarios


def parse(file: str, text: str) -> list[Scenario]:
    """Returns the scenarios of one file."""
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BadTable(f"{file}: {problem}") from None
    _only(file, parsed, {"let", "scenario"})
    scenarios = []
    for entry in parsed.get("scenario", []):
        scenarios += _scenarios(file, entry, parsed.get("let", {}))
    names = [scenario.name for scenario in scenarios]
    for name in names:
        if names.count(name) > 1:
            raise BadTable(f"{file}: two scenarios are called `{name}`")
    return scenarios


def _scenarios(file: str, entry: dict, let: dict) -> list[Scenario]:
    """Returns one scenario, or one for each of several given resources."""
    name = entry.get("name", "")
    where = f"{file}::{name}"
    _only(where, entry, _SCENARIO_WORDS)
    given = entry.get("given", "container")
    several = given if isinstance(given, list) else [given]
    if not name or not several or not set(several) <= set(GIVEN) or not entry.get("steps"):
        raise BadTable(f"{where}: a scenario has a name, steps, and is given one of {', '.join(GIVEN)}")
    if entry.get("items") and None in map(GIVEN.get, several):
        raise BadTable(f"{where}: items need a container")
    steps = tuple(step_of(where, step) for step in entry["steps"])
    items, each = entry.get("items", []), tuple(entry.get("each", [None]))
    names = [f"{name}, in a {one}" for one in several] if len(several) > 1 else [name]
    return [Scenario(file, full, one, steps, items, each, let) for full, one in zip(names, several)]


def step_of(where: str, entry: dict) -> Step:
    """Returns one step, which `where` names in messages."""
    _only(where, entry, _STEP_WORDS)
    operation = entry.get("do")
    if operation not in OPERATIONS:
        raise BadTable(f"{where}: there is no operation `{operation}`")
    arguments = entry.get("with", {})
    _only(f"{where}: {operation}", arguments, OPERATIONS[operation])
    expect, bind = entry.get("expect", {}), entry.get("bind", {})
    _only(f"{where}: {operation}", expect, EXPECTATIONS)
    if not expect and operation != "connect":
        raise BadTable(f"{where}: {operation} expects nothing")
    return Step(operation, arguments, expect, bind)


def _only(where: str, entry: dict, known) -> None:
    for word in entry:
        if word not in known:
            raise BadTable(f"{where}: `{word}` is not one of {', '.join(sorted(known))}")
