"""Layers of bytes as one operator each, and their kernels in vectors under qemu: the integers of the graph before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.backend.board.test_backend import _bytes, _conv, _network
from tests.board.test_board import on_board
from tests.relay.helpers import module
from tilewright import relay
from tilewright.driver.optimize import optimize
from tilewright.relay import op
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.target import Target

HELIUM = "c -mcpu=cortex-m55"


def _operators(expr: relay.Expr) -> list[str]:
    mod = optimize(module(expr), Target(HELIUM))
    return [node.op.name for kernel in calls(mod["main"].body) for node in calls(getattr(kernel.op, "body", kernel))]


def _once(sums: relay.Expr) -> relay.Expr:
    wide = op.cast(sums, "int64") * relay.const(np.int64(1567891011)) + relay.const(np.int64(1 << 37))
    narrow = op.cast(op.right_shift(wide, relay.const(np.int64(38))), "int32") + relay.const(np.int32(4))
    return op.cast(op.clip(narrow, -128, 127), "int8")


def _dense(rows: int) -> tuple[relay.Expr, np.ndarray]:
    """A product whose sums are rounded once."""
    x = relay.var(f"rows{rows}", shape=(rows, 37), dtype="int8")
    data = op.cast(x, "int32") - relay.const(np.int32(3))
    return _once(op.nn.dense(data, relay.const(_bytes(10, 37).astype(np.int32)))), _bytes(rows, 37)


def _part(x: relay.Expr, zero: int, m: int, shift: int) -> relay.Expr:
    wide = op.left_shift(op.cast(x, "int32") - relay.const(np.int32(zero)), relay.const(np.int32(20)))
    return op.cast(_twice(wide, m, shift), "int32")


def _twice(sums: relay.Expr, m: int, shift: int) -> relay.Expr:
    high = op.right_shift(op.cast(sums, "int64") * relay.const(np.int64(m)) + (1 << 30), relay.const(np.int64(31)))
    if not shift:
        return high
    total = high + relay.const(np.int64(1 << shift >> 1)) + op.right_shift(high, relay.const(np.int64(63)))
    return op.right_shift(total, relay.const(np.int64(shift)))


def _sum() -> tuple[relay.Expr, np.ndarray]:
    """TensorFlow Lite's sum of bytes, one part of which is not shifted."""
    x = relay.var("x", shape=(1, 5, 7, 3), dtype="int8")
    other = relay.const(_bytes(1, 5, 7, 3))
    total = _part(x, 5, 1 << 30, 0) + _part(op.maximum(x, other), -8, 1800000000, 1)
    narrow = op.cast(_twice(total, 1500000000, 19), "int32") + relay.const(np.int32(-3))
    return op.cast(op.clip(narrow, -128, 127), "int8"), _bytes(1, 5, 7, 3)


def _mixed() -> tuple[relay.Expr, np.ndarray]:
    """Channels of a depthwise convolution, a part of a vector of which is beyond them, in windows over all edges."""
    x = relay.var("x", shape=(1, 21, 5, 4), dtype="int8")
    weight = _bytes(21, 1, 3, 3, least=-127)
    return _conv(x, weight, -128, strides=(2, 1), padding=(1, 1, 1, 1), groups=21), _bytes(1, 21, 5, 4)


def _eight() -> tuple[relay.Expr, np.ndarray]:
    """8 channels, two pixels of which fill a vector, in rows of an odd number."""
    x = relay.var("x", shape=(1, 8, 6, 7), dtype="int8")
    return _conv(x, _bytes(8, 1, 3, 3, least=-127), -128, padding=(1, 0, 0, 1), groups=8), _bytes(1, 8, 6, 7)


def _floats() -> tuple[relay.Expr, np.ndarray]:
    """Sums that become floats, as in models whose weights alone are bytes: those of a convolution and of a product."""
    x = relay.var("bytes", shape=(1, 5, 7, 6), dtype="int8")
    data = op.cast(x, "int32") - relay.const(np.int32(2))
    sums = op.nn.conv2d(data, relay.const(_bytes(7, 5, 3, 2).astype(np.int32)), padding=(1, 0, 1, 1), strides=(2, 1))
    flat = op.cast(op.reshape(x, (1, 210)), "int32")
    product = op.nn.dense(flat, relay.const(_bytes(5, 210).astype(np.int32)))
    return op.concatenate([op.reshape(op.cast(part, "float32") * 0.5, (-1,)) for part in (sums, product)]), _bytes(
        1, 5, 7, 6
    )


MODELS = {
    "network": _network,
    "dense": lambda: _dense(1),
    "rows": lambda: _dense(2),
    "sum": _sum,
    "mixed": _mixed,
    "eight": _eight,
    "floats": _floats,
}
KERNELS = {
    "network": ["conv2d", "depthwise", "conv2d", "conv2d"],
    "dense": ["conv2d"],
    "rows": ["conv2d"],
    "sum": ["add"],
    "mixed": ["depthwise"],
    "eight": ["depthwise"],
}


@pytest.mark.parametrize("name", MODELS)
def test_layers_are_one_operator(name: str) -> None:
    expr, _ = MODELS[name]()
    found = [one for one in _operators(expr) if "contrib" in one]
    if name == "network":  # one of its depthwise weights may be the least byte, which products of two taps do not fit
        assert [one.split("_")[1] for one in found].count("conv2d") == 3 and "nn.contrib_conv2d_bytes" not in found
    elif name == "floats":
        assert found == ["nn.contrib_conv2d_sums"] * 2
    else:
        assert found == [f"nn.contrib_{kind}_scaled" for kind in KERNELS[name]]


def test_least_weights_stay_products() -> None:
    x = relay.var("x", shape=(1, 4, 5, 4), dtype="int8")
    weight = np.full((4, 1, 3, 3), -128, np.int8)
    found = _operators(_conv(x, weight, 0, groups=4))
    assert "nn.contrib_depthwise_bytes" in found and "nn.contrib_depthwise_scaled" not in found


def test_vectors_compute_the_same(tmp_path: Path) -> None:
    """All of them in one image: the compiler takes longest for its own header of vectors."""
    made = [build() for build in MODELS.values()]
    mod = module(relay.Tuple([expr for expr, _ in made]))
    inputs = [x for _, x in made]
    expected = relay.interpret(expand_operators(mod), inputs)
    model = on_board("mps3-an547", mod, tmp_path)
    results = model.run({spec.name: x for spec, x in zip(model.inputs, inputs, strict=True)})
    for got, want in zip(results.values() if isinstance(results, dict) else results, expected, strict=True):
        np.testing.assert_array_equal(got, want)
