"""Row-wise operators, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import Array, run, sample
from tilewright import te, tir
from tilewright.topi.nn import group_norm, layer_norm, log_softmax, softmax

SHAPES = [
    ((4, 197), -1),
    ((3, 214), -1),
    ((5, 10), -1),
    ((6, 2), -1),
    ((3, 1), -1),
    ((1, 1000), -1),
    ((200, 64), -1),
    ((2, 3, 4, 48), -1),
    ((2, 21, 40), 1),
    ((5, 70), 0),
    ((7, 3), 0),
    ((2, 3, 4, 5), 2),
    ((16, 16), 0),
]


def _softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@pytest.mark.sample(12)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_softmax_agrees_with_numpy_along_any_axis(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    x = sample(*shape, dtype=dtype) * 4
    tolerance = 2e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(run(lambda t: softmax(t, axis), x), _softmax(x, axis), rtol=tolerance, atol=1e-7)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_log_softmax_agrees_with_numpy_along_any_axis(shape: tuple[int, ...], axis: int) -> None:
    x = sample(*shape) * 4
    wanted = np.log(_softmax(x.astype("float64"), axis))
    np.testing.assert_allclose(run(lambda t: log_softmax(t, axis), x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_layer_norm_agrees_with_float64(shape: tuple[int, ...], axis: int) -> None:
    x, size = sample(*shape), shape[axis]
    gamma, beta = sample(size, seed=1), sample(size, seed=2)
    wide = x.astype("float64")
    mean, variance = wide.mean(axis=axis, keepdims=True), wide.var(axis=axis, keepdims=True)
    where = [size if d == axis % x.ndim else 1 for d in range(x.ndim)]
    wanted = (wide - mean) / np.sqrt(variance + 1e-5) * gamma.reshape(where) + beta.reshape(where)
    got = run(lambda t, g, b: layer_norm(t, g, b, axis), x, gamma, beta)
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 6, 5, 5), 3), ((1, 8, 7, 3), 8), ((1, 32, 8, 8), 4), ((9, 4, 6), 1)]
)
def test_group_norm_agrees_with_float64(shape: tuple[int, ...], groups: int) -> None:
    x, channels = sample(*shape), shape[1]
    gamma, beta = sample(channels, seed=1), sample(channels, seed=2)
    parts = x.astype("float64").reshape(shape[0], groups, -1)
    normal = (parts - parts.mean(axis=2, keepdims=True)) / np.sqrt(parts.var(axis=2, keepdims=True) + 1e-5)
    where = [channels if d == 1 else 1 for d in range(x.ndim)]
    wanted = normal.reshape(shape) * gamma.reshape(where) + beta.reshape(where)
    got = run(lambda t, g, b: group_norm(t, g, b, groups), x, gamma, beta)
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


def test_softmax_of_a_fused_mask() -> None:
    x, mask = sample(1, 3, 20, 128), sample(1, 1, 1, 128, seed=1)

    def build(t: te.Tensor, m: te.Tensor) -> te.Tensor:
        masked = te.compute(t.shape, lambda a, b, c, d: t(a, b, c, d) * 0.125 + m(a, 0, 0, d), name="y", tag="elemwise")
        out = softmax(masked, -1)
        return te.compute(out.shape, lambda *i: tir.maximum(out(*i), 0.001), name="z", tag="elemwise")

    wanted = np.maximum(_softmax(x * np.float32(0.125) + mask, -1), 0.001)
    np.testing.assert_allclose(run(build, x, mask), wanted, rtol=1e-5)
