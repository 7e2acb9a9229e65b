"""The comparison of a run of the .NET program with what is expected of the run."""

from run import RUNS, STEPS_MIN, Run, surprises


def _result(name: str, ok: bool = True, skipped: bool = False) -> dict:
    return {"FullName": name, "Ok": ok, "Skipped": skipped, "Problem": None if ok else "expected 1, actual 2"}


def test_a_failed_step_is_a_surprise_with_its_problem():
    results = [_result("items/read"), _result("items/create", ok=False)]
    assert surprises(results, Run(), whole=False) == ["items/create: expected 1, actual 2"]


def test_an_expected_failure_that_passes_is_a_surprise():
    run = Run(fails=frozenset({"items/read"}))
    assert surprises([_result("items/read", ok=False)], run, whole=False) == []
    assert surprises([_result("items/read")], run, whole=False) == ["items/read: passed, and is expected to fail"]


def test_only_the_known_step_may_be_skipped():
    known = _result("entra/without the setting, tokens are 401", skipped=True)
    assert surprises([known], Run(), whole=False) == []
    assert surprises([_result("items/read", skipped=True)], Run(), whole=False) == ["items/read: skipped"]


def test_a_whole_run_has_all_steps():
    assert surprises([_result("items/read")], Run(), whole=True) == ["only 1 steps ran"]
    assert surprises([_result(f"items/{n}") for n in range(STEPS_MIN)], Run(), whole=True) == []


def test_a_run_in_direct_mode_skips_what_looks_at_http():
    skipped = _result("diagnostics/backend duration of the response", skipped=True)
    assert surprises([skipped], RUNS["direct"], whole=False) == []
    assert surprises([skipped], RUNS["http"], whole=False) == [f"{skipped['FullName']}: skipped"]
