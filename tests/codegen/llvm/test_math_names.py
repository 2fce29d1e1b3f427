"""Kernels that have the name of a function of the C math library, and call it."""

import math

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.codegen import build


@pytest.mark.parametrize(("name", "dtype"), [("tan", "float64"), ("erf", "float64"), ("tan", "float32")])
def test_a_kernel_does_not_call_itself_in_its_place(name: str, dtype: str) -> None:

    x = te.placeholder((5,), dtype, name="x")
    y = te.compute((5,), lambda i: getattr(tir, name)(x[i]), name="y")
    kernel = build(te.lower(te.create_schedule(y), [x, y], name), threads=1)[name]
    values, found = np.linspace(-1, 1, 5).astype(dtype), np.zeros(5, dtype)
    kernel(values, found)
    np.testing.assert_allclose(found, [getattr(math, name)(value) for value in values], rtol=1e-5)
