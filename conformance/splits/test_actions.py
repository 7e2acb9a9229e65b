"""What is done next follows from how many physical partitions there are, and merges take neighbours."""

import random

import pytest

from actions import FEW, MANY, Actions


def chosen(plan: str, count: int) -> list[tuple[str, list[str]]]:
    partitions = [str(n) for n in range(count)]
    return [Actions(plan, None, random.Random(seed)).choose(partitions) for seed in range(50)]


@pytest.mark.parametrize("plan", ["splits", "merges", "mixed"])
def test_one_partition_is_split_and_many_are_merged(plan):
    assert {do for do, _ in chosen(plan, FEW - 1)} == {"split"}
    assert {do for do, _ in chosen(plan, MANY + 1)} == {"merge"}


def test_between_them_the_plan_decides():
    assert {do for do, _ in chosen("splits", FEW)} == {"split"}
    assert {do for do, _ in chosen("merges", MANY)} == {"merge"}
    assert {do for do, _ in chosen("mixed", FEW)} == {"split", "merge"}


def test_merges_take_neighbours():
    for _, (first, second) in chosen("merges", MANY):
        assert int(second) == int(first) + 1
