"""The comparison of rows."""

import pytest

from cases import ADDED_ID, ADDED_KEY
from comparing import Comparison, without_additions

EXACT = Comparison(1e-9, arrays_as_sets=False)
LOOSE = Comparison(0.2, arrays_as_sets=True)


@pytest.mark.parametrize(
    "left, right",
    [(1, True), (0, False), (None, False), ("1", 1), ([], {}), ({"a": 1}, {"a": 1, "b": None}), ([1, 2], [2, 1])],
)
def test_different_values_differ(left, right):
    assert not EXACT.values(left, right)


@pytest.mark.parametrize("left, right", [(1, 1.0), (10**400, 10**400), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_equal_values_are_equal(left, right):
    assert EXACT.values(left, right)


def test_rows_without_an_order_are_a_bag_and_not_a_set():
    assert EXACT.bags([1, 2, 2], [2, 1, 2])
    assert not EXACT.bags([1, 1, 2], [2, 1, 2])


def test_an_exact_partner_is_not_given_away_to_a_near_value():
    assert LOOSE.bags([1.0, 1.1], [1.1, 1.0])
    assert LOOSE.bags([1.2, 1.0], [1.0, 1.3])


def test_arrays_are_bags_where_a_case_says_so():
    assert LOOSE.values({"a": ["x", "y"]}, {"a": ["y", "x"]})


def test_what_was_added_is_taken_away_at_every_depth():
    row = {"id": f"{ADDED_ID}3", ADDED_KEY: "p0", "_ts": 1, "in": [{"_rid": "x", "id": "mine", "a": 1}]}
    assert without_additions(row) == {"in": [{"id": "mine", "a": 1}]}
    assert without_additions(row, kept={"_ts"}) == {"_ts": 1, "in": [{"id": "mine", "a": 1}]}
