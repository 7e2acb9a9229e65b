"""The comparison of a run with its list."""

import pytest

from expectations import BadList, Expectations, Result

LIST = """
[[not_passing]]
outcome = "failed"
reason = "needs rain"
tests = ["test_a.py::wet"]

[[not_passing]]
outcome = "by chance"
reason = "it throws a coin"
tests = ["test_b.py::coin"]
"""


def surprises(*results, whole_files=None):
    return Expectations.parse(LIST).surprises(list(results), whole_files)


def test_a_pass_and_a_listed_failure_are_no_surprise():
    assert surprises(Result("test_a.py::dry", "passed"), Result("test_a.py::wet", "failed", "no rain")) == []


def test_a_failure_that_is_not_listed_is_a_surprise_with_its_cause():
    assert surprises(Result("test_a.py::dry", "failed", "rain")) == ["test_a.py::dry failed: rain"]


def test_a_skip_that_is_not_listed_is_a_surprise():
    assert surprises(Result("test_a.py::dry", "skipped", "no sun")) == ["test_a.py::dry skipped: no sun"]


def test_a_listed_test_that_passes_is_a_surprise():
    assert surprises(Result("test_a.py::wet", "passed")) == [
        "test_a.py::wet passes now: take it off the list (needs rain)"
    ]


def test_a_listed_failure_that_turned_into_a_skip_is_a_surprise():
    (surprise,) = surprises(Result("test_a.py::wet", "skipped", "no rain"))
    assert "listed as failed" in surprise


@pytest.mark.parametrize("end", ["passed", "failed"])
def test_a_test_that_ends_by_chance_is_no_surprise_either_way(end):
    assert surprises(Result("test_b.py::coin", end)) == []


def test_a_test_that_ends_by_chance_must_end():
    (surprise,) = surprises(Result("test_b.py::coin", "skipped", "no coin"))
    assert "listed as by chance" in surprise


def test_a_listed_test_may_be_missing_only_where_part_of_its_file_ran():
    assert surprises(whole_files=set()) == []
    (surprise,) = surprises(whole_files={"test_a.py"})
    assert "there is no such test" in surprise


@pytest.mark.parametrize(
    "text",
    [
        '[[not_passing]]\noutcome = "failed"\ntests = ["a"]',
        '[[not_passing]]\noutcome = "tired"\nreason = "r"\ntests = ["a"]',
        '[[not_passing]]\noutcome = "failed"\nreason = "r"\ntests = ["a", "a"]',
    ],
    ids=["no reason", "unknown outcome", "listed twice"],
)
def test_a_list_that_says_too_little_or_too_much_is_refused(text):
    with pytest.raises(BadList):
        Expectations.parse(text)
