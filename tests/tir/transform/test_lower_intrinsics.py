"""lower_intrinsics: no math call is left that codegen does not know, for each float type and for vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Ramp
from tilewright.tir.op import const
from tilewright.tir.stmt import BufferStore, PrimFunc
from tilewright.tir.transform.lower_intrinsics import lower_intrinsics
from tilewright.tir.visitor import post_order

KNOWN = {
    "fma", "fabs", "floor", "sqrt", "reinterpret", "shift_left", "shift_right", "bitwise_and", "bitwise_or",
    "if_then_else", "any_lane", "call_extern",
}  # fmt: skip
FUNCTIONS = [
    op.exp, op.expm1, op.log, op.log1p, op.tanh, op.sigmoid, op.erf, op.sin, op.cos, op.tan, op.rsqrt,
    lambda x: op.power(x, x),
]  # fmt: skip


def lower(build, dtype="float32", lanes=8):
    a, c = Buffer("a", [8], dtype), Buffer("c", [8], dtype)
    index = Ramp(const(0), const(1), lanes) if lanes > 1 else const(0)
    func = PrimFunc("f", [a, c], BufferStore(c, build(BufferLoad(a, [index])), (index,)))
    return lower_intrinsics(func)


def calls(func):
    found = []
    post_order(func, lambda x: found.append(x) if isinstance(x, Call) else None)
    return found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("build", FUNCTIONS)
def test_only_known_calls_are_left(build, dtype, lanes):
    func = lower(build, dtype, lanes)
    assert {c.op for c in calls(func)} <= KNOWN
    assert func.body.value.dtype.lanes == lanes
    assert func.body.value.dtype.element == dtype


def test_lowered_exponentials_agree_with_numpy(interpret):
    x, y = np.linspace(-3, 3, 8, dtype=np.float32), np.zeros(8, np.float32)
    interpret(lower(op.exp), x, y)
    np.testing.assert_allclose(y, np.exp(x), rtol=3e-7)


def test_half_precision_goes_through_float32(interpret):
    x, y = np.linspace(-3, 3, 8).astype(np.float16), np.zeros(8, np.float16)
    interpret(lower(op.exp, "float16"), x, y)
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-3)


def test_double_precision_calls_the_c_library_for_each_lane():
    names = [c.args[0].value for c in calls(lower(op.tanh, "float64"))]
    assert names == ["tanh"] * 8


def test_likely_is_removed():
    func = lower(lambda x: op.if_then_else(op.likely(BufferLoad(x.buffer, [const(0)]) > 0.0), x, x + 1.0))
    assert {c.op for c in calls(func)} == {"if_then_else"}
