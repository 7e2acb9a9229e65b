"""The table of mistakes: reads `table/*.toml`.

```toml
[[mistake]]
name = "The item has no id"
given = "container"              # existing resources, as for a scenario
before = [{ do = …, expect = … }]    # steps that lead to the mistake, as of a scenario
do = "create_item"               # the mistake: an operation of the scenarios, or `send`, a request written by hand
with = { … }
status = 400
substatus = 0                    # optional
says = "Give each item an 'id'"  # a part of the text that every user must see; it contains the remedy
own = { go = "…" }               # SDKs that refuse the mistake themselves, and a part of what they say
silent = ["javascript"]          # SDKs that show the status without the text
prevented = ["java"]             # SDKs whose types and methods leave no way to make it
```

Promises: every mistake has a unique name, and a text that is looked for.
"""

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scenarios"))

from table import GIVEN, BadTable, Step, step_of  # noqa: E402

_WORDS = {"name", "given", "before", "do", "with", "status", "substatus", "says", "own", "silent", "prevented"}
_SEND_WORDS = {"method", "path", "headers", "body", "authorization", "slip"}


@dataclass(frozen=True)
class Mistake:
    """A mistake, and what users must see."""

    file: str
    name: str
    given: str
    before: tuple[Step, ...]
    operation: str
    arguments: dict
    expect: dict
    own: dict[str, str]
    silent: tuple[str, ...]
    prevented: tuple[str, ...]

    @property
    def is_by_hand(self) -> bool:
        """True for a request without an SDK."""
        return self.operation == "send"


def read(directory: Path) -> list[Mistake]:
    """Returns all mistakes, file after file."""
    mistakes = []
    for file in sorted(directory.glob("*.toml")):
        mistakes += parse(file.name, file.read_text())
    names = [mistake.name for mistake in mistakes]
    for name in names:
        if names.count(name) > 1:
            raise BadTable(f"two mistakes are called `{name}`")
    return mistakes


def parse(file: str, text: str) -> list[Mistake]:
    """Returns the mistakes of one file."""
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BadTable(f"{file}: {problem}") from None
    return [_mistake(file, entry) for entry in parsed.get("mistake", [])]


def title(text: str) -> str:
    """Returns the first comment of a file, without its full stop."""
    return text.splitlines()[0].lstrip("# ").rstrip(".")


def _mistake(file: str, entry: dict) -> Mistake:
    where = f"{file}::{entry.get('name', '')}"
    for word in entry:
        if word not in _WORDS:
            raise BadTable(f"{where}: `{word}` is not one of {', '.join(sorted(_WORDS))}")
    for word in ("name", "do", "status", "says"):
        if not entry.get(word):
            raise BadTable(f"{where}: `{word}` is missing")
    given = entry.get("given", "container")
    if given not in GIVEN:
        raise BadTable(f"{where}: a mistake is given one of {', '.join(GIVEN)}")
    arguments = entry.get("with", {})
    expect = {"status": entry["status"], "message": entry["says"]}
    if "substatus" in entry:
        expect["substatus"] = entry["substatus"]
    if entry["do"] == "send":
        unknown = set(arguments) - _SEND_WORDS
        if unknown:
            raise BadTable(f"{where}: `{min(unknown)}` is not one of {', '.join(sorted(_SEND_WORDS))}")
    else:
        step_of(where, {"do": entry["do"], "with": arguments, "expect": expect})
    before = tuple(step_of(where, step) for step in entry.get("before", []))
    own, silent, prevented = entry.get("own", {}), entry.get("silent", []), entry.get("prevented", [])
    return Mistake(
        file, entry["name"], given, before, entry["do"], arguments, expect, own, tuple(silent), tuple(prevented)
    )
