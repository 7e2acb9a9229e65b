"""The comparison of an answer with its expectation."""

import pytest

from matching import at, check
from values import Mismatch

ANSWER = {
    "status": 201,
    "substatus": 0,
    "headers": {"etag": '"1"', "x-ms-request-charge": "5.2", "x-ms-session-token": "0:-1#7"},
    "body": {"id": "1", "n": 1, "half": 0.5, "two": 2.0, "tags": ["x", None]},
    "items": [{"id": "1", "_lsn": 3}, {"id": "2", "_lsn": 4}],
    "pages": [0, 2, 0],
    "results": [{"status": 201, "charge": 5}, {"status": 200, "charge": 0.2}],
}


@pytest.mark.parametrize(
    "expect",
    [
        {"status": 201},
        {"body": {"id": "1"}},
        {"body": {"tags": ["x", "${null}"], "gone": "${absent}", "id": "${text}"}},
        {"headers": {"x-ms-request-charge": "${positive}", "etag": "${any}"}},
        {"items": [{"id": "1"}, {"id": "2"}], "count": 2, "pages": [2]},
        {"items_in_any_order": [{"id": "2"}, {"id": "1"}]},
        {"includes": [{"id": "2"}]},
        {"continuation": False},
        {"different": {"headers.etag": '"0"', "body.none": 1}},
        {"headers": {"etag": '~"\\d"'}},
        {"later": {"headers.x-ms-session-token": "0:-1#6"}},
        {"ascending": "_lsn"},
        {"page_max": 2},
        {"body": {"n": "${integer}", "two": 2}},
        {"charges_add_up": True},
        {"continues": {"from": ["0"], "whole": ["0", {"id": "1", "_lsn": 3}, {"id": "2", "_lsn": 4}]}},
    ],
)
def test_what_is_expected_passes(expect):
    check(ANSWER, expect)


@pytest.mark.parametrize(
    "expect, words",
    [
        ({"status": 200}, "status 201, not 200"),
        ({"substatus": 1001}, "sub-status 0, not 1001"),
        ({"body": {"n": 2}}, "body.n is 1, not 2"),
        ({"body": {"n": True}}, "body.n is 1"),
        ({"body": {"tags": ["x"]}}, "body.tags"),
        ({"body": {"gone": "${any}"}}, "body.gone is missing"),
        ({"body": {"id": "${absent}"}}, "body.id"),
        ({"headers": {"lsn": "${positive}"}}, "headers.lsn is missing"),
        ({"items": [{"id": "1"}]}, "2 items, not 1"),
        ({"items": [{"id": "2"}, {"id": "1"}]}, "items.0.id"),
        ({"items_in_any_order": [{"id": "1"}]}, "nobody expects"),
        ({"includes": [{"id": "3"}]}, "no item is like"),
        ({"count": 3}, "count 2, not 3"),
        ({"pages": [1, 1]}, "pages [2], not [1, 1]"),
        ({"continuation": True}, "continuation is missing"),
        ({"message": "sorry"}, "does not say 'sorry'"),
        ({"different": {"body.n": 1}}, "body.n is still 1"),
        ({"results": [{"status": 200}]}, "2 results, not 1"),
        ({"headers": {"etag": '~"\\d'}}, "headers.etag is"),
        ({"body": {"n": "~1"}}, "body.n is 1, not like 1"),
        ({"body": {"two": "${integer}"}}, "body.two is 2.0"),
        ({"later": {"headers.x-ms-session-token": "0:-1#7"}}, "not later than 0:-1#7"),
        ({"ascending": "none"}, "there is no none"),
        ({"page_max": 1}, "none may exceed 1"),
        ({"continues": {"from": [], "whole": ["0"]}}, "is not"),
    ],
)
def test_anything_else_is_told(expect, words):
    with pytest.raises(Mismatch) as mismatch:
        check(ANSWER, expect)
    assert words in str(mismatch.value)


def test_a_refusal_that_nobody_expects_is_a_mismatch_and_so_is_an_sdk_that_gives_up():
    with pytest.raises(Mismatch, match="refused with 500: oh"):
        check({"status": 500, "message": "oh"}, {"count": 0})
    with pytest.raises(Mismatch, match="the SDK raised oh"):
        check({"raised": "oh"}, {"status": 400})


def test_a_position_that_stays_or_falls_does_not_ascend():
    for lsns in ([3, 3], [4, 3]):
        with pytest.raises(Mismatch, match="_lsn does not ascend"):
            check({"items": [{"_lsn": lsn} for lsn in lsns]}, {"ascending": "_lsn"})


def test_the_charge_of_a_batch_that_is_not_the_sum_is_told():
    answer = {"headers": {"x-ms-request-charge": "5"}, "results": [{"charge": 5}, {"charge": 1}]}
    with pytest.raises(Mismatch, match="is not the sum"):
        check(answer, {"charges_add_up": True})


def test_a_path_leads_into_objects_and_lists():
    assert at(ANSWER, "items.1.id") == "2"
    with pytest.raises(Mismatch, match="there is no items.2"):
        at(ANSWER, "items.2")
