"""The comparison of two runs of the .NET program with the list of their differences."""

import pytest
from comparison import BadList, Difference, differences, read, surprises
from run import DIFFERENCES


def _step(name: str, charge: float = 1, ok: bool = True, status: int = 200) -> dict:
    return {
        "FullName": name,
        "Ok": ok,
        "Skipped": False,
        "Status": status,
        "SubStatus": 0,
        "Charge": charge,
    }


def _list(tmp_path, text: str):
    file = tmp_path / "differences.toml"
    file.write_text(text)
    return read(file)


def test_equal_steps_and_charges_that_follow_the_number_of_databases_are_no_difference():
    assert differences([_step("items/read", 2.77)], [_step("items/read", 2.78)]) == {}


def test_a_step_differs_in_its_result_or_else_in_status_and_charge():
    left = [_step("items/read"), _step("items/create"), _step("items/patch")]
    right = [_step("items/read", ok=False, status=404), _step("items/create", charge=5, status=201)]
    assert differences(left, right) == {
        Difference("items/read", "result"): "passed | failed",
        Difference("items/create", "status"): "200/0 | 201/0",
        Difference("items/create", "charge"): "1 RU | 5 RU",
        Difference("items/patch", "result"): "passed | not run",
    }


def test_a_difference_that_is_not_listed_is_a_surprise():
    found = {Difference("items/read", "status"): "200/0 | 404/0"}
    expected = ["items/read: another status: 200/0 | 404/0"]
    assert surprises(found, {}, {"items/read"}, whole=True) == expected
    assert (
        surprises(found, {Difference("items/read", "status"): False}, {"items/read"}, whole=True)
        == []
    )


def test_a_listed_difference_that_does_not_occur_is_a_surprise_unless_it_comes_by_chance():
    listed = Difference("items/read", "charge")
    expected = ["items/read has no other charge now: take it off the list"]
    assert surprises({}, {listed: False}, {"items/read"}, whole=True) == expected
    assert surprises({}, {listed: True}, {"items/read"}, whole=True) == []


def test_a_listed_step_that_did_not_run_is_a_surprise_in_a_whole_run():
    listed = {Difference("items/read", "charge"): True}
    assert surprises({}, listed, set(), whole=False) == []
    assert len(surprises({}, listed, set(), whole=True)) == 1


def test_a_list_without_reason_or_with_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(BadList):
        _list(tmp_path, '[[difference]]\nof = ["charge"]\nreason = ""\nsteps = ["items/read"]\n')
    with pytest.raises(BadList):
        _list(tmp_path, '[[difference]]\nof = ["speed"]\nreason = "why"\nsteps = ["items/read"]\n')


def test_the_list_of_the_suite_is_valid():
    assert read(DIFFERENCES)
