"""The journal: what was granted and is over, known again after a death at any byte."""

from __future__ import annotations

import pytest

from tilewright.errors import EnvironmentError_
from tilewright.rpc import journal as journal_module
from tilewright.rpc.journal import Journal
from tilewright.rpc.scheduler import Lease


def lease(number: int) -> Lease:
    return Lease(f"l{number}", f"j{number}", "anna", f"d{number}", 30.0, 1.0, 31.0)


def test_leases_and_finished_jobs_are_known_again(tmp_path):
    first = Journal(tmp_path / "j")
    for number in range(3):
        first.granted(lease(number))
    first.ended(lease(1), "done")
    first.close()
    again = Journal(tmp_path / "j")
    assert again.leases == {"l0": lease(0), "l2": lease(2)} and again.finished == {"j1": "done"}
    assert not again.damaged


def test_a_journal_cut_anywhere_keeps_what_was_whole(tmp_path):
    whole = Journal(tmp_path / "j")
    for number in range(4):
        whole.granted(lease(number))
    whole.close()
    content = (tmp_path / "j").read_bytes()
    for length in range(0, len(content), 7):
        (tmp_path / "cut").write_bytes(content[:length])
        cut = Journal(tmp_path / "cut")
        cut.granted(lease(9))
        cut.close()
        count = content[:length].count(b"\n")
        expected = {f"l{i}" for i in range(count)} | {"l9"}
        found = set(Journal(tmp_path / "cut").leases)
        assert expected <= found <= expected | {f"l{count}"}  # the next may lack its newline alone


def test_damage_is_left_out_and_counted(tmp_path):
    made = Journal(tmp_path / "j")
    for number in range(3):
        made.granted(lease(number))
    made.close()
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    (tmp_path / "j").write_bytes(lines[0] + lines[1].replace(b"anna", b"eve!") + b"\xff garbage\n" + lines[2])
    again = Journal(tmp_path / "j")
    assert set(again.leases) == {"l0", "l2"} and again.damaged == 2


def test_a_disk_that_takes_nothing_is_told_and_does_not_stop_the_tracker(tmp_path):
    made = Journal(tmp_path / "j")
    made._file.close()
    made._file = open("/dev/full", "a")  # noqa: SIM115
    made.granted(lease(0))
    assert "not written" in made.failed and made.leases == {"l0": lease(0)}


def test_the_file_is_written_anew_when_it_has_grown(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "_MOST_LINES", 50)
    made = Journal(tmp_path / "j")
    for number in range(200):
        made.granted(lease(number))
        made.ended(lease(number), "done")
    made.close()
    assert len((tmp_path / "j").read_bytes().splitlines()) <= 250
    assert len(Journal(tmp_path / "j").finished) == 200


def test_a_position_that_cannot_be_written_is_one_error(tmp_path):
    (tmp_path / "j").mkdir()
    with pytest.raises(EnvironmentError_, match="journal"):
        Journal(tmp_path / "j")
