"""The history of operations and their results, as lines of JSON, one for each operation.

Every client writes a file of its own, in the order in which its operations returned. Times are nanoseconds of the
machine's monotonic clock, which all processes share, so the files make one history.

Each write has a unique value (`v`), so a value that is read identifies its write. The outcome of a write is `ok`,
`failed` (the server refused it) or `unknown` (the connection broke; the write may have taken place, but not after its
return, because connections break when the server is killed). `lost` counts attempts of the same operation whose
connection broke before the SDK retried; each of them may have taken place too.

Promises: an incomplete line at the end of a file, whose client was killed, is ignored.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

# The faults of nodes, in which a write may be answered with 408/1900: its outcome is unknown.
LONG_PAUSE, CRASH = "long pause of the holder", "crash of PostgreSQL"
FAULTS_OF_NODES = (
    "kill of the holder",
    "kill of another node",
    "stop of the holder",
    LONG_PAUSE,
    "short pause of the holder",
    "pause of another node",
    "lease given away",
    CRASH,
)

# The beginning of the names of faults of a fleet, in which networks are cut and primaries replaced: a request may reach a
# node after its client has given it up.
FLEET = "fleet: "

# A row as clients read it: logical partition, id, value, the stable number that queries sort by, the count of counters.
Row = tuple[str, str, str | None, int | None, int | None]


@dataclass
class Write:
    """A create, upsert, replace, patch, increment, delete or transactional batch; `v` is None for a delete."""

    client: str
    do: str
    pk: str
    ids: list[str]
    v: str | None
    invoked: int
    returned: int
    outcome: str = "ok"
    status: int = 0
    substatus: int = 0
    lsn: int | None = None
    lost: int = 0
    error: str = ""


@dataclass
class Look:
    """A read: an item, many items, or the pages of a query.

    `wanted` names the items that were asked for by name; `covers` says which items a query must bring otherwise: of one
    logical partition (`pk`), below a number (`below`), or all. `pages` are the times they returned and their rows.
    """

    client: str
    do: str
    invoked: int
    returned: int
    pages: list[tuple[int, list[Row]]]
    wanted: list[tuple[str, str]] | None = None
    covers: dict = field(default_factory=dict)
    ordered: bool = False
    outcome: str = "ok"
    status: int = 200
    substatus: int = 0
    error: str = ""

    @property
    def rows(self) -> Iterator[tuple[int, Row]]:
        """Returns every row with the time at which its page returned."""
        return ((returned, row) for returned, rows in self.pages for row in rows)


@dataclass
class FeedPage:
    """A page of the change feed of one feed range; rows contain their LSN instead of the sort number."""

    client: str
    reader: str
    range: int
    invoked: int
    returned: int
    rows: list[Row]
    drained: bool = False
    outcome: str = "ok"
    status: int = 200
    substatus: int = 0
    error: str = ""


@dataclass
class Action:
    """An action on the server: a split, a merge, a change of throughput, a kill."""

    do: str
    invoked: int
    returned: int
    outcome: str = "ok"
    detail: str = ""


Record = Write | Look | FeedPage | Action
KINDS = {"write": Write, "look": Look, "feed": FeedPage, "action": Action}
NAMES = {kind: name for name, kind in KINDS.items()}


def line_of(record: Record) -> str:
    """Returns the record as a line."""
    return json.dumps({"kind": NAMES[type(record)]} | asdict(record), separators=(",", ":"))


def record_of(line: str) -> Record:
    """Returns the record of a line."""
    found = json.loads(line)
    kind = KINDS[found.pop("kind")]
    if kind is Look:
        found["pages"] = [(returned, [tuple(row) for row in rows]) for returned, rows in found["pages"]]
        found["wanted"] = found.get("wanted") and [tuple(pair) for pair in found["wanted"]]
    if kind is FeedPage:
        found["rows"] = [tuple(row) for row in found["rows"]]
    return kind(**found)


def read(directory: Path) -> list[Record]:
    """Returns all histories of a directory, in the order in which operations began."""
    records = []
    for file in sorted(directory.glob("*.jsonl")):
        *whole, rest = file.read_text().split("\n")
        assert not rest or not rest.endswith("}"), f"{file} ends without the end of a line"
        records += [record_of(line) for line in whole]
    return sorted(records, key=lambda record: record.invoked)
