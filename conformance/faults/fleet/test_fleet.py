"""The parts of the harness that need no fleet: gaps, the choice of faults, the refusal of an old Patroni, the table."""

import os
import sys
from pathlib import Path

import lab
import pytest
import run
from faults import FAULTS
from gaps import longest_gap, read_history
from lab import LabFailed


def test_a_gap_may_begin_before_the_fault_and_may_never_end():
    assert longest_gap([1.0, 2.0, 7.0, 8.0], began=2.5, ended=9.0) == 5.0
    assert longest_gap([1.0, 2.0], began=2.5, ended=12.0) == 10.0
    # A gap that ended before the fault does not count, nor does one after the end.
    assert longest_gap([0.0, 5.0, 6.0, 7.0, 30.0], began=5.5, ended=7.5) == 1.0


def test_only_acknowledged_commits_end_a_gap(tmp_path: Path):
    file = tmp_path / "1.history"
    file.write_text("ok 1 1 1000000\nnot 2 2 2000000\nunknown 2 3 2500000\nok 3 4 3000000\n")
    assert read_history(file) == [1.0, 3.0]


def test_faults_are_chosen_by_number_or_name():
    assert run.choose("") == FAULTS and run.choose("2") == FAULTS[:2]
    assert [fault.name for fault in run.choose("kill-etcd,switchover")] == ["kill-etcd", "switchover"]
    with pytest.raises(LabFailed, match="no fault 'flood'; the faults are .*kill-etcd"):
        run.choose("flood")
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("version, is_refused", [("3.0.2", True), ("3.0.3", False), ("4.1.5", False), ("2.9.9", True)])
def test_a_patroni_that_can_lose_commits_is_refused(monkeypatch, tmp_path: Path, version: str, is_refused: bool):
    program = tmp_path / "patroni"
    program.write_text(f"#!{sys.executable}\nprint('patroni {version}')\n")
    os.chmod(program, 0o755)
    monkeypatch.setattr(lab, "as_user", lambda: [])
    if not is_refused:
        assert lab.check_patroni(str(program), "install") is None
        return
    with pytest.raises(LabFailed, match=f"{version} can lose acknowledged commits"):
        lab.check_patroni(str(program), "install")


def test_rows_stand_below_their_headings():
    figures = {"fault": "kill-etcd", "acknowledged": 12345, "refused": 1, "unknown": 0, "anomalies": []}
    row = figures | {"gap_seconds": 1.25, "gap_seconds_max": 5, "timelines": 0, "is_good": False}
    assert run.line_of(row).index("BAD") == run.heading().index("judgement")
