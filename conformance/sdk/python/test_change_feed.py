"""The change feed where the table of scenarios cannot say it: starts by the server's clock, and ranges within ranges."""

import time
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime


def changes(container, **options):
    return list(container.query_items_change_feed(**options))


def clock_passes(container, id, second, answers):
    """Reads until the server's clock is past `second`, because a start time has whole seconds."""
    give_up = time.monotonic() + 20
    while True:
        container.read_item(id, "p")
        if parsedate_to_datetime(answers()[-1].headers["date"]).timestamp() > second:
            return
        assert time.monotonic() < give_up, "the server's clock stands still"


def test_from_a_time_only_later_changes_are_seen(container, answers):
    first = container.create_item({"id": "1", "pk": "p"})
    clock_passes(container, "1", first["_ts"], answers)
    second = container.create_item({"id": "2", "pk": "p"})
    assert second["_ts"] > first["_ts"]
    start = datetime.fromtimestamp(first["_ts"], timezone.utc)
    assert [i["id"] for i in changes(container, start_time=start)] == ["2"]


def test_the_feed_range_of_a_partition_key_lies_in_one_of_the_ranges(wide_container):
    narrow = wide_container.feed_range_from_partition_key("k")
    within = [wide_container.is_feed_range_subset(range, narrow) for range in wide_container.read_feed_ranges()]
    assert sorted(within) == [False, True]
