"""Winograd convolution against the direct convolution: the reference, and the compiled kernels on awkward sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import run
from tilewright import te, tir, topi
from tilewright.backend import build
from tilewright.backend.cpu.schedule.dispatch import schedule
from tilewright.target import Target
from tilewright.topi.reference.conv import conv2d_nchw
from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.reference.winograd import conv2d_winograd, winograd_weight_transform
from tilewright.topi.winograd import FILTERS, INTEGERS, exact_below

RNG = np.random.default_rng(5)


def _operands(batch, channels, filters, height, width):
    shapes = ((batch, channels, height, width), (filters, channels, 3, 3))
    return [RNG.standard_normal(shape).astype("float32") for shape in shapes]


def _error(value, expected):
    return np.abs(value - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("along", [pytest.param(f, id=f"F({m}, {r}) s{s}") for (m, r, s), f in FILTERS.items()])
def test_the_transforms_of_one_dimension_are_exact(along):
    """A^T (G g * B^T d) is the convolution of any d by any g, in exact arithmetic."""
    data, taps = RNG.standard_normal(along.inputs), RNG.standard_normal(along.taps)
    products = [a * b for a, b in zip(along.to_points(list(data)), along.kernel_matrix @ taps, strict=True)]
    expected = [taps @ data[i * along.stride :][: along.taps] for i in range(along.outputs)]
    np.testing.assert_allclose(along.from_points(products), expected, atol=1e-12)


@pytest.mark.parametrize("along", [pytest.param(f, id=f"F({m}, {r}) s{s}") for (m, r, s), f in INTEGERS.items()])
def test_transforms_of_integers_are_whole_and_fit_16_bits(along):
    data, taps = RNG.choice([-255, 254, 255], along.inputs), RNG.choice([-128, 127], along.taps)
    weights = along.kernel_matrix @ taps
    products = [a * int(b) for a, b in zip(along.to_points(list(data)), weights, strict=True)]
    expected = [along.scale * (taps @ data[i * along.stride :][: along.taps]) for i in range(along.outputs)]
    assert along.from_points(products) == expected and (weights == np.rint(weights)).all()
    to_points = np.array([along.to_points(list(row)) for row in np.eye(along.inputs, dtype=int)])
    assert 255 * np.abs(to_points).sum(axis=0).max() ** 2 < 2**15
    assert 128 * np.abs(along.kernel_matrix).sum(axis=1).max() ** 2 < 2**15


@pytest.mark.parametrize(
    ("tile_size", "kernel_size", "strides", "cpu"),
    [
        (4, (3, 3), (1, 1), "haswell"),
        (2, (3, 3), (1, 1), "haswell"),
        (4, (3, 3), (2, 2), "haswell"),
        (2, (3, 3), (2, 1), "haswell"),
        (4, (1, 3), (1, 1), "haswell"),
        (2, (3, 1), (1, 1), "nehalem"),
        (4, (3, 3), (1, 1), "skylake-avx512"),
    ],
)
def test_convolutions_of_integers_are_exact(tile_size, kernel_size, strides, cpu):
    target = Target(f"llvm -mcpu={cpu}")
    if not target.is_host:
        pytest.skip(f"this machine cannot run code for {cpu}")
    data = RNG.choice(np.array([-255, 0, 255], "int16"), (1, 48, 9, 11))
    kernel = RNG.choice(np.array([-128, 127], "int8"), (16, 48, *kernel_size))
    weight = winograd_weight_transform(kernel, tile_size, "OIHW", 16, strides)
    packed, padding = layout_transform(data, "NCHW", "NCHW16c"), (kernel_size[0] // 2, kernel_size[1] // 2) * 2
    places = [te.placeholder(array.shape, str(array.dtype)) for array in (packed, weight)]
    out = topi.nn.conv2d_winograd_NCHWc(*places, padding, tile_size, kernel_size, strides)
    func = te.lower(schedule([out], target), [*places, out])
    expected = conv2d_nchw(data.astype("int32"), kernel.astype("int32"), strides, padding)
    assert np.abs(expected).max() < exact_below(kernel_size, strides)
    result = np.zeros([int(n) for n in out.shape], "int32")
    build(func, target=target)["main"](packed, weight, result)
    np.testing.assert_array_equal(layout_transform(result, "NCHW16c", "NCHW"), expected)
    reference = conv2d_winograd(data, weight, padding, tile_size, "NCHW", "NCHW", kernel_size, strides)
    np.testing.assert_array_equal(reference, expected)


@pytest.mark.parametrize("tile_size", [2, 4])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (1, 2)])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 1, 3)])
def test_the_reference_agrees_with_the_direct_convolution(tile_size, strides, padding):
    data, kernel = _operands(2, 8, 16, 9, 7)
    weight = winograd_weight_transform(kernel, tile_size, "OIHW", 8, strides)
    points = [FILTERS[tile_size, 3, stride].points for stride in strides]
    assert weight.shape == (2, *points, 8, 8)
    out = conv2d_winograd(data, weight, padding, tile_size, "NCHW", "NCHW", strides=strides)
    assert _error(out, conv2d_nchw(data, kernel, strides, padding)) < 5e-6


@pytest.mark.parametrize(("kernel_size", "tile_size"), [((1, 7), 4), ((7, 1), 2), ((5, 5), 2), ((1, 3), 4)])
def test_kernel_of_other_windows(kernel_size, tile_size):
    data = RNG.standard_normal((1, 32, 17, 15)).astype("float32")
    kernel = RNG.standard_normal((16, 32, *kernel_size)).astype("float32")
    padding = (kernel_size[0] // 2, kernel_size[1] // 2) * 2
    weight = winograd_weight_transform(kernel, tile_size, "OIHW", 16)
    out = run(
        lambda x, w: topi.nn.conv2d_winograd_NCHWc(x, w, padding, tile_size, kernel_size),
        layout_transform(data, "NCHW", "NCHW16c"),
        weight,
    )
    assert _error(layout_transform(out, "NCHW16c", "NCHW"), conv2d_nchw(data, kernel, (1, 1), padding)) < 1e-5


def test_weight_transform_honours_the_layout():
    _, kernel = _operands(1, 16, 32, 3, 3)
    blocked = layout_transform(kernel, "OIHW", "OIHW16i16o")
    plain, again = (
        winograd_weight_transform(value, 4, layout, 16) for value, layout in ((kernel, "OIHW"), (blocked, "OIHW16i16o"))
    )
    np.testing.assert_array_equal(plain, again)


#: (batch, channels, filters, height, width), padding, (input block, output block), tile size, strides
CASES = [
    ((1, 16, 32, 14, 14), (1, 1, 1, 1), (16, 16), 4, (1, 1)),
    ((1, 16, 32, 13, 9), (1, 1, 1, 1), (16, 16), 4, (1, 1)),
    ((1, 16, 32, 13, 9), (1, 1, 1, 1), (16, 16), 2, (1, 1)),
    ((2, 32, 16, 7, 7), (1, 1, 1, 1), (16, 16), 2, (1, 1)),
    ((2, 32, 48, 5, 6), (0, 0, 0, 0), (16, 16), 4, (1, 1)),
    ((1, 24, 40, 11, 3), (2, 0, 1, 3), (8, 8), 4, (1, 1)),
    ((1, 12, 16, 3, 3), (0, 0, 0, 0), (4, 16), 4, (1, 1)),
    ((1, 64, 16, 130, 118), (1, 1, 1, 1), (16, 16), 4, (1, 1)),
    ((1, 128, 32, 66, 61), (1, 1, 1, 1), (16, 16), 2, (1, 1)),
    ((1, 32, 32, 28, 28), (0, 0, 1, 1), (16, 16), 4, (2, 2)),
    ((1, 16, 32, 13, 10), (1, 1, 1, 1), (16, 16), 2, (2, 2)),
    ((2, 32, 16, 15, 17), (0, 0, 0, 0), (8, 16), 4, (2, 2)),
    ((1, 16, 16, 9, 12), (1, 1, 1, 1), (16, 16), 2, (1, 2)),
]


@pytest.mark.parametrize(("size", "padding", "blocks", "tile_size", "strides"), CASES)
@pytest.mark.parametrize("cpu", ["cpu", "cpu -l2=65536"])
@pytest.mark.sample(8)
def test_compiled_tiles_agree_with_the_direct_convolution(size, padding, blocks, tile_size, strides, cpu):
    """With a small level-2 cache, each worker transforms its own tiles; both ways give the same bits."""
    data, kernel = _operands(*size)
    in_block, block = blocks
    packed = layout_transform(data, "NCHW", f"NCHW{in_block}c")
    weight = winograd_weight_transform(kernel, tile_size, "OIHW", block, strides)
    bias = RNG.standard_normal((1, size[2] // block, 1, 1, block)).astype("float32")
    plain = conv2d_nchw(data, kernel, strides, padding)
    expected = np.maximum(plain + layout_transform(bias, f"NCHW{block}c", "NCHW"), 0)
    operands = [te.placeholder(array.shape, name=name) for array, name in ((packed, "d"), (weight, "w"), (bias, "b"))]
    conv = topi.nn.conv2d_winograd_NCHWc(operands[0], operands[1], padding, tile_size, strides=strides)
    biased = topi.add(conv, operands[2])
    out = te.compute(biased.shape, lambda *i: tir.maximum(biased(*i), 0.0), name="relu", tag="elemwise")
    target = Target(cpu)
    func = te.lower(schedule([out], target), [*operands, out], "k")
    results = []
    for threads in (1, 3):
        result = np.full(topi.util.constant_shape(out), np.nan, "float32")
        build([func], target, threads=threads)["k"](packed, weight, bias, result)
        results.append(result)
    np.testing.assert_array_equal(results[0], results[1])
    assert _error(layout_transform(results[0], f"NCHW{block}c", "NCHW"), expected) < 1e-5


def test_half_of_the_multiplications_fold_away():
    """A selection on an unrolled index leaves one alternative: the kernel has no selections."""
    data, weight = te.placeholder((1, 1, 8, 8, 16)), te.placeholder((1, 6, 6, 16, 16))
    out = topi.nn.conv2d_winograd_NCHWc(data, weight, (0, 0, 0, 0), 4)
    func = te.lower(schedule([out], Target("cpu")), [data, weight, out], "k")
    assert "select" not in tir.to_text(func)
