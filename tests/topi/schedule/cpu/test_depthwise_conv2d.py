"""Depthwise convolution of blocked images, against NumPy: images whose rims, bands and tiles meet in every way."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.schedule.cpu.kernels import run, sample
from tilewright import topi

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
]


@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding"), WINDOWS)
@pytest.mark.parametrize("size", [(56, 16), (17, 23), (7, 7)])
def test_depthwise(
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
