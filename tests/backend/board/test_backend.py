"""Models as C for boards: compiled by this machine's C compiler, the same integers as those of the graph."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.relay.helpers import module
from tilewright import relay
from tilewright.codegen.source.compile_c import SEMANTICS
from tilewright.compile import export_source
from tilewright.driver.optimize import optimize
from tilewright.errors import UnsupportedError
from tilewright.relay import op
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.target import Target

RNG = np.random.default_rng(4)
TARGETS = ("generic", "cortex-m4", "cortex-m55", "riscv32-imac")

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")


def _bytes(*shape: int, least: int = -128) -> np.ndarray:
    return RNG.integers(least, 128, shape).astype(np.int8)


def _scaled(sums: relay.Expr, channels: int, low: int = -128) -> relay.Expr:
    """Sums times a factor for each channel, rounded twice as TensorFlow Lite does, as bytes."""
    shape = (1, channels, 1, 1) if len(op.common.dims(sums)) == 4 else (1, channels)
    m = relay.const(RNG.integers(1 << 30, (1 << 31) - 1, shape))
    exponent = RNG.integers(6, 10, shape)
    wide = op.cast(sums, "int64") * m
    high = op.right_shift(wide + (1 << 30), relay.const(np.int64(31)))
    negative = op.right_shift(high, relay.const(np.int64(63)))
    rounded = high + relay.const((1 << exponent) >> 1) + negative
    narrow = op.cast(op.right_shift(rounded, relay.const(exponent)), "int32") + relay.const(np.int32(-9))
    return op.cast(op.clip(narrow, low, 127), "int8")


def _conv(x: relay.Expr, weight: np.ndarray, zero: int, **attrs: Any) -> relay.Expr:
    data = op.cast(x, "int32") - relay.const(np.int32(zero))
    sums = op.nn.conv2d(data, relay.const(weight.astype(np.int32)), **attrs)
    bias = RNG.integers(-3000, 3000, weight.shape[0]).astype(np.int32)
    return _scaled(op.nn.bias_add(sums, relay.const(bias), axis=1), weight.shape[0])


def _network() -> tuple[relay.Expr, np.ndarray]:
    """A first layer of three channels, a depthwise and a 1x1 convolution, a sum, and a dense layer."""
    x = relay.var("x", shape=(1, 3, 9, 7), dtype="int8")
    first = _conv(x, _bytes(8, 3, 3, 3, least=-127), 5, strides=(2, 2), padding=(1, 1, 1, 1))
    deep = _conv(first, _bytes(8, 1, 3, 3), -128, padding=(1, 1, 1, 1), groups=8)
    wide = _conv(deep, _bytes(8, 8, 1, 1), -7)
    total = op.cast(op.clip(op.cast(wide, "int32") + op.cast(first, "int32"), -128, 127), "int8")
    flat = op.reshape(total, (1, 8 * 5 * 4))
    data = op.cast(flat, "int32") - relay.const(np.int32(3))
    weight = relay.const(_bytes(5, 160, least=-127).astype(np.int32))
    return _scaled(op.nn.dense(data, weight), 5), _bytes(1, 3, 9, 7)


def _run(source: Path, name: str, x: np.ndarray, out: np.ndarray) -> np.ndarray:
    made = source.with_suffix(".so")
    subprocess.run(
        ["cc", "-std=c99", "-O1", *SEMANTICS, "-shared", "-fPIC", str(source), "-o", str(made), "-lm"], check=True
    )
    library = ctypes.CDLL(str(made))
    size = getattr(library, f"tilewright_{name}_workspace_bytes")
    size.restype = ctypes.c_int64
    workspace = np.full(size(1), 0xA5, np.uint8)
    pointers = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (x, out)]
    assert getattr(library, f"tilewright_{name}")(*pointers, ctypes.c_void_p(workspace.ctypes.data), 1) == 0
    return out


@needs_cc
@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.sample(2)
def test_a_network_of_bytes(cpu: str, tmp_path: Path) -> None:
    expr, x = _network()
    mod = module(expr)
    (expected,) = relay.interpret(expand_operators(mod), [x])
    export_source(mod, tmp_path / "net.c", target=f"c -mcpu={cpu}")
    np.testing.assert_array_equal(_run(tmp_path / "net.c", "net", x, np.empty_like(expected)), expected)


@pytest.mark.parametrize("cpu", ["generic", "cortex-m4"])
def test_weights_and_images_stay_bytes(cpu: str) -> None:
    """Every product is a kernel of bytes, every scale one of 32 bits, and no kernel returns wider integers."""
    expr, _ = _network()
    mod = optimize(module(expr), Target(f"c -mcpu={cpu}"))
    found = [call.op.name for call in calls(mod["main"].body) if isinstance(call.op, relay.ir.registry.Op)]
    kernels = [call for call in calls(mod["main"].body) if not isinstance(call.op, relay.ir.registry.Op)]
    inner = [node.op.name for kernel in kernels for node in calls(kernel.op.body)]
    assert not found and sum(name.endswith("_bytes") for name in inner) == 4
    assert inner.count("nn.contrib_fixed_point") == 4 and "nn.conv2d" not in inner and "multiply" not in inner
    assert {str(kernel.checked_type.dtype) for kernel in kernels} == {"int8"}


def test_pairs_are_wide_where_sums_may_not_fit() -> None:
    x = relay.var("x", shape=(1, 640), dtype="int8")
    weight = np.full((4, 640), 127, np.int32)
    mod = optimize(module(op.nn.dense(op.cast(x, "int32"), relay.const(weight))), Target("c -mcpu=cortex-m4"))
    (call,) = [node for kernel in calls(mod["main"].body) for node in calls(kernel.op.body) if "form" in node.attrs]
    assert call.attrs["form"] == "wide_pairs"


@needs_cc
def test_wide_pairs_are_exact(tmp_path: Path) -> None:
    x, weight = _bytes(3, 646), np.full((4, 646), 127, np.int32)
    weight[1], weight[2, ::2] = -128, -128
    data = relay.var("x", shape=x.shape, dtype="int8")
    mod = module(op.nn.dense(op.cast(data, "int32") - relay.const(np.int32(-128)), relay.const(weight)))
    export_source(mod, tmp_path / "dense.c", target="c -mcpu=cortex-m7")
    expected = (x.astype(np.int32) + 128) @ weight.T
    np.testing.assert_array_equal(_run(tmp_path / "dense.c", "dense", x, np.empty_like(expected)), expected)


def test_a_model_for_a_board_does_not_run_here() -> None:
    import tilewright as tw

    x = relay.var("x", shape=(2, 3), dtype="float32")
    with pytest.raises(UnsupportedError, match=r"tilewright compile -o model\.c"):
        tw.compile(module(op.nn.relu(x)), target="c -mcpu=cortex-m4", cache=False)
