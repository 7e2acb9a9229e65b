"""The judgement of a program: no report passes that has less than a whole, right run."""

import json

from clients import CLIENTS, HERE, Client
from report import judge, table

CLIENT = Client("toy", "1.2", "python-toy/program.py")
BEGIN = {"client": "toy", "version": "1.2"}
GOOD = {"operation": "a", "passed": True}
BAD = {"operation": "b", "passed": False, "message": "it rains"}
END = {"end": True}


def judged(*lines, code=0):
    return judge(CLIENT, [json.dumps(line) for line in lines], code, 1.0)


def test_a_whole_run_passes_and_lines_of_libraries_are_ignored():
    report = judge(CLIENT, ["hello", "{not json", '{"a": 1}', *map(json.dumps, (BEGIN, GOOD, END))], 0, 1.0)
    assert report.has_passed and report.operations == 1


def test_a_failed_operation_fails_the_run_and_is_counted():
    report = judged(BEGIN, GOOD, BAD, END, code=1)
    assert (report.passed, report.operations) == (1, 2)
    assert report.failures == ["operation: b: it rains"]


def test_a_program_that_stops_early_fails():
    assert not judged(BEGIN, GOOD).has_passed
    assert not judged(BEGIN, GOOD, END, code=1).has_passed
    assert not judged(BEGIN, GOOD, code=None).has_passed


def test_a_program_without_operations_fails():
    assert not judged(BEGIN, END).has_passed


def test_another_version_than_that_of_the_table_fails():
    assert not judged(BEGIN | {"version": "1.3"}, GOOD, END).has_passed
    assert not judged(GOOD, END).has_passed


def test_the_table_has_a_row_for_each_client():
    lines = table([judged(BEGIN, GOOD, END), judged(BEGIN, GOOD, BAD, END, code=1)]).splitlines()
    assert lines[0].split() == ["client", "version", "operations", "seconds", "result"]
    assert [line.split()[-1] for line in lines[1:]] == ["passed", "FAILED"]


def test_every_program_exists_and_every_row_has_its_own_name():
    for client in CLIENTS:
        program = HERE / client.program
        sources = HERE / client.environment / "src" / "orrery"
        assert program.is_file() or (sources / program.name).is_file(), client.name
    names = [client.name for client in CLIENTS]
    assert len(set(names)) == len(names)
