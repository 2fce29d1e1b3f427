"""Math functions on every device of this machine, beside NumPy's in float64: no compiler may simplify them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.codegen.source.programs import require_target
from tilewright import te, tir
from tilewright.backend import build

TARGETS = ["opencl", "cuda -emulate=1", "vulkan", "vulkan -integer_bits=32", "webgpu"]
X = np.r_[np.linspace(-9, 9, 57), [0, 1e-6, -1e-3, 30, -30, 80, -80]].astype(np.float32)
FUNCTIONS: dict[str, Any] = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf),
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": np.floor,
    "round": np.rint,
    "sin": np.sin,
}


@pytest.mark.parametrize("target", TARGETS)
def test_functions_of_float32(target: str) -> None:
    require_target(target)
    names = [*FUNCTIONS]
    x = te.placeholder((64,), name="x")
    results = [te.compute((64,), lambda i, n=name: getattr(tir, n)(x(i)), name=f"{name}_of_x") for name in names]
    s = te.create_schedule([result.op for result in results])
    for result in results:
        s[result].bind(result.op.axis[0], te.thread_axis("threadIdx.x"))
    arrays = [np.empty(64, np.float32) for _ in names]
    build(te.lower(s, [x, *results], name="f"), target)["f"](X, *arrays)
    for name, array in zip(names, arrays):
        np.testing.assert_allclose(array, FUNCTIONS[name](X.astype(np.float64)), 4e-6, 1e-6, err_msg=name)
