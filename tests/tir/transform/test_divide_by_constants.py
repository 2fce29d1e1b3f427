"""Rounded quotients by constants, as products that round alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright import te, tir, topi
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.divide_by_constants import divide_by_constants

N = 4096


def _function(divisor: float, low: float = -128.0, high: float = 127.0) -> PrimFunc:
    x = te.placeholder((N,), "float32", "x")
    scale, ends = tir.const(divisor, "float32"), (tir.const(low, "float32"), tir.const(high, "float32"))

    def code(i: tir.Var) -> tir.Expr:
        return tir.round(tir.minimum(tir.maximum(x[i] / scale, ends[0]), ends[1])).astype("int32")

    y = te.compute((N,), code, "y")
    s = te.create_schedule(y.op)
    s[y].vectorize(s[y].split(y.op.axis[0], factor=16)[1])
    return te.lower(s, [x, y], name="codes")


def _numbers(divisor: np.float32, rng: np.random.Generator) -> np.ndarray:
    """Numbers next to those where codes change, others, and the ends of the type."""
    middle = ((rng.integers(-140, 140, N // 2) + 0.5) * np.float64(divisor)).astype("float32")
    near = middle + rng.integers(-2, 3, N // 2).astype("float32") * np.spacing(middle)
    ends = np.array([0.0, -0.0, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -1e-45, 1.2e-38], "float32")
    others = (rng.normal(0, 80, N // 2 - len(ends)) * divisor).astype("float32")
    return np.concatenate([near, others, ends]).astype("float32")


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell"])
@pytest.mark.parametrize("divisor", [0.0154913282, 0.25, 1.0, -0.3, 3e-7, 1234.5, 0.00746379932])
def test_codes_are_those_of_the_quotient(target: str, divisor: float) -> None:
    if target != "llvm" and Target.host().architecture != "x86_64":
        pytest.skip("code for x86")
    scale = np.float32(divisor)
    x, found = _numbers(scale, np.random.default_rng(2)), np.zeros(N, "int32")
    tw.build(_function(divisor), target=target)["codes"](x, found)
    with np.errstate(all="ignore"):
        expected = np.rint(np.clip(x / scale, -128, 127)).astype("int32")
    np.testing.assert_array_equal(found, expected)


@given(st.floats(2.0**-40, 2.0**40, width=32))
def test_there_are_products_for_scales(divisor: float) -> None:
    assert "fma" in str(divide_by_constants(_function(divisor))) or np.log2(divisor) % 1 == 0


@pytest.mark.parametrize("function", [
    _function(0.3, -128.0, 1e9), _function(1e-38), _function(0.3, -127.5, 127.5),
], ids=["limits beyond all codes", "a tiny divisor", "limits between whole numbers"])  # fmt: skip
def test_others_stay(function: PrimFunc) -> None:
    assert str(divide_by_constants(function)) == str(function)


def test_a_quotient_that_is_not_rounded_stays() -> None:
    x = te.placeholder((N,), "float32", "x")
    y = topi.divide(x, tir.const(0.3, "float32"))
    function = te.lower(te.create_schedule(y.op), [x, y])
    assert str(divide_by_constants(function)) == str(function)
