"""Running one scheduled computation on arrays, with one worker and with two, which must agree to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import te
from tilewright.backend import build
from tilewright.backend.cpu.schedule.dispatch import schedule
from tilewright.target import Target

Array = np.ndarray[Any, Any]
TARGET = Target("cpu")


def sample(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    """Distinct-looking numbers: normal floats, or integers in [-50, 50)."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-50, 50, shape).astype(dtype)


def placeholders(arrays: list[Array]) -> list[te.Tensor]:
    """An input tensor for each array."""
    return [te.placeholder(a.shape, str(a.dtype), f"x{i}") for i, a in enumerate(arrays)]


def run(compute: Any, *arrays: Array) -> Array:
    """The output of the computation `compute(*tensors)` on `arrays`, scheduled for the CPU."""
    inputs = placeholders(list(arrays))
    out = compute(*inputs)
    function = te.lower(schedule([out], TARGET), [*inputs, out], "kernel")
    results = []
    for threads in (1, 2):
        # Beyond the end lies a border that no kernel may touch.
        size = int(np.prod([int(d.value) for d in out.shape]))
        memory = np.full(size + 64, 1).astype(str(out.dtype))
        result = memory[:size].reshape([int(d.value) for d in out.shape])
        build([function], TARGET, threads=threads)["kernel"](*arrays, result)
        assert (memory[size:] == 1).all()
        results.append(result)
    np.testing.assert_array_equal(results[0], results[1])
    return results[0]
