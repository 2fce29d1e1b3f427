"""Transposed convolutions whose stride does not divide the kernel: phases have different numbers of taps."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import TARGET, placeholders, sample
from tilewright import te, topi
from tilewright.backend import build
from tilewright.backend.cpu.schedule.dispatch import schedule


def reference(data: np.ndarray, kernel: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """Each element of `data` [1, C, H, W] times `kernel` [C, O, KH, KW], added where it lands; nothing else is."""
    _, _, height, width = data.shape
    _, filters, rows, columns = kernel.shape
    out = np.zeros((1, filters, (height - 1) * stride + rows, (width - 1) * stride + columns), np.float64)
    for y, x in np.ndindex(height, width):
        part = np.einsum("nc,cokl->nokl", data[:, :, y, x].astype(np.float64), kernel.astype(np.float64))
        out[:, :, y * stride : y * stride + rows, x * stride : x * stride + columns] += part
    return out[:, :, padding : out.shape[2] - padding, padding : out.shape[3] - padding]


@pytest.mark.parametrize(("taps", "stride", "padding"), [(3, 2, 1), (5, 3, 2), (5, 2, 0), (4, 2, 1), (2, 3, 0)])
@pytest.mark.parametrize("layout", ["NCHW", "NCHWc"])
def test_what_is_not_finite_reaches_only_what_reads_it(layout: str, taps: int, stride: int, padding: int) -> None:
    data, kernel = sample(1, 16, 6, 7), sample(16, 8, taps, taps, seed=1)
    data[0, 3, 2, 4], data[0, 9, 4, 1] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        expected = reference(data, kernel, stride, padding)
    pads, strides = (padding,) * 4, (stride,) * 2
    if layout == "NCHW":
        operands = [data, kernel]
        x, w = placeholders(operands)
        out = topi.nn.conv2d_transpose_nchw(x, w, strides, pads)
    else:
        blocked = data.reshape(1, 2, 8, 6, 7).transpose(0, 1, 3, 4, 2)
        filters = kernel.reshape(2, 8, 1, 8, taps, taps).transpose(2, 4, 5, 0, 1, 3)
        operands = [np.ascontiguousarray(blocked), np.ascontiguousarray(filters)]
        x, w = placeholders(operands)
        out = topi.nn.conv2d_transpose_NCHWc(x, w, strides, pads)
    result = np.zeros(topi.util.constant_shape(out), "float32")
    func = te.lower(schedule([out], TARGET), [x, w, out], "k")
    build([func], TARGET, threads=2)["k"](*operands, result)
    if layout == "NCHWc":
        result = result.transpose(0, 1, 4, 2, 3).reshape(expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dilation", "strides"), [((2, 1), (1, 3)), ((3, 2), (1, 1)), ((2, 2), (2, 3))])
def test_taps_between_those_of_a_dilated_kernel_multiply_nothing(
    dilation: tuple[int, int], strides: tuple[int, int]
) -> None:
    data, kernel = sample(1, 2, 6, 7), sample(2, 3, 3, 2, seed=1)
    data[0, 0, 2, 4], data[0, 1, 4, 1] = np.nan, np.inf
    span = [(size - 1) * by + 1 for size, by in zip(kernel.shape[2:], dilation)]
    expected = np.zeros((1, 3, 5 * strides[0] + span[0], 6 * strides[1] + span[1]))
    with np.errstate(invalid="ignore"):
        for y, x, ky, kx in np.ndindex(6, 7, 3, 2):
            at = (y * strides[0] + ky * dilation[0], x * strides[1] + kx * dilation[1])
            expected[(0, slice(None), *at)] += data[0, :, y, x].astype(np.float64) @ kernel[:, :, ky, kx]
    x, w = placeholders([data, kernel])
    out = topi.nn.conv2d_transpose_nchw(x, w, strides, (0,) * 4, dilation)
    result = np.zeros(topi.util.constant_shape(out), "float32")
    func = te.lower(schedule([out], TARGET), [x, w, out], "k")
    build([func], TARGET, threads=2)["k"](data, kernel, result)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
