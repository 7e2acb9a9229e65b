"""The comparison of answers in gateway mode with those in direct mode."""

from expectations import Result
from lists import Lists
from modes import differences

_BOUND, _OTHERS = ({"database": f"db-{n}", "unique": f"u{n}"} for n in (1, 2))


def _answer(status: int = 200, charge: str = "1", **parts) -> dict:
    return {"status": status, "headers": {"x-ms-request-charge": charge}, **parts}


def test_what_the_server_makes_anew_is_no_difference():
    left = _answer(
        body={"id": "db-1", "_rid": "a", "_ts": 1},
        message='{"Errors":["No database \'db-1\'."]} ActivityId: 1',
    )
    right = _answer(
        charge="1.0",
        body={"id": "db-2", "_rid": "b", "_ts": 2},
        message="[\"No database 'db-2'.\"]",
    )
    assert differences([left], [right], _BOUND, _OTHERS) == []


def test_status_body_and_charge_are_compared():
    left, right = _answer(body={"n": 1}), _answer(201, "2.00", body={"n": 2})
    found = differences([left], [right], _BOUND, _OTHERS)
    assert found == [
        "answer 1: status 200 | 201",
        'answer 1: body {"n": 1} | {"n": 2}',
        "answer 1: charge 1.0 | 2.0",
    ]


def test_a_missing_answer_is_a_difference():
    assert differences([_answer(), _answer()], [_answer()], _BOUND, _OTHERS) == ["2 | 1 answers"]


_LIST = """
[[differing]]
reason = "why"
scenarios = ["items.toml::one"]

[[differing]]
reason = "why"
scenarios = ["items.toml::two"]
by_chance = true
"""


def test_listed_scenarios_differ_and_no_others():
    lists = Lists(_LIST)
    every = {"items.toml::one", "items.toml::two", "items.toml::three"}
    assert lists.surprises_of_modes({"items.toml::one": ["answer 1"]}, every) == []
    assert lists.surprises_of_modes({}, every) == [
        "items.toml::one has the same answers in both modes: take it off the list"
    ]
    assert lists.surprises_of_modes({}, set()) == []
    found = lists.surprises_of_modes(
        {"items.toml::one": [], "items.toml::three": ["answer 2"]}, every
    )
    assert found == ["items.toml::three has other answers in direct mode: answer 2"]


def test_a_scenario_may_fail_in_one_mode_only():
    lists = Lists(
        '[[not_passing]]\noutcome = "failed"\nmode = "direct"\nreason = "why"\n'
        'tests = ["items.toml::one"]\n'
    )
    failed = [Result("items.toml::one", "failed", "status 500")]
    assert lists.surprises(failed, set(), mode="direct", whole=False) == []
    assert len(lists.surprises(failed, set(), mode="gateway", whole=False)) == 1


def test_containers_of_one_millisecond_come_in_any_order():
    names = {"database": "d", "unique": "u"}
    answers = [
        [{"status": 200, "items": [{"id": name, "indexingPolicy": {}} for name in order]}]
        for order in ("ab", "ba")
    ]
    assert differences(answers[0], answers[1], names, names) == []
    items = [[{"status": 200, "items": [{"id": name} for name in order]}] for order in ("ab", "ba")]
    assert len(differences(items[0], items[1], names, names)) == 1
