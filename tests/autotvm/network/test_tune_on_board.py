"""Tuning by counted instructions: counts add up, records are used, a better configuration is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.board.test_board import tools_of
from tilewright import relay
from tilewright.autotvm.network.tune_on_board import tune_on_board
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.board import BoardModel, BoardProgram, EmulatedBoard
from tilewright.compile import export_source
from tilewright.records.database import Database
from tilewright.records.entry import TRIAL, VERDICT, Entry, this_compiler
from tilewright.relay import op
from tilewright.relay.ir.module import IRModule
from tilewright.target import Target

M4 = Target("c -mcpu=cortex-m4")


def products() -> IRModule:
    """An int8 product of [2, 32] and [32, 8] in int32."""
    x = relay.var("x", shape=(2, 32), dtype="int8")
    weight = np.random.default_rng(0).integers(-127, 127, (8, 32)).astype("int32")
    return IRModule.from_expr(relay.Function([x], op.nn.dense(op.cast(x, "int32"), relay.const(weight))))


def on_board(records: Database | None, folder: Path) -> BoardModel:
    files = export_source(products(), folder / "net.c", target=M4, freestanding=True, records=records)
    program = BoardProgram("net", files.models[0].c_model.interface, files[0].read_text(), files[1].read_text())
    return BoardModel(program, tools_of("mps2-an386"), "cortex-m4", "c", "")


def test_counts_of_kernels_are_those_of_the_run(tmp_path: Path) -> None:
    model = on_board(None, tmp_path)
    x = np.random.default_rng(1).integers(-128, 127, (2, 32)).astype(np.int8)
    outputs = model(x)
    run = EmulatedBoard(model.board).load(model.program, "cortex-m4", kernels=True).run([x])
    np.testing.assert_array_equal(run.outputs[0], outputs)
    kernels = {name: count for name, count in run.kernels.items() if name.startswith("fused_")}
    assert model.last is not None and len(kernels) == 1
    # the rest of a run is checks of its arguments
    assert model.last.instructions - 400 < sum(kernels.values()) < model.last.instructions + 100


def test_it_finds_the_best_and_compiling_takes_it(tmp_path: Path) -> None:
    board = tools_of("mps2-an386")
    lines: list[str] = []
    result = tune_on_board(products(), board, M4, tmp_path / "records.jsonl", lines.append)
    (task,) = result.tasks
    (expected,) = extract_from_program(products(), M4)
    assert task.tried == len(expected.points) == len(lines) > 2
    assert task.best <= task.default and result.after <= result.before
    records = Database.load(tmp_path / "records.jsonl")
    trials = [entry for entry in records.entries if entry.kind == TRIAL]
    assert len(trials) == task.tried and min(entry.more["instructions"] for entry in trials) == task.best
    assert on_board_count(records, tmp_path) == result.after


def on_board_count(records: Database | None, folder: Path) -> int:
    model = on_board(records, folder)
    model(np.zeros((2, 32), np.int8))
    assert model.last is not None
    return model.last.instructions


def test_a_record_decides(tmp_path: Path) -> None:
    """A verdict for the worst configuration is what is compiled, too."""
    (task,) = extract_from_program(products(), M4)
    worst = task.points.plain(len(task.points) - 1)
    entry = Entry(task.key, task.processor, worst, kind=VERDICT, compiler=this_compiler())
    assert on_board_count(Database([entry]), tmp_path) > 1.1 * on_board_count(None, tmp_path)


def test_a_model_without_choices_is_refused(tmp_path: Path) -> None:
    x = relay.var("x", shape=(4,), dtype="float32")
    mod = IRModule.from_expr(relay.Function([x], op.nn.relu(x)))
    with pytest.raises(Exception, match="no kernel of the model has a choice of schedules for this board"):
        tune_on_board(mod, tools_of("mps2-an386"), M4, tmp_path / "records.jsonl")
