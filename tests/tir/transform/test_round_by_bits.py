"""Rounding by the bits of a sum."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te
from tilewright.backend import build
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.round_by_bits import round_by_bits
from tilewright.tir.visitor import collect

ROUNDERS = {"float32": 12582912.0, "float64": 6755399441055744.0}


def _function(dtype: str, compute: object) -> PrimFunc:
    x = te.placeholder((64,), dtype, name="x")
    y = te.compute((64,), lambda i: compute(x(i)), name="y")  # type: ignore[operator]
    return te.lower(te.create_schedule(y.op), [x, y], name="f")


def _differences(func: PrimFunc) -> int:
    return sum(1 for x in collect(func.body, e.Sub) if x.dtype.is_float)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_integer_is_the_same(dtype: str) -> None:
    rounder = op.const(ROUNDERS[dtype], dtype)
    func = _function(dtype, lambda x: op.call_intrin(dtype, "fma", x, op.const(1.5, dtype), rounder) - rounder)
    made = round_by_bits(func)
    assert (_differences(func), _differences(made)) == (1, 0)
    data = np.r_[np.linspace(-4e5, 4e5, 60), [0, 0.5, -0.5, 1.5]].astype(dtype)
    for version in (func, made):
        result = np.empty_like(data)
        build(version)["f"](data, result)
        np.testing.assert_array_equal(result, np.rint(data.astype(np.longdouble) * 1.5).astype(dtype))


def test_other_differences_stay() -> None:
    rounder = op.const(ROUNDERS["float32"], "float32")
    for compute in (lambda x: x - rounder, lambda x: (x + rounder) - x, lambda x: (x * rounder) - rounder):
        func = _function("float32", compute)
        assert _differences(round_by_bits(func)) == _differences(func)
