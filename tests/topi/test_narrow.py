"""Casts of narrow types: every code decoded, and values encoded bit for bit as `ml_dtypes` does."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.relay import Function, op, var
from tilewright.relay.ir.module import IRModule
from tilewright.support.dtype import DType

FLOATS = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"]
INTEGERS = {"int4": 16, "uint4": 16, "int2": 4, "uint2": 4}
EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 448, 464, 480, 57344, 61440, 240, 248, 5, 6, 7, 0.25, 0.75, 3e38]


def _cast(x: np.ndarray, dtype: str) -> np.ndarray:
    data = var("x", shape=x.shape, dtype=DType(x.dtype))
    return np.asarray(tw.compile(IRModule.from_expr(Function([data], op.cast(data, dtype=dtype))), cache=False)(x))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_every_code_is_decoded(dtype: str) -> None:
    count = INTEGERS.get(dtype, 16 if dtype.startswith("float4") else 256)
    codes = np.arange(count, dtype=np.uint8).view(getattr(ml_dtypes, dtype))
    np.testing.assert_array_equal(_cast(codes, "float32"), codes.astype(np.float32))


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_rounded_to_nearest_even(dtype: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(2000) * np.exp2(rng.integers(-20, 20, 2000))
    x = np.concatenate([values, EDGES]).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = x.astype(getattr(ml_dtypes, dtype))
    np.testing.assert_array_equal(_cast(x, dtype).view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_keep_their_low_bits(dtype: str) -> None:
    x = np.arange(-300, 300, dtype=np.int32)
    np.testing.assert_array_equal(_cast(x, dtype), x.astype(getattr(ml_dtypes, dtype)))


def test_scalar_constants_of_narrow_types() -> None:
    data = var("x", shape=(3,), dtype="bool")
    one = np.asarray(1.5, ml_dtypes.float8_e5m2)
    body = op.cast(op.where(data, tw.relay.const(one), tw.relay.const(-one)), dtype="float32")
    got = tw.compile(IRModule.from_expr(Function([data], body)), cache=False)(np.array([True, False, True]))
    np.testing.assert_array_equal(got, np.array([1.5, -1.5, 1.5], np.float32))
