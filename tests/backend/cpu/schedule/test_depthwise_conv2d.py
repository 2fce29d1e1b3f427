"""Depthwise convolution of blocked images, against NumPy: images whose rims, bands and tiles meet in every way."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import TARGET, run, sample
from tilewright import te, topi
from tilewright.backend.cpu.schedule.dispatch import schedule
from tilewright.backend.cpu.schedule.pad import is_pad
from tilewright.tir.expr import Mul
from tilewright.tir.stmt import For, IfThenElse
from tilewright.tir.visitor import collect

WINDOWS = [
    # kernel, stride, dilation, padding (top, left, bottom, right)
    ((3, 3), 1, 1, (1, 1, 1, 1)),
    ((3, 3), 2, 1, (1, 1, 1, 1)),
    ((3, 3), 2, 1, (0, 0, 1, 1)),
    ((5, 5), 1, 1, (2, 2, 2, 2)),
    ((5, 5), 2, 1, (2, 1, 1, 2)),
    ((3, 3), 1, 2, (2, 2, 2, 2)),
    ((3, 2), 1, 1, (0, 0, 0, 0)),
    ((5, 3), 1, 1, (4, 0, 3, 0)),
    ((7, 7), 1, 1, (3, 3, 3, 3)),
    ((9, 7), 2, 1, (4, 3, 3, 2)),
]


@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding"), WINDOWS)
@pytest.mark.parametrize("size", [(56, 16), (17, 23), (7, 7)])
@pytest.mark.sample(8)
def test_blocked_depthwise_agrees_with_numpy_at_rims_and_tails(
    kernel: tuple[int, int], stride: int, dilation: int, padding: tuple[int, int, int, int], size: tuple[int, int]
) -> None:
    data, weight = sample(1, 2, *size, 16), sample(2, 1, *kernel, 1, 16, seed=1)

    def build(x: object, w: object) -> object:
        conv = topi.nn.depthwise_conv2d_NCHWc(x, w, (stride, stride), padding, (dilation, dilation))  # type: ignore[arg-type]
        return topi.nn.relu(conv)

    top, left, bottom, right = padding
    padded = np.pad(data.astype("float64"), [(0, 0), (0, 0), (top, bottom), (left, right), (0, 0)])
    rows, columns = ((padded.shape[2 + i] - (kernel[i] - 1) * dilation - 1) // stride + 1 for i in (0, 1))
    expected = np.zeros((1, 2, rows, columns, 16))
    for y in range(kernel[0]):
        for x in range(kernel[1]):
            taps = padded[:, :, y * dilation :: stride, x * dilation :: stride][:, :, :rows, :columns]
            expected += taps * weight[None, :, :1, y : y + 1, x].transpose(0, 1, 3, 2, 4, 5)[..., 0, :]
    np.testing.assert_allclose(run(build, data, weight), np.maximum(expected, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "stride", "size", "copied"),
    [(3, 1, 112, False), (5, 1, 28, False), (5, 1, 56, True), (5, 2, 112, False), (7, 1, 56, True), (7, 1, 14, False)],
)
def test_large_windows_read_a_copy_with_borders_that_no_test_is_left_in(
    kernel: int, stride: int, size: int, copied: bool
) -> None:
    pad = kernel // 2
    x, w = (te.placeholder(shape) for shape in ((1, 1, size, size, 16), (1, 1, kernel, kernel, 1, 16)))
    out = topi.nn.depthwise_conv2d_NCHWc(x, w, (stride, stride), (pad,) * 4)
    assert is_pad(out.op.input_tensors[0]) == copied
    if copied:
        loops = te.lower(schedule([out], TARGET), [x, w, out], "k")
        sums = [node for node in collect(loops, For) if not collect(node.body, For) and collect(node.body, Mul)]
        assert sums and not any(collect(node, IfThenElse) for node in sums)


def test_wide_blocks_are_computed_a_vector_at_a_time() -> None:
    """Blocks of 64 channels, as matrix registers want them: sums of one vector of channels stay in registers."""
    data, weight = sample(1, 1, 9, 14, 64), sample(1, 1, 3, 3, 1, 64, seed=1)
    padded = np.pad(data.astype("float64"), [(0, 0), (0, 0), (1, 1), (1, 1), (0, 0)])
    expected = sum(padded[:, :, y : y + 9, x : x + 14] * weight[0, 0, y, x, 0] for y in range(3) for x in range(3))

    def build(x: object, w: object) -> object:
        return topi.nn.depthwise_conv2d_NCHWc(x, w, (1, 1), (1, 1, 1, 1), (1, 1))  # type: ignore[arg-type]

    np.testing.assert_allclose(run(build, data, weight), expected, rtol=1e-4, atol=1e-4)
    x, w = (te.placeholder(v.shape, "float32") for v in (data, weight))
    out = build(x, w)
    text = str(te.lower(schedule([out], TARGET), [x, w, out]))  # type: ignore[list-item]
    assert "64)] = " not in text
