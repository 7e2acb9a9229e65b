"""Transactional batches."""

import pytest
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError


def test_a_batch_carries_out_every_kind_of_operation(container, answers):
    container.create_item({"id": "old", "pk": "p"})
    results = container.execute_item_batch(
        [
            ("create", ({"id": "1", "pk": "p", "n": 1},)),
            ("upsert", ({"id": "2", "pk": "p"},)),
            ("patch", ("1", [{"op": "incr", "path": "/n", "value": 2}]), {"filter_predicate": "from c where c.n = 1"}),
            ("replace", ("2", {"id": "2", "pk": "p", "new": True})),
            ("read", ("1",)),
            ("delete", ("old",)),
        ],
        partition_key="p",
    )
    assert [r["statusCode"] for r in results] == [201, 201, 200, 200, 200, 204]
    assert results[4]["resourceBody"]["n"] == 3
    assert results[4]["eTag"] == results[2]["eTag"] == results[4]["resourceBody"]["_etag"]
    charge = float(answers()[-1].headers["x-ms-request-charge"])
    assert charge == pytest.approx(sum(r["requestCharge"] for r in results))
    assert container.read_item("2", "p")["new"] is True
    assert sorted(i["id"] for i in container.read_all_items()) == ["1", "2"]


def test_a_failed_batch_leaves_nothing_and_names_the_operation(container):
    container.create_item({"id": "taken", "pk": "p"})
    with pytest.raises(CosmosBatchOperationError) as refused:
        container.execute_item_batch(
            [
                ("create", ({"id": "1", "pk": "p"},)),
                ("delete", ("taken",)),
                ("replace", ("1", {"id": "1", "pk": "p"}), {"if_match_etag": '"stale"'}),
                ("read", ("1",)),
            ],
            partition_key="p",
        )
    assert (refused.value.status_code, refused.value.error_index) == (412, 2)
    assert [r["statusCode"] for r in refused.value.operation_responses] == [424, 424, 412, 424]
    assert [i["id"] for i in container.read_all_items()] == ["taken"]


def test_an_item_of_another_partition_key_fails_the_batch(container):
    with pytest.raises(CosmosBatchOperationError) as refused:
        operations = [("create", ({"id": "1", "pk": "p"},)), ("create", ({"id": "2", "pk": "q"},))]
        container.execute_item_batch(operations, partition_key="p")
    assert (refused.value.status_code, refused.value.error_index) == (400, 1)
    assert list(container.read_all_items()) == []


def test_a_batch_has_one_to_a_hundred_operations(container):
    creates = [("create", ({"id": str(n), "pk": "p"},)) for n in range(101)]
    for operations, told in (([], "no operations"), (creates, "more operations than what is supported")):
        with pytest.raises(CosmosHttpResponseError, match=told) as refused:
            container.execute_item_batch(operations, partition_key="p")
        assert refused.value.status_code == 400
    assert len(container.execute_item_batch(creates[:100], partition_key="p")) == 100
