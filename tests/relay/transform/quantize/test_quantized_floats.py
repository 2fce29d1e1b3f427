"""Quantized numbers in fewer steps are the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module, op_names
from tilewright import relay
from tilewright.relay.op import qnn
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.relay.transform.quantize.quantized_floats import quantized_floats
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.target import Target

X = relay.var("x", shape=(9, 31), dtype="float32")
RNG = np.random.default_rng(3)
#: Ties, both limits, what rounds to them, and numbers far beyond.
DATA = np.concatenate([
    RNG.normal(0, 4, 200), (np.arange(-30, 30) + 0.5) * 0.05, [0.0, -0.0, 1e30, -1e30, np.inf, -np.inf], [6.4] * 13,
]).astype("float32").reshape(9, 31)  # fmt: skip


def _quantized(x: relay.Expr, dtype: str, zero: int, scale: float = 0.05) -> relay.Expr:
    return qnn.quantize(x, relay.const(np.float32(scale)), relay.const(np.int32(zero)), out_dtype=dtype)


def _dequantized(x: relay.Expr, zero: int, scale: float = 0.05) -> relay.Expr:
    return qnn.dequantize(x, relay.const(np.float32(scale)), relay.const(np.int32(zero)))


def _kernel(mod: relay.IRModule) -> relay.IRModule:
    """All of it as one kernel."""
    return fuse_ops(mod)


def _check(expr: relay.Expr) -> list[str]:
    before = expand_operators(module(expr))
    after = quantized_floats(_kernel(before))
    for found, expected in zip(relay.interpret(after, [DATA]), relay.interpret(before, [DATA]), strict=True):
        np.testing.assert_array_equal(found, expected)
    targets = (
        ["cpu", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2"] if Target.host().architecture == "x86_64" else ["cpu"]
    )
    for target in targets:
        compiled = tw.compile(module(expr), target=target, cache=False)(DATA)
        results = compiled if isinstance(compiled, list | tuple) else [compiled]
        for found, expected in zip(results, relay.interpret(before, [DATA]), strict=True):
            np.testing.assert_array_equal(np.asarray(found), expected)
    return op_names(after)


@pytest.mark.parametrize("dtype, zero", [("int8", 0), ("int8", -128), ("uint8", 0), ("uint8", 131), ("int8", 7)])
def test_there_and_back(dtype: str, zero: int) -> None:
    names = _check(_dequantized(_quantized(X, dtype, zero), zero))
    assert names == ["divide", "clip", "round", "multiply"]


def test_zero_points_that_differ() -> None:
    names = _check(_dequantized(_quantized(X, "int8", 5), -3, 0.1))
    assert names == ["divide", "clip", "round", "add", "multiply"]


@pytest.mark.parametrize("dtype, zero", [("int8", 0), ("uint8", 128), ("int8", -9)])
def test_kernels_hand_over_bytes(dtype: str, zero: int) -> None:
    """The bytes that another kernel reads are converted where they are rounded; that kernel reads them."""
    bytes_ = _quantized(X, dtype, zero)
    names = _check(relay.Tuple([bytes_, _dequantized(bytes_, zero)]))
    assert names[:4] == ["divide", "clip", "round", "cast"] and names[-1] == "multiply" and "cast" in names[5:]


def test_numbers_that_are_not_whole_stay() -> None:
    moved = relay.clip(relay.round(X) + relay.const(0.5), -128.0, 127.0)
    assert op_names(quantized_floats(_kernel(module(relay.cast(moved, "int8"))))) == ["round", "add", "clip", "cast"]
