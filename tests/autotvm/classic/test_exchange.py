"""Logs of the classic stack become records and come out again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.autotvm.tasks import conv_task
from tilewright.autotvm.classic.exchange import ANSOR, read_log, write_log
from tilewright.cli.main import cli, guarded
from tilewright.errors import ArtifactError
from tilewright.records.entry import VERDICT, Entry
from tilewright.records.file import read_records, write_records

AUTOTVM = {
    "input": ["llvm -keys=cpu", "demo/matmul", [64, 64, "float32"], {}],
    "config": {"index": 37, "code_hash": None, "entity": [["tile", "sp", [-1, 4]], ["unroll", "ot", 0]]},
    "result": [[0.25, 0.75], 0, 0.75, 1541030400.25], "version": 0.2, "tvm_version": "0.16.dev0",
}  # fmt: skip
STEPS = {
    "i": [['["mm", 8, 8]', "llvm -keys=cpu", [1, 64, 64, 0, 0, 0, 0, 0], "", 1, []], [[], [["SP", 2, 0, 64, [4], 1]]]],
    "r": [[0.5], 0, 0.25, 1600000000], "v": "v0.6",
}  # fmt: skip


def log(path: Path, *lines: object) -> Path:
    path.write_text("# a comment\n" + "".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize("line", [AUTOTVM, STEPS], ids=["autotvm", "auto_scheduler"])
def test_a_line_comes_out_as_it_went_in(line: object, tmp_path: Path) -> None:
    (entry,) = read_log(log(tmp_path / "in.log", line))
    assert entry.seconds == 0.5
    write_records(tmp_path / "r.jsonl", [entry])
    assert write_log(tmp_path / "out.log", read_records(tmp_path / "r.jsonl")) == 1
    assert json.loads((tmp_path / "out.log").read_text()) == line


def test_what_the_records_know_of_them(tmp_path: Path) -> None:
    first, second = read_log(log(tmp_path / "in.log", AUTOTVM, STEPS))
    assert first.task.template == "demo/matmul" and first.config == {"tile": ["sp", [-1, 4]], "unroll": ["ot", 0]}
    assert second.task.template == ANSOR and second.config == {"steps": [["SP", 2, 0, 64, [4], 1]]}


def test_kernels_of_this_compiler_are_found_again(tmp_path: Path) -> None:
    task = conv_task()
    trial = Entry(task.key, task.processor, dict(task.points.plain(0)), 1e-5, time=5.0)
    assert write_log(tmp_path / "out.log", [trial, Entry(task.key, task.processor, None, kind=VERDICT)]) == 1
    (found,) = read_log(tmp_path / "out.log")
    assert (found.task, found.processor, found.config, found.seconds) == (
        trial.task,
        trial.processor,
        trial.config,
        1e-5,
    )


def test_failures_keep_their_kind(tmp_path: Path) -> None:
    failed = {**AUTOTVM, "result": [[1e9], 7, 0.1, 1.5]}
    (entry,) = read_log(log(tmp_path / "in.log", failed))
    assert entry.failure == "timeout" and entry.seconds is None
    write_log(tmp_path / "out.log", [entry])
    assert json.loads((tmp_path / "out.log").read_text()) == failed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"i": [], "v": 0.1}, "version 0.1"),
        ({**STEPS, "v": "v0.1"}, "version v0.1"),
        ({"x": 1}, "version None"),
        ([1], "no line of a log"),
    ],
)
def test_lines_of_neither_kind(line: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=rf"in.log, line 2: .*{message}"):
        read_log(log(tmp_path / "in.log", line))


def test_the_verb_imports_merges_and_exports(tmp_path: Path) -> None:
    source, records, merged, out = (tmp_path / name for name in ("in.log", "r.jsonl", "m.jsonl", "out.log"))
    log(source, AUTOTVM, STEPS)
    for arguments, said in [
        (("import", records, source), "2 entries more"),
        (("import", records, source), "0 entries more"),
        (("merge", merged, records, records), "2 entries of 2 tasks"),
        (("export", merged, out), "2 lines"),
    ]:
        result = CliRunner().invoke(cli, ["records", *map(str, arguments)], catch_exceptions=False)
        assert result.exit_code == 0 and said in result.output
    assert guarded(lambda: cli.main(["records", "merge", "x.jsonl", str(tmp_path / "none")], standalone_mode=False))
