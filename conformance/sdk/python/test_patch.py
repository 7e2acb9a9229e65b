"""Partial updates of items."""

import pytest
from azure.core import MatchConditions
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosHttpResponseError,
    CosmosResourceNotFoundError,
)


@pytest.fixture
def item(container):
    return container.create_item({"id": "1", "pk": "p", "n": 1, "tags": ["a", "c"], "old": {"deep": True}})


def test_all_operations_apply_in_order(container, item):
    patched = container.patch_item(
        "1",
        "p",
        [
            {"op": "add", "path": "/tags/1", "value": "b"},
            {"op": "add", "path": "/tags/-", "value": "d"},
            {"op": "set", "path": "/new", "value": {"x": [1.5]}},
            {"op": "replace", "path": "/new/x/0", "value": None},
            {"op": "incr", "path": "/n", "value": -0.5},
            {"op": "move", "from": "/old/deep", "path": "/a~1b"},
            {"op": "remove", "path": "/old"},
        ],
    )
    own = {name: value for name, value in patched.items() if not name.startswith("_")}
    assert own == {"id": "1", "pk": "p", "n": 0.5, "tags": ["a", "b", "c", "d"], "new": {"x": [None]}, "a/b": True}
    assert patched["_rid"] == item["_rid"] and patched["_etag"] != item["_etag"]
    assert container.read_item("1", "p") == patched


def test_a_filter_decides_whether_a_patch_takes_place(container, item):
    incr = [{"op": "incr", "path": "/n", "value": 1}]
    with pytest.raises(CosmosHttpResponseError) as refused:
        container.patch_item("1", "p", incr, filter_predicate="from c where c.n = 2")
    assert (refused.value.status_code, refused.value.sub_status) == (412, 1110)
    assert container.patch_item("1", "p", incr, filter_predicate="from c where c.n = 1")["n"] == 2


def test_a_stale_etag_fails_the_patch(container, item):
    incr = [{"op": "incr", "path": "/n", "value": 1}]
    condition = {"etag": item["_etag"], "match_condition": MatchConditions.IfNotModified}
    container.patch_item("1", "p", incr, **condition)
    with pytest.raises(CosmosAccessConditionFailedError):
        container.patch_item("1", "p", incr, **condition)
    assert container.read_item("1", "p")["n"] == 2


def test_a_failed_patch_changes_nothing(container, item):
    operations = [{"op": "incr", "path": "/n", "value": 1}, {"op": "replace", "path": "/none", "value": 1}]
    with pytest.raises(CosmosHttpResponseError, match=r"For Operation\(2\): Node\(/none\) to be replaced") as refused:
        container.patch_item("1", "p", operations)
    assert refused.value.status_code == 400
    assert container.read_item("1", "p") == item


def test_what_is_missing_cannot_be_patched(container, item):
    with pytest.raises(CosmosResourceNotFoundError):
        container.patch_item("1", "q", [{"op": "set", "path": "/n", "value": 1}])


def test_a_patch_without_response_has_none(container, item):
    assert container.patch_item("1", "p", [{"op": "set", "path": "/n", "value": 5}], no_response=True) == {}
    assert container.read_item("1", "p")["n"] == 5
