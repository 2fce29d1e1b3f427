"""Models on boards under qemu: results of this machine, counts that repeat, faults with words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.numpy_helper import to_array

import tilewright as tw
from tests.onnx_models import convolution, perceptron
from tilewright.board import BOARDS, BoardModel, BoardProgram, board_named
from tilewright.board.image import require_tools
from tilewright.cli.main import cli
from tilewright.compile import export_source
from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.target import Target


def tools_of(name: str) -> Any:
    """The board, where this machine can run it."""
    try:
        require_tools(board_named(name))
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    return board_named(name)


def on_board(name: str, model: Any, folder: Path) -> BoardModel:
    board = tools_of(name)
    files = export_source(model, folder / "net.c", target=f"c -mcpu={board.cpu}", freestanding=True)
    program = BoardProgram.of(files, Target("c"))
    return BoardModel(program, board, board.cpu, "c", "")


@pytest.mark.parametrize("name", list(BOARDS))
def test_results_and_counts(name: str, tmp_path: Path) -> None:
    model = on_board(name, perceptron(), tmp_path)
    x = np.random.default_rng(2).standard_normal((1, 8), dtype=np.float32)
    initializers = {one.name: one for one in perceptron().graph.initializer}
    want = np.maximum(x @ to_array(initializers["w"]) + to_array(initializers["b"]), 0)
    np.testing.assert_allclose(model(x), want, rtol=1e-5)
    assert model.last is not None
    first = model.last.instructions
    assert 40 <= first < 20_000  # 32 products and sums; without a unit for floats each is a call
    assert 0 < model.last.stack < 1000
    assert model.sizes.constants >= 4 * 36 and model.sizes.code > 0
    model(x)
    assert abs(model.last.instructions - first) <= 50  # a tick of the slowest timer


def test_convolution_agrees_with_this_machine(tmp_path: Path) -> None:
    model = on_board("virt", convolution(), tmp_path)
    x = np.random.default_rng(2).standard_normal((1, 3, 12, 12), dtype=np.float32)
    np.testing.assert_allclose(model(x), tw.compile(convolution())(x), rtol=1e-4, atol=1e-5)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no board 'mps2-an38'; did you mean|there is no board 'mps2-an38'"):
        board_named("mps2-an38")
    with pytest.raises(InputError, match="the board virt has a riscv32-imac, which runs no code for cortex-m4"):
        board_named("virt").flags("cortex-m4")
    board = tools_of("virt")
    files = export_source(perceptron(rows="N"), tmp_path / "net.c", freestanding=True)
    program = BoardProgram.of(files, Target("c"))
    with pytest.raises(UnsupportedError, match="a board runs models of fixed sizes"):
        BoardModel(program, board, "", "c", "")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools_of("mps2-an386")
    path = tmp_path / "net.onnx"
    path.write_bytes(perceptron().SerializeToString())
    cli.main(["run", str(path), "--board", "mps2-an386", "--seed", "1"], standalone_mode=False)
    assert "instructions on mps2-an386, stack" in capsys.readouterr().out
