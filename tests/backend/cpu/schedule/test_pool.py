"""Pooling, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import Array, run, sample
from tilewright.backend.cpu.schedule.pool import _columns
from tilewright.target import Target
from tilewright.topi.nn.pooling import global_pool2d, pool2d

WINDOWS = [
    # kernel, stride, padding (top, left, bottom, right)
    (3, 2, (1, 1, 1, 1)),
    (3, 1, (1, 1, 1, 1)),
    (2, 2, (0, 0, 0, 0)),
    (3, 2, (0, 0, 1, 1)),
    (5, 1, (2, 2, 2, 2)),
    (7, 7, (0, 0, 0, 0)),
]
IMAGES = [
    ((1, 3, 15, 35, 16), "NCHW16c"),
    ((2, 2, 8, 7, 8), "NCHW8c"),
    ((1, 3, 20, 37), "NCHW"),
    ((1, 9, 10, 5), "NHWC"),
]


def _reference(x: Array, kind: str, k: int, s: int, p: tuple[int, int, int, int], count_pad: bool) -> Array:
    """`x` has its rows and columns on axes 2 and 3."""
    wide = [(0, 0)] * 2 + [(p[0], p[2]), (p[1], p[3])] + [(0, 0)] * (x.ndim - 4)
    padded = np.pad(x, wide, constant_values=-np.inf if kind == "max" else 0)
    ones = np.pad(np.ones_like(x), wide, constant_values=1 if count_pad else 0)
    rows, columns = (padded.shape[2] - k) // s + 1, (padded.shape[3] - k) // s + 1
    out = np.empty((*x.shape[:2], rows, columns, *x.shape[4:]), x.dtype)
    for i in range(rows):
        for j in range(columns):
            window = (slice(None), slice(None), slice(i * s, i * s + k), slice(j * s, j * s + k))
            if kind == "max":
                out[:, :, i, j] = padded[window].max(axis=(2, 3))
            else:
                out[:, :, i, j] = padded[window].sum(axis=(2, 3)) / ones[window].sum(axis=(2, 3))
    return out


@pytest.mark.parametrize("kind", ["max", "avg", "avg_with_padding"])
@pytest.mark.parametrize(("shape", "layout"), IMAGES)
@pytest.mark.parametrize(("kernel", "stride", "padding"), WINDOWS)
@pytest.mark.sample(18)
def test_pooling_windows_agree_with_numpy(
    kind: str, shape: tuple[int, ...], layout: str, kernel: int, stride: int, padding: tuple[int, int, int, int]
) -> None:
    sizes = shape[1:3] if layout == "NHWC" else shape[2:4]
    if min(sizes[0] + padding[0] + padding[2], sizes[1] + padding[1] + padding[3]) < kernel:
        pytest.skip("the window is larger than the image")
    x, counted = sample(*shape), kind == "avg_with_padding"
    kind = kind[:3]
    got = run(
        lambda t: pool2d(t, kind, (kernel,) * 2, (stride,) * 2, padding, count_include_pad=counted, layout=layout), x
    )
    moved = np.moveaxis(x, -1, 1) if layout == "NHWC" else x
    wanted = _reference(moved, kind, kernel, stride, padding, counted)
    wanted = np.moveaxis(wanted, 1, -1) if layout == "NHWC" else wanted
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_maxima_of_doubles_and_integers_are_exact(dtype: str) -> None:
    x = sample(1, 2, 9, 9, 4, dtype=dtype)
    got = run(lambda t: pool2d(t, "max", (3, 3), (2, 2), (0, 0, 0, 0), layout="NCHW4c"), x)
    np.testing.assert_array_equal(got, _reference(x.astype("float64"), "max", 3, 2, (0, 0, 0, 0), False))


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((1, 80, 7, 7, 16), "NCHW16c"),
        ((1, 2, 30, 30, 16), "NCHW16c"),
        ((2, 3, 5, 9, 8), "NCHW8c"),
        ((1, 40, 7, 7), "NCHW"),
        ((2, 3, 1, 1), "NCHW"),
        ((1, 6, 6, 20), "NHWC"),
    ],
)
def test_global_pooling_agrees_with_numpy(kind: str, shape: tuple[int, ...], layout: str) -> None:
    x = sample(*shape)
    axes = (1, 2) if layout == "NHWC" else (2, 3)
    wanted = getattr(np, "max" if kind == "max" else "mean")(x.astype("float64"), axis=axes, keepdims=True)
    np.testing.assert_allclose(run(lambda t: global_pool2d(t, kind, layout), x), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("cpu", "width", "columns"),
    [("skylake-avx512", 56, 7), ("skylake-avx512", 32, 8), ("skylake-avx512", 14, 14), ("haswell", 56, 4)],
)
def test_columns_of_a_tile_fit_the_registers(cpu: str, width: int, columns: int) -> None:
    """Blocks of 16 take one register or two; two thirds of the registers hold accumulators."""
    assert _columns(width, 16, Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")) == columns
