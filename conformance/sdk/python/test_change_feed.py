"""The change feed: from the beginning, from now, from a time; per container, per key, per range."""

import time
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError


def changes(container, **options):
    return list(container.query_items_change_feed(**options))


def changes_and_token(container, **options):
    """Returns the changes and the continuation, which the SDK keeps in the etag of the last response."""
    found = changes(container, **options)
    return found, container.client_connection.last_response_headers["etag"]


def fill(container, ids, pk="p"):
    for id in ids:
        container.create_item({"id": id, "pk": pk})


def test_from_the_beginning_every_item_comes_in_the_order_of_its_last_change(container):
    fill(container, ["1", "2", "3"])
    container.upsert_item({"id": "1", "pk": "p", "again": True})
    found = changes(container, start_time="Beginning")
    assert [i["id"] for i in found] == ["2", "3", "1"]
    assert found[-1]["again"] is True
    assert [i["_lsn"] for i in found] == sorted({i["_lsn"] for i in found})


def test_deleted_items_leave_the_feed(container):
    fill(container, ["1", "2", "3"])
    container.delete_item("2", "p")
    assert [i["id"] for i in changes(container, start_time="Beginning")] == ["1", "3"]


def test_the_feed_is_read_in_pages_that_lose_nothing(container):
    ids = [f"{n:02}" for n in range(11)]
    fill(container, ids)
    pages = [
        [i["id"] for i in page]
        for page in container.query_items_change_feed(start_time="Beginning", max_item_count=4).by_page()
    ]
    assert all(len(page) <= 4 for page in pages)
    assert [id for page in pages for id in page] == ids


def test_a_continuation_brings_only_what_came_after(container):
    fill(container, ["1", "2"])
    found, token = changes_and_token(container, start_time="Beginning")
    assert [i["id"] for i in found] == ["1", "2"]
    fill(container, ["3"])
    found, token = changes_and_token(container, continuation=token)
    assert [i["id"] for i in found] == ["3"]
    found, token = changes_and_token(container, continuation=token)
    assert found == []
    container.upsert_item({"id": "1", "pk": "p", "n": 2})
    found, _ = changes_and_token(container, continuation=token)
    assert [i["id"] for i in found] == ["1"]


def test_from_now_nothing_old_is_seen(container):
    fill(container, ["old"])
    found, token = changes_and_token(container, start_time="Now")
    assert found == []
    fill(container, ["new"])
    assert [i["id"] for i in changes(container, continuation=token)] == ["new"]


def test_a_poll_without_news_says_not_modified_and_where_to_go_on(container, answers):
    fill(container, ["1"])
    _, token = changes_and_token(container, start_time="Beginning")
    mark = len(answers())
    assert changes(container, continuation=token) == []
    polls = [a for a in answers()[mark:] if a.method == "GET" and a.path.rstrip("/").endswith("/docs")]
    assert polls and all(a.status == 304 for a in polls)
    for answer in polls:
        assert answer.headers["etag"] and answer.headers["x-ms-item-count"] == "0"
        assert answer.body_bytes == 0


def test_the_feed_of_an_empty_container_is_empty_and_can_be_continued(container):
    found, token = changes_and_token(container, start_time="Beginning")
    assert found == []
    fill(container, ["1"])
    assert [i["id"] for i in changes(container, continuation=token)] == ["1"]


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


def test_a_time_long_ago_sees_all_and_a_time_to_come_sees_nothing(container):
    fill(container, ["1", "2"])
    now = datetime.now(timezone.utc)
    assert [i["id"] for i in changes(container, start_time=now - timedelta(days=1))] == ["1", "2"]
    assert changes(container, start_time=now + timedelta(days=1)) == []


@pytest.mark.parametrize("which", ["container", "wide_container"])
def test_a_partition_key_sees_only_its_own_changes(which, scheme, request):
    target = request.getfixturevalue(which)
    for n in range(12):
        target.create_item({"id": f"{n:02}", "pk": f"k{n % 4}"})
    found, token = changes_and_token(target, partition_key="k1", start_time="Beginning")
    assert [i["id"] for i in found] == ["01", "05", "09"]
    target.create_item({"id": "12", "pk": "k0"})
    target.create_item({"id": "13", "pk": "k1"})
    assert [i["id"] for i in changes(target, continuation=token)] == ["13"]


def test_feed_ranges_divide_the_changes_among_them(wide_container):
    ids = [f"{n:02}" for n in range(30)]
    for id in ids:
        wide_container.create_item({"id": id, "pk": id})
    ranges = list(wide_container.read_feed_ranges())
    assert len(ranges) == 2
    read = [changes_and_token(wide_container, feed_range=range, start_time="Beginning") for range in ranges]
    assert all(found for found, _ in read)
    assert sorted(i["id"] for found, _ in read for i in found) == ids

    wide_container.create_item({"id": "new", "pk": "somewhere"})
    news = [changes(wide_container, continuation=token) for _, token in read]
    assert sorted(len(found) for found in news) == [0, 1]


def test_the_whole_container_is_read_over_all_its_partitions(wide_container):
    ids = [f"{n:02}" for n in range(30)]
    for id in ids:
        wide_container.create_item({"id": id, "pk": id})
    found, token = changes_and_token(wide_container, start_time="Beginning")
    assert sorted(i["id"] for i in found) == ids
    wide_container.upsert_item({"id": "07", "pk": "07", "n": 1})
    assert [i["id"] for i in changes(wide_container, continuation=token)] == ["07"]


def test_the_feed_range_of_a_partition_key_lies_in_one_of_the_ranges(wide_container):
    narrow = wide_container.feed_range_from_partition_key("k")
    within = [wide_container.is_feed_range_subset(range, narrow) for range in wide_container.read_feed_ranges()]
    assert sorted(within) == [False, True]
    wide_container.create_item({"id": "1", "pk": "k"})
    wide_container.create_item({"id": "1", "pk": "other"})
    assert [i["pk"] for i in changes(wide_container, feed_range=narrow, start_time="Beginning")] == ["k"]


def test_items_written_by_one_procedure_share_their_position(container):
    body = """function () {
        var items = getContext().getCollection();
        for (var n = 0; n < 5; n++) items.createDocument(items.getSelfLink(), { id: String(n), pk: "p" });
    }"""
    container.scripts.create_stored_procedure({"id": "fill", "body": body})
    container.scripts.execute_stored_procedure("fill", partition_key="p")
    found = changes(container, start_time="Beginning", max_item_count=2)
    assert [i["id"] for i in found] == ["0", "1", "2", "3", "4"]
    assert len({i["_lsn"] for i in found}) == 1


@pytest.fixture
def versioned(database):
    """A container that keeps every version of its items for ten minutes."""
    policy = {"retentionDuration": 10}
    return database.create_container("versioned", PartitionKey(path="/pk"), change_feed_policy=policy, default_ttl=-1)


ALL_VERSIONS = {"mode": "AllVersionsAndDeletes"}


def test_all_versions_and_deletions_come_in_their_order(versioned):
    found, token = changes_and_token(versioned, **ALL_VERSIONS)
    assert found == []
    created = versioned.create_item({"id": "1", "pk": "p", "n": 1})
    replaced = versioned.upsert_item({"id": "1", "pk": "p", "n": 2})
    versioned.delete_item("1", "p")
    found, token = changes_and_token(versioned, continuation=token, **ALL_VERSIONS)
    assert [c["metadata"]["operationType"] for c in found] == ["create", "replace", "delete"]
    assert [c["current"] for c in found] == [created, replaced, {}]
    assert found[-1]["previous"] == replaced
    assert found[-1]["metadata"]["partitionKey"] == {"pk": "p"}
    lsns = [c["metadata"]["lsn"] for c in found]
    assert lsns == sorted(set(lsns))
    assert [c["metadata"]["previousImageLSN"] for c in found] == [0, *lsns[:2]]
    assert changes(versioned, continuation=token, **ALL_VERSIONS) == []


def test_all_versions_must_be_asked_for_with_the_container(container):
    with pytest.raises(CosmosHttpResponseError) as refused:
        changes(container, **ALL_VERSIONS)
    assert refused.value.status_code == 400
    assert "All Versions and Deletes" in refused.value.message
    assert "must be enabled" in refused.value.message


def test_a_deleted_partition_key_leaves_the_feed_and_frees_its_ids(container):
    fill(container, ["1", "2"], pk="gone")
    fill(container, ["1"], pk="kept")
    container.delete_all_items_by_partition_key("gone")
    assert [i["pk"] for i in changes(container, start_time="Beginning")] == ["kept"]
    assert [i["pk"] for i in container.read_all_items()] == ["kept"]
    fill(container, ["1"], pk="gone")
    assert container.read_item("1", "gone")["id"] == "1"
