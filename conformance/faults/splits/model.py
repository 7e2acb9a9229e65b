"""The possible states of each item, given a history: the times at which it certainly existed, and its possible values.

An operation takes place at one moment between its call and its return. It follows that no reader may see a value that a
later write had replaced before the read began, and that no reader may find an item absent after a write that no delete
can have followed. Concurrent operations may have taken place in either order, and an operation with an unknown outcome
may not have taken place, so both only extend the set of possible states. An operation with an unknown outcome took place
before its return or never, except in a fleet, whose networks may deliver a request after its client has given it up.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import accumulate
from zlib import crc32

from history import CRASH, FAULTS_OF_NODES, FLEET, LONG_PAUSE, Action, FeedPage, Look, Record, Write

# Times before and after all operations.
EVER = -(1 << 80)
NEVER = 1 << 80

# The status of a write that a node has sent on without getting an answer.
UNKNOWN_OUTCOME = 408
# The statuses of a request that was not carried out: PostgreSQL does not answer or was looking for an outcome, or the node
# was paused for longer than its lease is valid.
NOT_CARRIED_OUT = (449, 503)
MULTI_STATUS = 207

COUNTER = "n"
RANKS = 1000


def rank_of(pk: str, id: str) -> int:
    """Returns the constant number of an item, by which queries sort and filter."""
    return crc32(f"{pk}/{id}".encode()) % RANKS


class Moments:
    """Intervals of operations: the latest beginning among those that were over at a time."""

    def __init__(self, intervals):
        ordered = sorted((over, began) for began, over in intervals)
        self._over = [over for over, _ in ordered]
        self._latest = list(accumulate((began for _, began in ordered), max))

    def latest_beginning(self, before: int) -> int:
        """Returns the latest beginning among the operations that had ended before this time."""
        place = bisect_left(self._over, before)
        return self._latest[place - 1] if place else EVER

    def count_over(self, before: int) -> int:
        return bisect_left(self._over, before)


class Beginnings:
    """Intervals of operations: the latest end among those that had begun at a time."""

    def __init__(self, intervals):
        ordered = sorted(intervals)
        self._began = [began for began, _ in ordered]
        self._latest = list(accumulate((over for _, over in ordered), max))

    def latest_end(self, until: int) -> int:
        """Returns the latest end among the operations that had begun by this time."""
        place = bisect_right(self._began, until)
        return self._latest[place - 1] if place else EVER


class Item:
    """One item: its writes and their consequences. With `is_late`, a write may take place after its client gave it up."""

    def __init__(self, writes: list[Write], first_seen: dict[str, int], is_late: bool = False):
        self.seen, self._is_late = first_seen, is_late
        possible = [w for w in writes if took_place(w) != "no"]
        definite = [w for w in possible if took_place(w) == "yes" or w.v in first_seen]
        self.by_value = {w.v: w for w in writes if w.v is not None}
        self._definite = Moments((w.invoked, self.over(w)) for w in definite)
        self._presence = Moments((w.invoked, self.over(w)) for w in definite if w.do != "delete")
        self._makers = Beginnings((w.invoked, self.over(w)) for w in possible if w.do in ("create", "upsert", "batch"))
        deletes = [w for w in possible if w.do == "delete"]
        self._deletes = Beginnings((w.invoked, self.over(w)) for w in deletes)
        self._sure_deletes = Moments((w.invoked, self.over(w)) for w in definite if w.do == "delete")
        self.deletes = [(w.invoked, self.over(w)) for w in deletes]
        increments = [w for w in possible if w.do == "increment"]
        self._increments = Moments((w.invoked, self.over(w)) for w in definite if w.do == "increment")
        self._started = sorted(began for w in increments for began in [w.invoked] * (1 + w.lost))

    def over(self, write: Write) -> int:
        """Returns the time by which a write had taken place, if it did: it returned, or its value was read.

        One that was repeated below may have been seen before it took place for the last time.
        """
        ended = NEVER if self._is_late and write.outcome == "unknown" else write.returned
        return ended if write.lost else min(ended, self.seen.get(write.v, NEVER))

    def is_replaced(self, write: Write, before: int) -> bool:
        """Returns True if another write certainly replaced this one before that time."""
        return self._definite.latest_beginning(before) > self.over(write)

    def is_surely_there(self, since: int, until: int) -> bool:
        """Returns True if the item existed during the whole interval."""
        written = self._presence.latest_beginning(since)
        return written > EVER and self._deletes.latest_end(until) < written

    def is_surely_absent(self, since: int, until: int) -> bool:
        """Returns True if the item was absent during the whole interval."""
        return self._makers.latest_end(until) < self._sure_deletes.latest_beginning(since) or (
            self._makers.latest_end(until) == EVER
        )

    def counts(self, since: int, until: int) -> tuple[int, int]:
        """Returns the smallest and the largest count that a read in the interval may return."""
        return self._increments.count_over(since), bisect_right(self._started, until)


def took_place(write: Write) -> str:
    """Returns `yes`, `no`, or `maybe`. After an interrupted attempt, a refusal may follow from its success."""
    if write.outcome == "failed":
        return "maybe" if write.lost else "no"
    return "yes" if write.outcome == "ok" else "maybe"


class Model:
    """The history by kinds of records, and its items."""

    def __init__(self, records: list[Record]):
        self.writes = [r for r in records if isinstance(r, Write)]
        self.looks = [r for r in records if isinstance(r, Look)]
        self.pages = [r for r in records if isinstance(r, FeedPage)]
        self.actions = [r for r in records if isinstance(r, Action)]
        seen = self._first_seen()
        writes = defaultdict(list)
        for write in self.writes:
            for id in write.ids:
                writes[write.pk, id].append(write)
        is_late = any(action.do.startswith(FLEET) for action in self.actions)
        self.items = {name: Item(found, seen, is_late) for name, found in writes.items()}
        self.nothing = Item([], {})

    def _first_seen(self) -> dict[str, int]:
        """Returns the time at which each value was first read."""
        seen: dict[str, int] = {}
        for look in self.looks:
            for returned, row in look.rows:
                seen[row[2]] = min(returned, seen.get(row[2], NEVER))
        for page in self.pages:
            for row in page.rows:
                seen[row[2]] = min(page.returned, seen.get(row[2], NEVER))
        return seen

    def item(self, pk: str, id: str) -> Item:
        """Returns an item, even if no client wrote it."""
        return self.items.get((pk, id), self.nothing)

    def is_explained_by_a_fault(self, record: Write | Look | FeedPage) -> bool:
        """Returns True for an error that a fault explains: a broken connection, an unknown outcome, or no execution."""
        if record.outcome == "ok":
            return False
        fleet = [action for action in self.actions if action.do.startswith(FLEET)]
        faults = fleet + [action for action in self.actions if action.do == "kill" or action.do in FAULTS_OF_NODES]
        if record.status == UNKNOWN_OUTCOME:
            return bool(fleet) or any(fault.do in FAULTS_OF_NODES for fault in faults)
        # The answer to a batch has the status of the operation that failed.
        of_operation = record.status == MULTI_STATUS and any(
            f'"statusCode":{status}' in record.error for status in NOT_CARRIED_OUT
        )
        if record.status in NOT_CARRIED_OUT or of_operation:
            return any(
                (fault in fleet or fault.do in (LONG_PAUSE, CRASH)) and fault.invoked <= record.returned and record.invoked <= fault.returned
                for fault in faults
            )
        return record.status == 0 and record.outcome == "unknown" and bool(faults)
