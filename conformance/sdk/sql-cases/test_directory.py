"""The search for the directory of cases, and runs without it."""

import pytest

from cases import DATASETS, DIRECTORY_VARIABLE, NoCases, cases, datasets, directory


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)


def _filled(folder):
    """Creates a directory with one data set and one case of it."""
    folder.mkdir(parents=True)
    (folder / DATASETS).write_text('{"name": "one", "documents": [{"n": 1}]}\n', encoding="utf-8")
    case = '{"name": "n", "dataset": "one", "query": "SELECT VALUE c.n FROM c", "parameters": [], "expected": [1], "ordered": true}'
    (folder / "own.jsonl").write_text(case + "\n", encoding="utf-8")
    return folder


def test_the_variable_names_the_directory(tmp_path, monkeypatch):
    folder = _filled(tmp_path / "elsewhere")
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(folder))
    assert directory(required=True, repository=tmp_path / "repository") == folder


def test_a_named_directory_without_cases_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(NoCases):
        directory(required=False, repository=tmp_path / "repository")


def test_the_directory_beside_the_repository_is_the_default(tmp_path):
    folder = _filled(tmp_path / "shared" / "data" / "sql")
    assert directory(required=True, repository=tmp_path / "repository") == folder


def test_a_run_that_requires_nothing_passes_without_cases(tmp_path):
    (tmp_path / "shared").mkdir()
    assert directory(required=False, repository=tmp_path / "repository") is None
    assert cases(None) == []


def test_a_run_that_requires_cases_fails_where_shared_has_none(tmp_path):
    (tmp_path / "shared").mkdir()
    with pytest.raises(NoCases):
        directory(required=True, repository=tmp_path / "repository")


def test_without_shared_nothing_can_be_required(tmp_path):
    assert directory(required=True, repository=tmp_path / "repository") is None


def test_the_files_of_a_directory_are_read(tmp_path):
    folder = _filled(tmp_path / "cases")
    assert [case.query for case in cases(folder)] == ["SELECT VALUE c.n FROM c"]
    assert datasets(folder)["one"].documents == [{"n": 1}]
