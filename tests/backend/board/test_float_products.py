"""Products of floats as boards compute them: register tiles on this machine and under qemu, beside the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.backend.board.test_backend import TARGETS, _run, needs_cc
from tests.board.test_board import on_board
from tests.relay.helpers import module
from tilewright import relay
from tilewright.codegen.source.float_tiles import float_tile_functions
from tilewright.compile import export_source
from tilewright.driver.optimize import optimize
from tilewright.relay import op
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import calls
from tilewright.target import Target

RNG = np.random.default_rng(6)


def _floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _conv(x: relay.Expr, weight: np.ndarray, axis: int = 1, **attrs: object) -> relay.Expr:
    made = op.nn.conv2d(x, relay.const(weight), **attrs)
    bias = _floats(weight.shape[0])
    return op.nn.relu(op.nn.bias_add(made, relay.const(bias), axis=axis))


def _network() -> tuple[relay.Expr, np.ndarray]:
    """A strided first layer, a depthwise one, 1x1 ones with and without strides, and products of one row."""
    x = relay.var("x", shape=(1, 3, 13, 11), dtype="float32")
    first = _conv(x, _floats(10, 3, 3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
    deep = _conv(first, _floats(10, 1, 3, 3), padding=(1, 1, 1, 1), groups=10)
    wide = _conv(deep, _floats(12, 10, 1, 1)) + _conv(first, _floats(12, 10, 1, 1))
    less = _conv(wide, _floats(7, 12, 1, 1), strides=(2, 2))
    last = _conv(less, _floats(21, 1, 3, 3), strides=(2, 1), padding=(1, 0, 0, 1), groups=7)
    flat = op.reshape(last, (1, 21 * 2 * 2))
    return op.nn.dense(flat, relay.const(_floats(10, 84) / 16)), _floats(1, 3, 13, 11)


def _rows() -> tuple[relay.Expr, np.ndarray]:
    """A product of many rows, whose units do not fill blocks."""
    x = relay.var("x", shape=(1, 6, 37), dtype="float32")
    return op.nn.relu(op.nn.dense(x, relay.const(_floats(11, 37)))), _floats(1, 6, 37)


def _tall() -> tuple[relay.Expr, np.ndarray]:
    """An image one column wide, as sequences are."""
    x = relay.var("x", shape=(1, 8, 19, 1), dtype="float32")
    weight = _floats(12, 8, 5, 1)
    return _conv(_conv(x, weight), _floats(4, 12, 3, 1), strides=(2, 1), padding=(1, 0, 2, 0)), _floats(1, 8, 19, 1)


MODELS: dict[str, Callable[[], tuple[relay.Expr, np.ndarray]]] = {"network": _network, "rows": _rows, "tall": _tall}


@needs_cc
@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.sample(4)
def test_sums_are_those_of_the_graph(name: str, cpu: str, tmp_path: Path) -> None:
    expr, x = MODELS[name]()
    (expected,) = relay.interpret(module(expr), [x])
    export_source(module(expr), tmp_path / "net.c", target=f"c -mcpu={cpu}")
    found = _run(tmp_path / "net.c", "net", x, np.empty_like(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.sample(1)
@pytest.mark.parametrize("board", ["mps2-an386", "mps3-an547", "virt"])
def test_the_same_on_boards(board: str, tmp_path: Path) -> None:
    """With Helium's vectors on the second."""
    expr, x = _network()
    (expected,) = relay.interpret(module(expr), [x])
    found = on_board(board, module(expr), tmp_path)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("board", "least", "most"), [("mps2-an386", 1.3, 2.0), ("mps3-an547", 0.4, 0.8)])
@pytest.mark.sample(1)
def test_a_convolution_takes_few_instructions(board: str, least: float, most: float, tmp_path: Path) -> None:
    """A tile of single registers takes 1.5 a multiply-add at best, one of vectors 0.46."""
    x = relay.var("x", shape=(1, 32, 12, 12), dtype="float32")
    model = on_board(board, module(_conv(x, _floats(32, 32, 3, 3), padding=(1, 1, 1, 1))), tmp_path)
    model(_floats(1, 32, 12, 12))
    assert model.last is not None
    assert least < model.last.instructions / (12 * 12 * 32 * 32 * 9) < most


def test_weights_are_packed_and_images_have_channels_last() -> None:
    mod = optimize(module(_network()[0]), Target("c -mcpu=cortex-m4"))
    inner = [node for kernel in calls(mod["main"].body) for node in calls(kernel.op.body)]
    convs = [node for node in inner if isinstance(node.op, Op) and node.op.name == "nn.conv2d"]
    layouts = {(one.attrs["data_layout"], one.attrs["kernel_layout"].rstrip("0123456789o")) for one in convs}
    several = ("NCHW", "OIHW")  # filters for each channel have no kernel
    assert layouts == {("NHWC", "OHWI"), ("NHWC", "HWIO"), several}
    (dense,) = [node for node in inner if isinstance(node.op, Op) and node.op.name == "nn.dense"]
    assert dense.attrs["weight_layout"].startswith("UD")


def test_a_function_is_there_once() -> None:
    text = "tilewright_floats_2x4x1(a); tilewright_floats_2x4x1(b); tilewright_floats_depthwise_2_3x3x1(c);"
    found = float_tile_functions(text)
    assert found.count("void tilewright_floats_2x4x1(") == 1 == found.count("void tilewright_floats_depthwise_2_3x3x1(")
    assert float_tile_functions("x = 1;") == ""


def test_integers_that_were_clipped_floats_are_bytes() -> None:
    """Models whose weights alone are bytes round their images while they run."""
    x = relay.var("x", shape=(1, 4, 6, 6), dtype="float32")
    data = op.cast(op.clip(x * relay.const(np.float32(9)), -127, 127), "int32")
    weight = RNG.integers(-127, 128, (8, 4, 3, 3)).astype(np.int32)
    mod = optimize(module(op.nn.conv2d(data, relay.const(weight))), Target("c -mcpu=cortex-m4"))
    names = [node.op.name for kernel in calls(mod["main"].body) for node in calls(getattr(kernel.op, "body", kernel))]
    assert "nn.contrib_conv2d_bytes" in names and "nn.conv2d" not in names
