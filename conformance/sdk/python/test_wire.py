"""The rules of every answer. This file runs last and checks the answers of all tests before it."""

import base64

import pytest
from azure.cosmos.exceptions import CosmosHttpResponseError

import rules


@pytest.fixture
def judged(client, container):
    """Returns all answers of the run, after requests that add at least one of each common kind."""
    container.create_item({"id": "1", "pk": "p"})
    container.read_item("1", "p")
    container.upsert_item({"id": "1", "pk": "p", "n": 1})
    list(container.query_items("SELECT * FROM c", partition_key="p"))
    list(container.query_items_change_feed(start_time="Beginning"))
    container.read()
    container.get_throughput()
    with pytest.raises(CosmosHttpResponseError):
        container.read_item("nobody", "p")
    with pytest.raises(CosmosHttpResponseError):
        list(container.query_items("SELECT * FORM c", partition_key="p"))
    container.delete_item("1", "p")
    return client.witness.answers


def offenders(answers, breaks):
    return sorted({str(answer) for answer in answers if breaks(answer)})[:20]


def test_every_answer_carries_its_request_charge(judged):
    assert offenders(judged, rules.has_no_charge) == []


def test_every_answer_about_a_resource_costs_something(judged):
    assert offenders(judged, rules.is_free) == []


def test_every_answer_carries_an_activity_id(judged):
    assert offenders(judged, rules.has_no_activity_id) == []


def test_no_header_of_any_answer_is_empty(judged):
    assert offenders(judged, rules.has_an_empty_header) == []


def test_answers_without_content_have_no_body(judged):
    assert offenders(judged, rules.has_a_body_without_content) == []


def test_every_feed_says_how_many_items_it_holds(judged):
    assert any(rules.is_a_feed(answer) for answer in judged)
    assert offenders(judged, rules.is_a_feed_without_count) == []


def test_every_error_is_a_json_object_with_a_code_and_a_message(judged):
    assert any(rules.is_an_error(answer) for answer in judged)
    assert offenders(judged, rules.is_a_malformed_error) == []


def test_every_sub_status_is_a_number_and_stands_on_an_error(judged):
    assert offenders(judged, rules.has_a_wrong_sub_status) == []


def test_no_test_was_answered_with_a_fault_of_the_server(judged):
    assert offenders(judged, rules.is_a_fault_of_the_server) == []


def test_the_resource_id_of_an_item_begins_with_those_of_its_owners(database, container):
    def decoded(rid):
        return base64.b64decode(rid.replace("-", "/"))

    item = container.create_item({"id": "1", "pk": "p"})
    database_rid, container_rid = decoded(database.read()["_rid"]), decoded(container.read()["_rid"])
    item_rid = decoded(item["_rid"])
    assert (len(database_rid), len(container_rid), len(item_rid)) == (4, 8, 16)
    assert container_rid.startswith(database_rid) and item_rid.startswith(container_rid)
