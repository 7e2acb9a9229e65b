"""The values of a step: names, and values that are made."""

import pytest

from values import Mismatch, position, resolve


def test_names_are_replaced_and_keep_their_type_where_they_stand_alone():
    bound = {"n": 1, "db": "x"}
    assert resolve({"a": ["${n}", "-${db}-", "${null}"]}, bound) == {"a": [1, "-x-", None]}
    assert resolve("${any}", bound, keep=frozenset({"${any}"})) == "${any}"
    with pytest.raises(Mismatch, match="nothing is bound"):
        resolve("${who}", bound)


def test_a_name_in_a_pattern_stands_for_itself():
    assert resolve("~.*${rid}/", {"rid": "a+b="}, keep=frozenset({"${any}"})) == r"~.*a\+b=/"


def test_a_value_is_repeated_with_its_number():
    made = resolve({"items": {"repeat": 2, "of": {"id": "${nn}", "pk": "k${n}", "n": "${n}"}}}, {})
    assert made == {"items": [{"id": "00", "pk": "k0", "n": 0}, {"id": "01", "pk": "k1", "n": 1}]}


def test_a_text_has_as_many_characters_as_asked_for():
    assert resolve({"text": {"characters": 3}}, {}) == {"text": "xxx"}
    assert resolve({"characters": 2, "of": "ü"}, {}) == "üü"


def test_a_token_that_is_ahead_differs_in_its_position_only():
    assert resolve({"ahead_of": "${token}"}, {"token": "3:-1#5#2=7"}) == "3:-1#1000005#2=7"
    assert position("3:-1#5#2=7") == position("0:5") == 5
    with pytest.raises(Mismatch, match="not the session token of one partition"):
        position("0:1,1:2")
