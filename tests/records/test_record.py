"""Records: lines with checksums, files that survive a killed writer, merging, and the best of a task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.errors import ArtifactError, EnvironmentError_
from tilewright.records.database import Database, processor_of
from tilewright.records.entry import CRASH, VERDICT, Entry, TaskKey
from tilewright.records.file import RecordFile, merge_records, read_records, write_records
from tilewright.target import Target

TASK = TaskKey("dense_pack", '{"rows":1,"columns":256}')
ENTRY = Entry(TASK, "llvm -mcpu=haswell", {"tile_rows": 4}, 1.5e-4, accepted=True, blocks=20, compiler="1.0", time=7.0)


def test_a_line_reads_back_as_it_was_written() -> None:
    for entry in (ENTRY, replace(ENTRY, config=None, kind=VERDICT), replace(ENTRY, seconds=None, failure=CRASH)):
        assert Entry.from_line(entry.to_line()) == entry


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (ENTRY.to_line()[:-9], "was cut or changed"),
        (ENTRY.to_line().replace("haswell", "skylake"), "does not match its checksum"),
        ('{"input": ["llvm", "matmul", [], {}], "config": {}, "result": []}', "is of a log of the classic stack"),
        ('{"a": 1}', "is no record of tuning"),
    ],
)
def test_what_is_no_record_is_refused_with_its_line(line: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(f"# tuned in spring\n{ENTRY.to_line()}\n{line}\n")
    with pytest.raises(ArtifactError, match=f"records.jsonl, line 3 .*{reason}"):
        read_records(path)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="there is no such file of records"):
        read_records(tmp_path / "records.jsonl")


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentError_, match="records cannot be written there"):
        RecordFile(tmp_path / "nowhere" / "records.jsonl")


def test_a_line_that_was_cut_by_a_killed_writer_is_dropped_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(f"{ENTRY.to_line()}\n{ENTRY.to_line()[:40]}")
    assert read_records(path) == [ENTRY]
    with RecordFile(path) as file:
        assert file.entries == [ENTRY]
        file.append(replace(ENTRY, time=8.0))
    assert [entry.time for entry in read_records(path)] == [7.0, 8.0]


def test_no_record_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    program = (
        "import sys\n"
        "from dataclasses import replace\n"
        "from tilewright.records.entry import Entry\n"
        "from tilewright.records.file import RecordFile\n"
        f"file, entry, n = RecordFile({str(path)!r}), Entry.from_line(sys.argv[1]), 0\n"
        "while True:\n"
        "    file.append(replace(entry, time=float(n)))\n"
        "    print(n, flush=True)\n"
        "    n += 1\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, ENTRY.to_line()], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(50)]
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    assert [int(entry.time) for entry in read_records(path)][: len(told)] == told


def test_merging_keeps_each_entry_once_in_order_of_time(tmp_path: Path) -> None:
    later = replace(ENTRY, time=9.0)
    write_records(tmp_path / "a", [later, ENTRY])
    write_records(tmp_path / "b", [ENTRY])
    assert merge_records([tmp_path / "a", tmp_path / "b"]) == [ENTRY, later]


def test_the_best_is_the_fastest_that_was_accepted_until_there_is_a_verdict() -> None:
    fast, lucky = replace(ENTRY, config={"tile_rows": 2}, seconds=1e-4), replace(ENTRY, seconds=1e-5, accepted=False)
    database = Database([ENTRY, fast, lucky, replace(ENTRY, seconds=None, failure=CRASH)])
    assert database.best(TASK, ENTRY.processor) is fast
    verdict = replace(ENTRY, kind=VERDICT, config=None, seconds=2e-4)
    database.add(verdict)
    assert database.best(TASK, ENTRY.processor) is verdict
    assert database.best(TASK, "llvm -mcpu=znver4") is None


def test_records_of_this_compiler_come_first() -> None:
    old = replace(ENTRY, compiler="0.9", seconds=1e-6)
    database = Database([old, ENTRY])
    assert database.best(TASK, ENTRY.processor, "1.0") is ENTRY
    assert database.best(TASK, ENTRY.processor, "0.9") is old
    assert database.best(TASK, ENTRY.processor, "2.0") is old


def test_what_was_measured_of_a_machine_does_not_change_its_name() -> None:
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell")
    assert processor_of(target) == str(target)
