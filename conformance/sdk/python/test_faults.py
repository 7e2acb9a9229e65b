"""The SDK with faults on demand: it retries, and its user sees the final result."""

import pytest
from azure.core.exceptions import AzureError
from azure.cosmos.exceptions import CosmosHttpResponseError

from management import Management


@pytest.fixture
def management(endpoints):
    if endpoints.admin is None:
        pytest.fail("this suite needs the management API: run it against a server of its own")
    management = Management(endpoints.admin, endpoints.admin_key)
    yield management
    management.call("DELETE", "/faults")


@pytest.fixture
def fault(management, database, container):
    """Creates a fault rule for the container of this test only."""
    return lambda **rule: management.fault(database=database.id, container=container.id, **rule)


def test_a_throttled_read_is_retried_after_the_time_that_is_said(container, fault, management, answers):
    container.create_item({"id": "a", "pk": "p"})
    rule = fault(operations=["read_item"], status=429, retryAfterMilliseconds=5, count=3)
    assert container.read_item("a", "p")["id"] == "a"
    assert management.struck(rule) == 3
    assert [answer.status for answer in answers()][-4:] == [429, 429, 429, 200]


def test_a_throttled_write_is_retried_and_done_once(container, fault, management):
    rule = fault(operations=["create_item"], status=429, retryAfterMilliseconds=5, count=2)
    container.create_item({"id": "a", "pk": "p"})
    assert management.struck(rule) == 2
    assert [item["id"] for item in container.read_all_items()] == ["a"]


def test_a_client_that_is_throttled_for_ever_gives_up_with_429(container, fault, management):
    container.create_item({"id": "a", "pk": "p"})
    rule = fault(operations=["read_item"], status=429, retryAfterMilliseconds=1)
    with pytest.raises(CosmosHttpResponseError) as raised:
        container.read_item("a", "p")
    assert (raised.value.status_code, raised.value.sub_status) == (429, 3200)
    assert management.struck(rule) == 10  # the first attempt and the SDK's nine retries


def test_a_range_that_is_gone_makes_the_client_look_again(container, fault, management, answers):
    container.create_item({"id": "a", "pk": "p"})
    rule = fault(operations=["query_items"], status=410, subStatus=1002, count=1)
    found = list(container.query_items("SELECT * FROM c", enable_cross_partition_query=True))
    assert [item["id"] for item in found] == ["a"]
    assert management.struck(rule) == 1
    assert any(answer.status == 410 for answer in answers())


def test_an_unavailable_server_is_asked_again_for_a_read(container, fault, management):
    container.create_item({"id": "a", "pk": "p"})
    rule = fault(operations=["read_item"], status=503, count=1)
    assert container.read_item("a", "p")["id"] == "a"
    assert management.struck(rule) == 1


def test_a_lost_answer_to_a_create_is_a_conflict_for_who_tries_again(container, fault, management):
    fault(operations=["create_item"], status=449, when="after", count=1)
    for status in (449, 409):
        with pytest.raises(CosmosHttpResponseError) as raised:
            container.create_item({"id": "a", "pk": "p"})
        assert raised.value.status_code == status
    assert container.read_item("a", "p")["id"] == "a"


def test_a_read_whose_answer_is_lost_is_tried_again(container, fault, management):
    container.create_item({"id": "a", "pk": "p"})
    rule = fault(operations=["read_item"], when="after", answer="none", count=1)
    assert container.read_item("a", "p")["id"] == "a"
    assert management.struck(rule) == 1


@pytest.mark.parametrize("when, is_done", [("before", False), ("after", True)])
def test_a_write_without_an_answer_leaves_its_user_to_look(container, fault, management, when, is_done):
    rule = fault(operations=["create_item"], when=when, answer="none", count=1)
    with pytest.raises(AzureError) as raised:
        container.create_item({"id": "a", "pk": "p"})
    assert not isinstance(raised.value, CosmosHttpResponseError)
    assert management.struck(rule) == 1
    assert [item["id"] for item in container.read_all_items()] == (["a"] if is_done else [])
