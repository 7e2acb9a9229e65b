"""The next action depends on the number of physical partitions, and merges combine siblings."""

import random

import pytest

from actions import FEW, MANY, Actions, are_siblings


def partitions(*borders: int) -> list[dict]:
    """Returns partitions between these borders, in sixteenths of the hash space."""
    hexes = ["", *(f"{border << 122:032X}" for border in borders), "FF"]
    return [{"id": str(n), "minInclusive": hexes[n], "maxExclusive": hexes[n + 1]} for n in range(len(hexes) - 1)]


def even(count: int) -> list[dict]:
    return partitions(*(n * 16 // count for n in range(1, count)))


def chosen(plan: str, among: list[dict]) -> list[tuple[str, list[str]]]:
    return [Actions(plan, None, random.Random(seed)).choose(among) for seed in range(50)]


@pytest.mark.parametrize("plan", ["splits", "merges", "mixed"])
def test_one_partition_is_split_and_many_are_merged(plan):
    assert {do for do, _ in chosen(plan, even(1))} == {"split"}
    assert MANY < 8 and {do for do, _ in chosen(plan, even(8))} == {"merge"}


def test_between_them_the_plan_decides():
    assert FEW <= 4 <= MANY
    assert {do for do, _ in chosen("splits", even(4))} == {"split"}
    assert {do for do, _ in chosen("merges", even(4))} == {"merge"}
    assert {do for do, _ in chosen("mixed", even(4))} == {"split", "merge"}


def test_merges_take_siblings():
    assert {tuple(pair) for _, pair in chosen("merges", even(4))} == {("0", "1"), ("2", "3")}
    half, quarter, last = partitions(8, 12)
    assert not are_siblings(half, quarter) and are_siblings(quarter, last)
    assert {tuple(pair) for _, pair in chosen("merges", partitions(8, 12))} == {("1", "2")}
    assert {do for do, _ in chosen("merges", partitions(4))} == {"split"}
