"""Kernels that have the name of a function of the C math library, and call it."""

import math

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend import build


@pytest.mark.parametrize(("name", "dtype"), [("tan", "float64"), ("erf", "float64"), ("tan", "float32")])
def test_a_kernel_does_not_call_itself_in_its_position(name: str, dtype: str) -> None:

    x = te.placeholder((5,), dtype, name="x")
    y = te.compute((5,), lambda i: getattr(tir, name)(x[i]), name="y")
    kernel = build(te.lower(te.create_schedule(y), [x, y], name), threads=1)[name]
    values, found = np.linspace(-1, 1, 5).astype(dtype), np.zeros(5, dtype)
    kernel(values, found)
    np.testing.assert_allclose(found, [getattr(math, name)(value) for value in values], rtol=1e-5)


@pytest.mark.parametrize("name", ["memcpy", "memset", "floor", "floorf"])
def test_a_kernel_has_not_the_symbol_of_what_llvm_calls_by_itself(name: str) -> None:
    """A copy and a zero-filled part become calls of memcpy and memset, a floor one of floor where there is no such
    instruction."""
    x = te.placeholder((4096,), name="x")
    copied = te.compute((4096,), lambda i: x[i], name="copied")
    rounded = te.compute((4096,), lambda i: tir.floor(copied[i]), name="rounded")
    func = te.lower(te.create_schedule(rounded), [x, rounded], name)
    values, found = np.linspace(-9, 9, 4096).astype("float32"), np.ones(4096, "float32")
    build(func, target="llvm -mcpu=x86-64", threads=1)[name](values, found)
    np.testing.assert_array_equal(found, np.floor(values))
