"""The comparison of a run with the lists of an SDK."""

import pytest

from expectations import BadList, Result
from lists import Lists

LISTS = Lists("""
[[missing]]
reason = "no scripts"
asked = ["create_trigger"]

[[not_passing]]
outcome = "failed"
reason = "needs rain"
tests = ["a.toml::wet"]

[[unreached]]
reason = "local"
methods = ["Client.id", "Users.*"]
""")

DRY, WET = Result("a.toml::dry", "passed"), Result("a.toml::wet", "failed", "sun")


def surprises(*results, asked=("create_trigger",), whole=True):
    return LISTS.surprises(list(results), set(asked), whole=whole)


def test_what_is_listed_is_no_surprise():
    assert surprises(DRY, WET, Result("a.toml::scripts", "skipped")) == []


def test_a_failure_a_pass_and_a_gap_that_are_not_listed_are_surprises():
    assert surprises(Result("a.toml::dry", "failed", "rain"), WET) == ["a.toml::dry failed: rain"]
    assert "passes now" in surprises(DRY, Result("a.toml::wet", "passed"))[0]
    assert surprises(DRY, WET, asked=["create_trigger", "bulk"]) == ["the SDK has no `bulk`, which is not listed"]


def test_a_gap_that_is_none_any_more_is_a_surprise_unless_only_a_part_ran():
    assert "`create_trigger` is listed as missing" in surprises(DRY, WET, asked=[])[0]
    assert surprises(DRY, asked=[], whole=False) == []


def test_every_public_method_is_reached_or_listed():
    methods = {"Client.id", "Client.read", "Users.create", "Users.delete"}
    assert LISTS.surprises_of_methods(methods, {"Client.read"}) == []
    assert LISTS.surprises_of_methods(methods, {"Client.id", "Client.read"}) == [
        "Client.id is listed as unreached, but it is reached or not there"
    ]
    assert "no scenario leads to Client.read" in LISTS.surprises_of_methods(methods, set())
    assert "no such method" in LISTS.surprises_of_methods(methods, {"Client.read", "Client.fly"})[0]


@pytest.mark.parametrize("text", ['[[missing]]\nasked = ["a"]', '[[missng]]\nreason = "r"', "[[unreached]]\nreason = 'r'\nasked = []"])
def test_a_list_that_says_too_little_or_too_much_is_refused(text):
    with pytest.raises(BadList):
        Lists(text)
