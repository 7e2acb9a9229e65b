"""The comparison of an answer with its expectation."""

import pytest

from matching import Mismatch, at, check, resolve

ANSWER = {
    "status": 201,
    "substatus": 0,
    "headers": {"etag": '"1"', "x-ms-request-charge": "5.2"},
    "body": {"id": "1", "n": 1, "tags": ["x", None]},
    "items": [{"id": "1"}, {"id": "2"}],
    "pages": [0, 2, 0],
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
        ({"results": [{"status": 200}]}, "0 results, not 1"),
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


def test_names_are_replaced_and_keep_their_type_where_they_stand_alone():
    bound = {"n": 1, "db": "x"}
    assert resolve({"a": ["${n}", "-${db}-", "${null}"]}, bound) == {"a": [1, "-x-", None]}
    assert resolve("${any}", bound, keep_matchers=True) == "${any}"
    with pytest.raises(Mismatch, match="nothing is bound"):
        resolve("${who}", bound)


def test_a_path_leads_into_objects_and_lists():
    assert at(ANSWER, "items.1.id") == "2"
    with pytest.raises(Mismatch, match="there is no items.2"):
        at(ANSWER, "items.2")
