"""The checker finds planted anomalies and no others."""

import random
from pathlib import Path

import pytest

from checker import CHECKS, check
from history import Action, FeedPage, Look, Write, line_of, read
from model import Model, rank_of

PK = "p"


class Story:
    """Builds a history in which operations are sequential unless times are given."""

    def __init__(self):
        self.now, self.lsn, self.records = 0, 0, []

    def tick(self) -> int:
        self.now += 1
        return self.now

    def write(self, do: str, v: str | None, *ids: str, **other) -> Write:
        invoked = self.tick()
        self.lsn += 1
        status = {"create": 201, "upsert": 200, "delete": 204}.get(do, 200)
        defaults = {"invoked": invoked, "returned": self.tick(), "status": status, "lsn": self.lsn}
        self.records.append(Write("w", do, PK, list(ids or ["a"]), v, **(defaults | other)))
        return self.records[-1]

    def look(self, do: str, *pages: list[tuple], **other) -> Look:
        invoked = self.tick()
        rows = [(self.tick(), [row(*found) for found in page]) for page in pages]
        defaults = {"invoked": invoked, "returned": self.tick(), "pages": rows}
        self.records.append(Look("r", do, **(defaults | other)))
        return self.records[-1]

    def read(self, v: str | None, id: str = "a", **other) -> Look:
        found = [[(id, v)]] if v else []
        return self.look("read", *found, wanted=[(PK, id)], status=200 if v else 404, **other)

    def feed(self, *rows: tuple, drained: bool = False, range: int = 0) -> FeedPage:
        found = [(PK, id, v, lsn, None) for id, v, lsn in rows]
        self.records.append(FeedPage("f", "reader", range, self.tick(), self.tick(), found, drained))
        return self.records[-1]

    def kill(self) -> None:
        self.records.append(Action("kill", self.tick(), self.tick()))

    def found(self) -> list[str]:
        """Returns the checks that found anomalies."""
        return list(dict.fromkeys(a.check for a in check(Model(sorted(self.records, key=lambda r: r.invoked)))))


def row(id: str, v: str, count: int | None = None) -> tuple:
    return (PK, id, v, rank_of(PK, id), count)


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_plain_history_is_accepted(story):
    story.write("create", "1")
    story.read("1")
    story.write("replace", "2")
    story.write("batch", "3", "b0", "b1")
    story.look("window", [("a", "2"), ("b0", "3"), ("b1", "3")], covers={"pk": PK})
    story.write("delete", None)
    story.read(None)
    story.look("final", [("b0", "3"), ("b1", "3")])
    story.feed(("b0", "3", 3), ("b1", "3", 3))
    story.feed(drained=True)
    assert story.found() == []


def test_an_acknowledged_write_that_a_later_read_does_not_see_is_found(story):
    story.write("create", "1")
    story.write("replace", "2")
    story.read("1")
    assert story.found() == ["no acknowledged write lost"]


def test_an_acknowledged_create_that_is_gone_is_found(story):
    story.write("create", "1")
    story.read(None)
    assert story.found() == ["no acknowledged write lost"]


def test_a_deleted_item_that_is_seen_again_is_found(story):
    story.write("create", "1")
    story.write("delete", None)
    story.read("1")
    assert story.found() == ["no acknowledged write lost"]


def test_concurrent_writes_may_be_seen_in_either_order(story):
    story.write("create", "0")
    story.write("replace", "1", invoked=10, returned=20, lsn=5)
    story.write("replace", "2", invoked=11, returned=19, lsn=6)
    story.now = 20
    story.read("1")
    assert story.found() == []


def test_a_reader_during_a_write_may_see_what_was_before_or_after(story):
    story.write("create", "1")
    story.write("replace", "2", invoked=10, returned=20)
    for v, invoked in (("1", 12), ("2", 14)):
        story.look("read", wanted=[(PK, "a")], pages=[(invoked + 1, [row("a", v)])], invoked=invoked, returned=invoked + 1)
    assert story.found() == []


def test_a_reader_behind_one_that_saw_a_write_under_way_is_found(story):
    """A write has taken place when its value is read, even if the write returns later."""
    story.write("create", "1")
    story.write("replace", "2", invoked=10, returned=90, lsn=3)
    for v, invoked in (("2", 12), ("1", 14)):
        pages = [(invoked + 1, [row("a", v)])]
        story.look("read", wanted=[(PK, "a")], pages=pages, invoked=invoked, returned=invoked + 1)
    assert story.found() == ["no acknowledged write lost"]


def test_an_unknown_write_may_be_seen_or_not(story):
    story.write("create", "1")
    story.kill()
    story.write("replace", "2", outcome="unknown", status=0, lsn=None)
    story.write("upsert", "3", "b", outcome="unknown", status=0, lsn=None)
    story.read("1")
    story.read("3", "b")
    assert story.found() == []


def test_an_unknown_write_that_was_seen_cannot_go_away(story):
    story.write("create", "1")
    story.kill()
    story.write("replace", "2", outcome="unknown", status=0, lsn=None)
    story.read("2")
    story.read("1")
    assert story.found() == ["no acknowledged write lost"]


def test_a_broken_connection_without_a_kill_is_found(story):
    story.write("upsert", "1", outcome="unknown", status=0, lsn=None)
    assert story.found() == ["no error that a client should not see"]


@pytest.mark.parametrize("status, substatus", [(410, 1002), (404, 1002), (503, 0), (500, 0), (429, 3200), (408, 0)])
def test_errors_that_an_sdk_should_deal_with_are_found(story, status, substatus):
    story.look("read", wanted=[(PK, "a")], outcome="failed", status=status, substatus=substatus)
    assert story.found() == ["no error that a client should not see"]


def test_a_server_error_during_kills_is_found(story):
    story.kill()
    story.write("upsert", "1", outcome="unknown", status=500, lsn=None)
    assert story.found() == ["no error that a client should not see"]


def test_a_conflict_with_nothing_and_a_missing_item_that_is_there_are_found(story):
    story.write("create", "1", outcome="failed", status=409)
    assert story.found() == ["no refusal that cannot be"]
    other = Story()
    other.write("create", "1")
    other.write("replace", "2", outcome="failed", status=404)
    assert other.found() == ["no refusal that cannot be"]


def test_a_conflict_after_an_attempt_that_broke_off_is_accepted(story):
    story.kill()
    story.write("create", "1", outcome="failed", status=409, lost=1)
    story.read("1")
    assert story.found() == []


def test_a_write_that_was_repeated_below_may_come_back_after_another(story):
    story.kill()
    story.write("create", "1")
    repeated = story.write("upsert", "2", invoked=10, returned=90, lsn=9, lost=1)
    for v, invoked in (("2", 12), ("2", 92)):
        pages = [(invoked + 1, [row("a", v)])]
        story.look("read", wanted=[(PK, "a")], pages=pages, invoked=invoked, returned=invoked + 1)
    story.write("upsert", "3", invoked=20, returned=21, lsn=8)
    assert story.found() == []
    repeated.lost = 0
    assert story.found() == ["no acknowledged write lost"]


def test_values_that_nobody_wrote_or_that_were_refused_are_found(story):
    story.write("create", "1")
    story.write("create", "2", outcome="failed", status=409)
    story.read("2")
    assert story.found() == ["no value that cannot be"]
    other = Story()
    other.read("9")
    assert other.found() == ["no value that cannot be"]


def test_a_value_before_its_time_is_found(story):
    story.read("1")
    story.write("create", "1")
    assert "no value that cannot be" in story.found()


def test_an_item_missing_from_a_query_is_found(story):
    story.write("create", "1", "a")
    story.write("create", "2", "b")
    story.look("natural", [("a", "1")])
    assert story.found() == ["no item missing from a query"]


def test_an_item_that_was_deleted_meanwhile_may_be_missing(story):
    story.write("create", "1", "a")
    story.write("delete", None, "a", invoked=10, returned=20)
    story.look("natural", invoked=5, returned=15, pages=[(14, [])])
    assert story.found() == []


def test_a_query_owes_only_what_it_asks_for(story):
    story.write("create", "1", "a")
    story.look("filtered", covers={"below": rank_of(PK, "a")})
    story.look("partition", covers={"pk": "other"})
    assert story.found() == []
    story.look("filtered", covers={"below": rank_of(PK, "a") + 1})
    assert story.found() == ["no item missing from a query"]


def test_an_item_that_a_query_did_not_ask_for_is_found(story):
    story.write("create", "1", "a")
    story.look("partition", [("a", "1")], covers={"pk": "other"})
    assert story.found() == ["queries in their order"]


def test_an_item_doubled_over_two_pages_is_found(story):
    story.write("create", "1", "a")
    story.look("natural", [("a", "1")], [("a", "1")])
    assert story.found() == ["no item doubled in a query"]


def test_an_item_made_again_during_a_query_may_be_there_twice(story):
    story.write("create", "1", "a")
    story.write("delete", None, "a", invoked=10, returned=11)
    story.write("create", "2", "a", invoked=12, returned=13)
    story.look("natural", invoked=5, returned=20, pages=[(9, [row("a", "1")]), (15, [row("a", "2")])])
    assert story.found() == []


def test_an_ordered_query_out_of_order_is_found(story):
    ids = sorted(["a", "b", "c"], key=lambda id: -rank_of(PK, id))
    for number, id in enumerate(ids):
        story.write("create", str(number), id)
    rows = [(id, str(number)) for number, id in enumerate(ids)]
    story.look("ordered", rows, ordered=True)
    assert story.found() == ["queries in their order"]
    story.records.pop()
    story.look("ordered", rows[::-1], ordered=True)
    assert story.found() == []


def test_increments_lost_or_counted_twice_are_found(story):
    story.write("create", "0", "n")
    story.write("increment", "1", "n")
    story.write("increment", "2", "n")
    for count, verdict in ((2, []), (1, ["every increment counted once"]), (3, ["every increment counted once"])):
        story.look("read", [("n", "2", count)], wanted=[(PK, "n")])
        assert story.found() == verdict
        story.records.pop()


def test_half_a_batch_is_found_in_a_page_and_in_the_feed(story):
    story.write("batch", "1", "b0", "b1")
    story.write("batch", "2", "b0", "b1", invoked=10, returned=20)
    story.look("window", invoked=11, returned=15, pages=[(14, [row("b0", "1"), row("b1", "2")])], covers={"pk": PK})
    assert story.found() == ["batches whole"]
    other = Story()
    other.write("batch", "1", "b0", "b1")
    other.feed(("b0", "1", 1))
    other.feed(("b1", "1", 1))
    other.feed(drained=True)
    assert other.found() == ["batches whole"]


def test_a_last_version_missing_from_the_feed_is_found(story):
    story.write("create", "1")
    story.write("replace", "2")
    story.look("final", [("a", "2")])
    story.feed(("a", "1", 1))
    story.feed(drained=True)
    assert story.found() == ["the change feed complete"]


def test_a_reader_that_never_came_to_the_end_is_found(story):
    story.write("create", "1")
    story.feed(("a", "1", 1))
    assert story.found() == ["the change feed complete"]


@pytest.mark.parametrize("range", [0, 1])
def test_a_version_that_comes_twice_is_found_in_whatever_range(story, range):
    story.write("create", "1")
    story.feed(("a", "1", 1), drained=True)
    story.feed(("a", "1", 1), drained=True, range=range)
    assert story.found() == ["no version doubled in the change feed"]


def test_a_feed_against_the_order_of_writes_is_found(story):
    story.write("create", "1", "a")
    story.write("create", "2", "b")
    story.feed(("b", "2", 1), ("a", "1", 2), drained=True)
    assert story.found() == ["the change feed in order"]


def test_lsns_that_do_not_ascend_in_the_feed_are_found(story):
    story.write("create", "1", "a", invoked=10, returned=20)
    story.write("create", "2", "b", invoked=10, returned=20)
    story.now = 20
    story.feed(("a", "1", 7), ("b", "2", 6), drained=True)
    assert story.found() == ["the change feed in order"]


def test_an_lsn_below_that_of_an_earlier_write_is_found(story):
    story.write("create", "1", "a", lsn=9)
    story.write("create", "2", "b", lsn=9)
    assert story.found() == ["LSNs in the order of writes"]


def test_every_check_has_a_planted_anomaly():
    text = Path(__file__).read_text()
    assert [name for name in CHECKS if f'["{name}"]' not in text and f'"{name}" in' not in text] == []


def test_histories_of_a_correct_register_are_accepted():
    """Random operations of concurrent clients on one true item, each taking place at a moment within its interval."""
    for seed in range(200):
        chance = random.Random(seed)
        moments = sorted(chance.sample(range(1000), 40))
        story, value = Story(), None
        for number, moment in enumerate(moments):
            invoked, returned = moment * 10 - chance.randrange(200), moment * 10 + chance.randrange(200)
            do = chance.choice(["upsert", "delete", "read", "read"])
            common = {"invoked": invoked, "returned": returned, "lsn": number}
            if do == "read":
                pages = [(returned, [row("a", value)])] if value else []
                story.look("read", invoked=invoked, returned=returned, pages=pages, wanted=[(PK, "a")])
            elif do == "delete":
                outcome = {"status": 204} if value else {"status": 404, "outcome": "failed"}
                story.write("delete", None, **common, **outcome)
                value = None
            else:
                value = str(number)
                story.write("upsert", value, **common)
        assert story.found() == [], seed


def test_histories_are_read_back_as_they_were_written(tmp_path, story):
    story.write("create", "1")
    story.look("natural", [("a", "1")], covers={"below": 5})
    story.feed(("a", "1", 1))
    story.kill()
    lines = [line_of(record) + "\n" for record in story.records]
    (tmp_path / "w.jsonl").write_text("".join(lines) + '{"kind":"wri')
    assert read(tmp_path) == story.records
