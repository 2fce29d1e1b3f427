"""Data types by the spellings of the field."""

from __future__ import annotations

import math

import ml_dtypes
import pytest

from tilewright.support.dtype import DType


def test_spellings_without_a_width() -> None:
    assert DType("float") is DType("float32") and DType("int") is DType("int32") and DType("uint") is DType("uint32")
    assert DType("int1") is DType("uint1") is DType("bool")
    codes = {"int8": 0, "uint64": 1, "bool": 1, "float16": 2, "handle": 3, "bfloat16": 4}
    assert {name: DType(name).type_code for name in codes} == codes


INTEGERS = ("bool", "int4", "uint2", "int8", "uint16", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")


def test_limits_of_integers() -> None:
    limits = {"bool": (0, 1), "int4": (-8, 7), "uint2": (0, 3), "int8": (-128, 127), "uint64": (0, 2**64 - 1)}
    assert {name: DType(name).limits() for name in limits} == limits
    for name in INTEGERS:
        assert DType(name).finite_limits() == DType(name).extremes() == DType(name).limits()


@pytest.mark.parametrize("name", [*FLOATS, "handle", "string", "float32x4"])
def test_integer_limits_are_refused_of_other_types(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name} is no integer type; use finite_limits\(\) or extremes\(\)"):
        DType(name).limits()


@pytest.mark.parametrize("name", FLOATS)
def test_limits_of_floats(name: str) -> None:
    info = ml_dtypes.finfo(DType(name).numpy)
    assert DType(name).finite_limits() == (float(info.min), float(info.max))


def test_infinities_are_the_extremes_of_floats() -> None:
    assert {DType(name).extremes() for name in FLOATS[:4]} == {(-math.inf, math.inf)}
    with pytest.raises(TypeError, match="float8_e4m3fn is no integer type"):
        DType("float8_e4m3fn").extremes()
