"""The judgement: the histories of all writers against the items that are there.

Promises: finds each acknowledged operation whose items are not there or whose trigger did not run, each refused one whose
items are there, each operation that is there in part, each item that is there twice or without a write, and each counter
that says that a procedure was carried out twice or not at all.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from items import key_of, kind_of, names_of


@dataclass
class Operation:
    """A line of a history."""

    writer: str
    number: int
    outcome: str
    status: int
    began: int
    ended: int


@dataclass
class Found:
    """The items of a container: how often each id is there, the stamped ones, and the counters by partition key."""

    names: Counter = field(default_factory=Counter)
    stamped: set = field(default_factory=set)
    counters: dict = field(default_factory=dict)

    def add(self, item: dict) -> None:
        if item["id"] == "counter":
            self.counters[item["pk"]] = item["count"]
            return
        self.names[item["id"]] += 1
        if "stamped" in item:
            self.stamped.add(item["id"])


def read_history(writer: str, text: str) -> list[Operation]:
    """Returns the operations of a history."""
    lines = (line.split() for line in text.splitlines())
    return [Operation(writer, int(n), outcome, int(s), int(b), int(e)) for n, outcome, s, b, e in lines]


def judge(operations: list[Operation], found: Found) -> list[str]:
    """Returns a sentence for each fault, in one container."""
    faults = [f"{name} is there {count} times" for name, count in found.names.items() if count > 1]
    known: set[str] = set()
    done, maybe = Counter(), Counter()
    for operation in operations:
        faults += judge_items(operation, found)
        known.update(names_of(operation.writer, operation.number))
        if kind_of(operation.number) == "procedure":
            key = key_of(operation.writer, operation.number)
            done[key] += operation.outcome == "ok"
            maybe[key] += operation.outcome == "unknown"
    faults += [f"{name} is there, without a write" for name in found.names if name not in known]
    for key in done:
        count = found.counters.get(key, 0)
        if not done[key] <= count <= done[key] + maybe[key]:
            faults.append(f"the counter of {key} is {count}, with {done[key]} to {done[key] + maybe[key]} procedures")
    return faults


def judge_items(operation: Operation, found: Found) -> list[str]:
    """Returns the faults of one operation."""
    names = names_of(operation.writer, operation.number)
    there = sum(name in found.names for name in names)
    what = f"{kind_of(operation.number)} {operation.writer}-{operation.number} ({operation.outcome}, {operation.status})"
    faults = []
    if there not in (0, len(names)):
        faults.append(f"{what}: {there} of {len(names)} items are there")
    elif operation.outcome == "ok" and there == 0:
        faults.append(f"{what}: it was acknowledged and is not there")
    elif operation.outcome == "not" and there:
        faults.append(f"{what}: it was refused and is there")
    if there and kind_of(operation.number) == "triggers" and names[0] not in found.stamped:
        faults.append(f"{what}: its pre-trigger did not run")
    return faults


def longest_gaps(histories: dict[str, list[Operation]], window: tuple[int, int]) -> tuple[int, int]:
    """Returns the longest time in ms without an acknowledgement: of all writers together, and of any one of them."""
    of_one = (acknowledged_times({writer: operations}) for writer, operations in histories.items())
    return gap(acknowledged_times(histories), window), max(gap(found, window) for found in of_one)


def acknowledged_times(histories: dict[str, list[Operation]]) -> list[int]:
    """Returns the times of all acknowledgements in order."""
    return sorted(o.ended for operations in histories.values() for o in operations if o.outcome == "ok")


def gap(times: list[int], window: tuple[int, int]) -> int:
    """Returns the longest gap between the times in a window, which also begins and ends one."""
    began, ended = window
    points = [began, *(time for time in times if began < time <= ended), ended]
    return max(later - earlier for earlier, later in zip(points, points[1:]))


def statuses(operations: list[Operation]) -> dict[int, int]:
    """Returns how often each status was answered, without those of success."""
    counts: dict[int, int] = defaultdict(int)
    for operation in operations:
        if operation.outcome != "ok":
            counts[operation.status] += 1
    return dict(sorted(counts.items()))
