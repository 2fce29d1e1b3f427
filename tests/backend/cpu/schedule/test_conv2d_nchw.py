"""Convolutions of plain images: every tail of rows, columns, pixels and filters, beside the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import TARGET, run, sample
from tilewright import te, tir, topi
from tilewright.backend import build
from tilewright.backend.cpu.schedule.conv2d_nchw_cost import plain_lanes
from tilewright.backend.cpu.schedule.conv2d_workload import workload_of
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.target import Target
from tilewright.topi.reference import conv as reference

#: (batch, channels, filters, height, width), kernel, strides, padding, dilation, groups
WINDOWS = [
    ((1, 3, 64, 37, 112), (7, 7), (2, 2), (2, 2, 3, 3), (1, 1), 1),
    ((2, 5, 7, 9, 13), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((1, 8, 12, 7, 7), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((1, 6, 4, 12, 40), (3, 5), (1, 3), (0, 2, 0, 2), (1, 1), 1),
    ((1, 8, 12, 10, 33), (3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 4),
    ((1, 4, 6, 5, 1), (3, 1), (1, 1), (1, 0, 1, 0), (1, 1), 1),
    ((1, 64, 64, 16, 14), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((2, 24, 10, 7, 7), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((1, 32, 48, 28, 28), (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    ((1, 16, 8, 9, 15), (1, 1), (1, 2), (0, 0, 0, 0), (1, 1), 1),
    ((1, 16, 8, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((1, 16, 8, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
]


@pytest.mark.parametrize(("size", "window", "strides", "padding", "dilation", "groups"), WINDOWS)
def test_equals_the_reference(size, window, strides, padding, dilation, groups):
    batch, channels, filters, height, width = size
    data, kernel = sample(batch, channels, height, width), sample(filters, channels // groups, *window, seed=1)
    bias = sample(filters, 1, 1, seed=2)

    def build(x: te.Tensor, w: te.Tensor, b: te.Tensor) -> te.Tensor:
        biased = topi.add(topi.nn.conv2d_nchw(x, w, strides, padding, dilation, groups), b)
        return te.compute(biased.shape, lambda *i: tir.maximum(biased(*i), 0.0), name="relu", tag="elemwise")

    expected = reference.conv2d_nchw(data, kernel, strides, padding, dilation, groups)
    np.testing.assert_allclose(run(build, data, kernel, bias), np.maximum(expected + bias, 0), rtol=1e-5, atol=1e-4)


def test_a_residual_is_added_in_the_same_kernel():
    data, kernel, other = sample(1, 16, 14, 14), sample(32, 16, 1, 1, seed=1), sample(1, 32, 14, 14, seed=2)
    out = run(lambda x, w, y: topi.add(topi.nn.conv2d_nchw(x, w, (1, 1), (0, 0, 0, 0)), y), data, kernel, other)
    expected = reference.conv2d_nchw(data, kernel, (1, 1), (0, 0, 0, 0)) + other
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-4)


def test_tiles_fit_the_registers_and_the_image():
    data, kernel = te.placeholder((1, 5, 14, 14)), te.placeholder((12, 5, 3, 3))
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4")
    space = space_of([topi.nn.conv2d_nchw(data, kernel, (1, 1), (1, 1, 1, 1))], target)
    assert space is not None
    filters, rows, vectors = space.default.values()
    assert (12 % filters, 14 % rows, vectors) == (0, 0, 1)
    machine = target.machine
    assert machine.fma_per_cycle * machine.fma_latency <= filters * rows < target.vector_registers - 2


@pytest.mark.parametrize(("filters", "size"), [(64, 56), (256, 14), (6, 7)])
def test_tiles_of_products_over_pixels_fit_the_registers(filters, size):
    data, kernel = te.placeholder((1, 8, size, size)), te.placeholder((filters, 8, 1, 1))
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4")
    space = space_of([topi.nn.conv2d_nchw(data, kernel, (1, 1), (0, 0, 0, 0))], target)
    assert space is not None
    rows, vectors = space.default["tile_filters"], space.default["tile_vectors"]
    assert filters % rows == 0
    assert rows * vectors + 2 < target.vector_registers


@pytest.mark.parametrize(("hint", "lanes"), [(3, 2), (40, 16)])
def test_vectors_of_distant_columns_are_no_longer_than_a_symbolic_image(hint, lanes):
    """Long filters in long steps over one row, as of a Fourier transform of frames."""
    columns = te.size_var("columns", hint=hint)
    data, kernel = te.placeholder((1, 1, 1, 8 * columns + 8)), te.placeholder((10, 1, 1, 16))
    out = topi.nn.conv2d_nchw(data, kernel, (1, 8), (0, 0, 0, 0))
    assert plain_lanes(workload_of(out, out).columns, Target("llvm -mcpu=znver4")) == lanes
    func = te.lower(schedule([out], TARGET), [data, kernel, out, columns], "kernel")
    built = build([func], TARGET)["kernel"]
    for count in (1, 2, 3, 21, 45):
        image, weight = sample(1, 1, 1, 8 * count + 8), sample(10, 1, 1, 16, seed=1)
        result = np.full((1, 10, 1, count), np.nan, "float32")
        built(image, weight, result, count)
        np.testing.assert_allclose(
            result, reference.conv2d_nchw(image, weight, (1, 8), (0, 0, 0, 0)), rtol=1e-5, atol=1e-4
        )
