"""Properties of every answer. This file runs last and checks the answers of all tests before it."""

import json
import re

import pytest
from azure.cosmos.exceptions import CosmosHttpResponseError

PLAIN_DECIMAL = re.compile(r"\d+(\.\d+)?")


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


def offenders(answers, wrong):
    return sorted({str(answer) for answer in answers if wrong(answer)})[:20]


def test_every_answer_carries_its_request_charge(judged):
    assert offenders(judged, lambda a: not PLAIN_DECIMAL.fullmatch(a.charge)) == []


def test_every_answer_about_a_resource_costs_something(judged):
    # The account document is free, and so is a request that was refused before its operation was known.
    about_resources = [a for a in judged if a.path.strip("/") and a.status != 401]
    assert offenders(about_resources, lambda a: float(a.charge or 0) <= 0) == []


def test_every_answer_carries_an_activity_id(judged):
    assert offenders(judged, lambda a: not a.headers.get("x-ms-activity-id")) == []


def test_no_header_of_any_answer_is_empty(judged):
    assert offenders(judged, lambda a: any(value == "" for value in a.headers.values())) == []


def test_answers_without_content_have_no_body(judged):
    assert offenders([a for a in judged if a.status in (204, 304)], lambda a: a.body_bytes) == []


def test_every_feed_says_how_many_items_it_holds(judged):
    # The path of a feed ends with the name of the feed, the path of a single resource with its id.
    feeds = ("dbs", "colls", "docs", "sprocs", "triggers", "udfs", "pkranges", "offers")
    listed = [
        a for a in judged
        if a.method == "GET" and a.status in (200, 304) and len(parts := a.path.strip("/").split("/")) % 2 and parts[-1] in feeds
    ]
    assert listed
    assert offenders(listed, lambda a: not a.headers.get("x-ms-item-count", "").isdigit()) == []


def test_every_error_is_a_json_object_with_a_code_and_a_message(judged):
    def malformed(answer):
        try:
            error = json.loads(answer.error_text)
        except ValueError:
            return True
        return not (isinstance(error, dict) and error.get("code") and error.get("message"))

    errors = [a for a in judged if a.status >= 400 and a.method != "HEAD"]
    assert errors
    assert offenders(errors, malformed) == []


def test_every_sub_status_is_a_number_and_stands_on_an_error(judged):
    marked = [a for a in judged if "x-ms-substatus" in a.headers]
    assert offenders(marked, lambda a: a.status < 400 or not a.headers["x-ms-substatus"].isdigit()) == []


def test_no_test_was_answered_with_a_fault_of_the_server(judged):
    its_own = [a for a in judged if "The fault rule" not in a.error_text]
    assert offenders(its_own, lambda a: a.status >= 500) == []
