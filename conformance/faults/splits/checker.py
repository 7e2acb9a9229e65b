"""Compares a history with a model (`model.py`): a table of checks, each with the anomalies that it found.

    checker.py DIRECTORY

Reads are checked against the strictest promise of the server: every read is of the last commit, so it sees each write
of any client that had ended before the read began.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from history import FeedPage, Look, Write, read
from model import COUNTER, EVER, Model, rank_of

# The statuses that a client expects, by operation. A read may find no item, and so may a query of one item.
EXPECTED = {
    "create": {201, 409},
    "upsert": {200, 201},
    "replace": {200, 404},
    "patch": {200, 404},
    "increment": {200},
    "delete": {204, 404},
    "batch": {200},
    "read": {200, 404},
}
EXPECTED_ELSEWHERE = {200, 304}


@dataclass(frozen=True)
class Anomaly:
    """A contradiction between history and model: the check that found it, and a description of the cause."""

    check: str
    says: str


def errors_shown(model: Model) -> Iterator[str]:
    """Finds errors that the SDK should have handled, and failures of the server."""
    for record in [*model.writes, *model.looks, *model.pages]:
        broke = record.outcome == "unknown"
        if model.is_explained_by_a_fault(record):
            continue
        expected = EXPECTED.get(getattr(record, "do", ""), EXPECTED_ELSEWHERE)
        if broke or record.status not in expected or record.substatus:
            yield f"{brief(record)}: {record.status}/{record.substatus} {record.error[:300]}"


def refusals_that_cannot_be(model: Model) -> Iterator[str]:
    """Finds items that were refused as existing while they were absent, or as absent while they existed."""
    for write in model.writes:
        if write.outcome != "failed" or write.lost or write.do == "batch":
            continue
        item = model.item(write.pk, write.ids[0])
        if write.status == 409 and item.is_surely_absent(write.invoked, write.returned):
            yield f"{brief(write)} was refused as existing, but it was absent"
        if write.status == 404 and item.is_surely_there(write.invoked, write.returned):
            yield f"{brief(write)} was refused as missing, but it was there"


def values_that_cannot_be(model: Model) -> Iterator[str]:
    """Finds values that were read and never written, refused, or written later than they were read."""
    for who, returned, pk, id, v in sightings(model):
        write = model.item(pk, id).by_value.get(v)
        if write is None:
            yield f"{who} saw {pk}/{id} with {v!r}, which nobody wrote there"
        elif write.outcome == "failed" and not write.lost:
            yield f"{who} saw {pk}/{id} with {v!r}, which had been refused with {write.status}"
        elif write.invoked > returned:
            yield f"{who} saw {pk}/{id} with {v!r} before it was written"


def lost_writes(model: Model) -> Iterator[str]:
    """Finds reads without the last write that had ended, or a write that was under way."""
    for look in model.looks:
        for returned, (pk, id, v, *_) in look.rows:
            item = model.item(pk, id)
            write = item.by_value.get(v)
            if write and item.is_replaced(write, look.invoked):
                yield f"{brief(look)} saw {pk}/{id} with {v!r} of {write.client}, which had been replaced by then"
        if look.wanted is not None and look.outcome == "ok":
            found = {(pk, id) for _, (pk, id, *_) in look.rows}
            for pk, id in look.wanted:
                if (pk, id) not in found and model.item(pk, id).is_surely_there(look.invoked, look.returned):
                    yield f"{brief(look)} did not find {pk}/{id}, which was there"


def counts_that_cannot_be(model: Model) -> Iterator[str]:
    """Finds counters that did not count each acknowledged increment once, or counted others."""
    for look in model.looks:
        for returned, (pk, id, _, _, count) in look.rows:
            if id != COUNTER or count is None:
                continue
            least, most = model.item(pk, id).counts(look.invoked, returned)
            if not least <= count <= most:
                yield f"{brief(look)} saw the counter of {pk} at {count}, not between {least} and {most}"


def missing_from_queries(model: Model) -> Iterator[str]:
    """Finds items that existed during a whole query and are missing from its pages."""
    for look in model.looks:
        if look.wanted is not None or look.outcome != "ok":
            continue
        found = {(pk, id) for _, (pk, id, *_) in look.rows}
        for (pk, id), item in model.items.items():
            if (pk, id) in found or not covers(look, pk, id):
                continue
            if item.is_surely_there(look.invoked, look.returned):
                yield f"{brief(look)} lacks {pk}/{id}, which was there all the time"


def doubled_in_queries(model: Model) -> Iterator[str]:
    """Finds items that are in the pages of a query twice without a deletion and creation in between."""
    for look in model.looks:
        times = Counter((pk, id) for _, (pk, id, *_) in look.rows)
        for (pk, id), count in times.items():
            if count == 1:
                continue
            deletes = model.item(pk, id).deletes
            remade = sum(began <= look.returned and over >= look.invoked for began, over in deletes)
            if count > 1 + remade:
                yield f"{brief(look)} has {pk}/{id} {count} times"


def disorder_in_queries(model: Model) -> Iterator[str]:
    """Finds rows that are not ascending over the pages of an ordered query, or that the query excludes."""
    for look in model.looks:
        last = -1
        for _, (pk, id, _, rank, _) in look.rows:
            if look.ordered and rank < last:
                yield f"{brief(look)} has {pk}/{id} with {rank} after {last}"
            last = rank if rank is not None else last
            if look.wanted is None and not covers(look, pk, id):
                yield f"{brief(look)} has {pk}/{id}, for which it did not ask"


def halves_of_batches(model: Model) -> Iterator[str]:
    """Finds batches of which a page of a logical partition or of the change feed shows only a part."""
    sizes = {write.v: len(write.ids) for write in model.writes if write.do == "batch"}
    for look in model.looks:
        if look.do == "window":
            for returned, rows in look.pages:
                values = {v for _, _, v, *_ in rows if v in sizes}
                yield from halves(brief(look), rows, sizes)
                if len(values) > 1:
                    yield f"{brief(look)} saw several batches at once: {sorted(values)}"
    for page in model.pages:
        yield from halves(brief(page), page.rows, sizes)


def halves(who: str, rows: list, sizes: dict[str, int]) -> Iterator[str]:
    members = Counter(v for _, _, v, *_ in rows if v in sizes)
    for v, count in members.items():
        if count % sizes[v]:
            yield f"{who} saw {count} of the {sizes[v]} writes of the batch {v!r}"


def missing_from_feeds(model: Model) -> Iterator[str]:
    """Finds items whose last version a reader did not see before the end of the change feed."""
    last = {(pk, id): v for look in model.looks if look.do == "final" for _, (pk, id, v, *_) in look.rows}
    for reader, ranges in chains(model).items():
        ends = [pages[-1] for pages in ranges.values()]
        if not all(end.drained for end in ends):
            yield f"the reader {reader} did not come to the end of the change feed"
            continue
        began = min(end.invoked for end in ends)
        seen = {row[:3] for pages in ranges.values() for page in pages for row in page.rows}
        for (pk, id), v in last.items():
            item = model.item(pk, id)
            write = item.by_value.get(v)
            if write and item.over(write) < began and (pk, id, v) not in seen:
                yield f"the reader {reader} never saw {pk}/{id} with {v!r}"


def doubled_in_feeds(model: Model) -> Iterator[str]:
    """Finds versions that a reader saw twice, in any range."""
    for reader, ranges in chains(model).items():
        times = Counter(row[:3] for pages in ranges.values() for page in pages for row in page.rows)
        for (pk, id, v), count in times.items():
            write = model.item(pk, id).by_value.get(v)
            if count > 1 + (write.lost if write else 0):
                yield f"the reader {reader} saw {pk}/{id} with {v!r} {count} times"


def disorder_in_feeds(model: Model) -> Iterator[str]:
    """Finds changes of a logical partition that are not in the order of writes and of ascending LSNs."""
    for reader, ranges in chains(model).items():
        newest: dict[str, tuple[int, str]] = defaultdict(lambda: (EVER, ""))
        highest: dict[str, tuple[int, str | None]] = defaultdict(lambda: (-1, None))
        for pk, id, v, lsn, _ in (row for pages in ranges.values() for page in pages for row in page.rows):
            item = model.item(pk, id)
            write = item.by_value.get(v)
            if write is None:
                continue
            began, before = newest[pk]
            if began > item.over(write):
                yield f"the reader {reader} saw {pk}/{id} with {v!r} after {before!r}, which was written later"
            newest[pk] = max(newest[pk], (write.invoked, v))
            number, value = highest[pk]
            if lsn < number or (lsn == number and v != value):
                yield f"the reader {reader} saw {pk}/{id} with {v!r} at LSN {lsn} after {value!r} at {number}"
            highest[pk] = (max(lsn, number), v)


def disorder_of_lsns(model: Model) -> Iterator[str]:
    """Finds writes of a logical partition with a lower LSN than a write that had ended before they began."""
    by_key: dict[str, list[Write]] = defaultdict(list)
    for write in model.writes:
        if write.outcome == "ok" and write.lsn is not None:
            by_key[write.pk].append(write)
    for writes in by_key.values():
        returned = sorted(writes, key=lambda write: write.returned)
        place, highest = 0, None
        for write in sorted(writes, key=lambda write: write.invoked):
            while returned[place].returned < write.invoked:
                highest = max(highest or returned[place], returned[place], key=lambda w: w.lsn)
                place += 1
            if highest and write.lsn <= highest.lsn:
                yield f"{brief(write)} has LSN {write.lsn}, but {brief(highest)} before it has {highest.lsn}"


CHECKS = {
    "no error that a client should not see": errors_shown,
    "no refusal that cannot be": refusals_that_cannot_be,
    "no value that cannot be": values_that_cannot_be,
    "no acknowledged write lost": lost_writes,
    "every increment counted once": counts_that_cannot_be,
    "no item missing from a query": missing_from_queries,
    "no item doubled in a query": doubled_in_queries,
    "queries in their order": disorder_in_queries,
    "batches whole": halves_of_batches,
    "the change feed complete": missing_from_feeds,
    "no version doubled in the change feed": doubled_in_feeds,
    "the change feed in order": disorder_in_feeds,
    "LSNs in the order of writes": disorder_of_lsns,
}


def check(model: Model) -> list[Anomaly]:
    """Returns all anomalies."""
    return [Anomaly(name, says) for name, finds in CHECKS.items() for says in finds(model)]


def covers(look: Look, pk: str, id: str) -> bool:
    """Returns True if a query asks for this item."""
    if look.covers.get("pk", pk) != pk:
        return False
    return rank_of(pk, id) < look.covers["below"] if "below" in look.covers else True


def chains(model: Model) -> dict[str, dict[int, list[FeedPage]]]:
    """Returns the pages of each reader and range in the order of their arrival; interrupted ones are empty."""
    found: dict[str, dict[int, list[FeedPage]]] = defaultdict(lambda: defaultdict(list))
    for page in model.pages:
        if page.outcome == "ok":
            found[page.reader][page.range].append(page)
    return found


def sightings(model: Model) -> Iterator[tuple[str, int, str, str, str | None]]:
    """Returns every value that was read: the reader, the time at which its page returned, and the item."""
    for look in model.looks:
        who = brief(look)
        yield from ((who, returned, pk, id, v) for returned, (pk, id, v, *_) in look.rows)
    for page in model.pages:
        who = brief(page)
        yield from ((who, page.returned, pk, id, v) for pk, id, v, *_ in page.rows)


def brief(record: Write | Look | FeedPage) -> str:
    """Returns a short description of an operation."""
    if isinstance(record, Write):
        return f"{record.client}'s {record.do} of {record.pk}/{','.join(record.ids)} ({record.v!r}, at {record.invoked})"
    if isinstance(record, Look):
        about = f" of {record.wanted[0][0]}/{record.wanted[0][1]}" if record.wanted and len(record.wanted) == 1 else ""
        return f"{record.client}'s {record.do}{about} (at {record.invoked})"
    return f"{record.reader}'s page of range {record.range} (at {record.invoked})"


def table(model: Model, anomalies: list[Anomaly]) -> str:
    """Returns the table of operations and of the findings of each check."""
    kinds = Counter(write.do for write in model.writes) + Counter(look.do for look in model.looks)
    kinds += Counter({"change feed page": len(model.pages)})
    maybe = sum(write.outcome == "unknown" for write in model.writes)
    lines = [f"  {kind:<24}{count:>9}" for kind, count in sorted(kinds.items())]
    lines.append(f"  {'outcome unknown':<24}{maybe:>9}")
    for do, count in sorted(Counter((a.do, a.outcome) for a in model.actions).items()):
        lines.append(f"  {do[0] + ', ' + do[1]:<24}{count:>9}")
    lines.append("")
    found = Counter(anomaly.check for anomaly in anomalies)
    lines += [f"  {name:<40}{found[name] or 'holds':>9}" for name in CHECKS]
    return "\n".join(lines)


def report(directory: Path, shown: int = 5) -> bool:
    """Checks a history, prints the table and the first anomalies of each kind. Returns True if there are none."""
    model = Model(read(directory))
    anomalies = check(model)
    print(table(model, anomalies))
    for name in CHECKS:
        said = [anomaly.says for anomaly in anomalies if anomaly.check == name]
        for says in said[:shown]:
            print(f"  {name}: {says}")
        if len(said) > shown:
            print(f"  ... and {len(said) - shown} more of this kind")
    return not anomalies


if __name__ == "__main__":
    sys.exit(0 if report(Path(sys.argv[1])) else 1)
