"""Reference of Winograd convolution, in the steps of the kernels: transforms, products, transform."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.winograd import Filter, exact_quotient, find_filter, transform_kernel


def winograd_weight_transform(
    kernel: np.ndarray, tile_size: int, kernel_layout: str, block: int, strides: Sequence[int] = (1, 1)
) -> np.ndarray:
    """`kernel` in `kernel_layout` (O, I, KH, KW in some order) to [O/block, P, Q, I, block], P and Q the points.

    One block of output channels at a time, so that the double precision in between needs little memory. Of int8 they
    are int16, [O/block, P, Q, I/2, block, 2].
    """
    plain = layout_transform(kernel, kernel_layout, "OIHW")
    integers = plain.dtype == np.int8
    along = _filters(tile_size, plain.shape[2:], strides, integers)
    points = [f.points for f in along]
    dtype = np.dtype("int16") if integers else kernel.dtype
    result = np.empty((plain.shape[0] // block, *points, plain.shape[1], block), dtype)
    for index, filters in enumerate(plain.reshape(-1, block, *plain.shape[1:])):
        result[index] = transform_kernel(filters.transpose(2, 3, 1, 0), *along)
    if not integers:
        return result
    pairs = result.reshape(*result.shape[:3], -1, 2, block)
    return np.ascontiguousarray(pairs.swapaxes(-1, -2))


def _filters(tile_size: int, kernel_size: Sequence[int], strides: Sequence[int], integers: bool) -> list[Filter]:
    """The filters of rows and columns, which there are."""
    found = (find_filter(tile_size, taps, s, integers) for taps, s in zip(kernel_size, strides, strict=True))
    return [one for one in found if one is not None]


def conv2d_winograd(
    data: np.ndarray,
    weight: np.ndarray,
    padding: Sequence[int],
    tile_size: int,
    data_layout: str,
    out_layout: str,
    kernel_size: Sequence[int] = (3, 3),
    strides: Sequence[int] = (1, 1),
) -> np.ndarray:
    """`data` in `data_layout` convolved with transformed weights [O/b, P, Q, I, b]; the result in `out_layout`.

    Of int16, weights [O/b, P, Q, I/2, b, 2], it is int32.
    """
    plain = layout_transform(data, data_layout, "NCHW")
    integers = plain.dtype == np.int16
    along = _filters(tile_size, kernel_size, strides, integers)
    if integers:
        plain = plain.astype(np.int32)
        weight = weight.swapaxes(-1, -2).reshape(*weight.shape[:3], -1, weight.shape[-2]).astype(np.int32)
    down, across = along
    sizes = [
        (size + padding[i] + padding[i + 2] - f.taps) // f.stride + 1
        for i, (size, f) in enumerate(zip(plain.shape[2:], along, strict=True))
    ]
    rows, columns = (-(-size // f.outputs) for size, f in zip(sizes, along, strict=True))
    width = [(0, 0), (0, 0)]
    for i, (f, count) in enumerate(zip(along, (rows, columns), strict=True)):
        width.append((padding[i], max(0, (count - 1) * f.step + f.inputs - plain.shape[2 + i] - padding[i])))
    padded = np.pad(plain, width)

    def value(y: int, x: int) -> np.ndarray:
        return padded[:, :, y :: down.step, x :: across.step][:, :, :rows, :columns]

    half = [down.to_points([value(y, x) for y in range(down.inputs)]) for x in range(across.inputs)]
    tiles = [across.to_points([column[i] for column in half]) for i in range(down.points)]
    filters = weight.transpose(1, 2, 0, 4, 3).reshape(down.points, across.points, -1, plain.shape[1])
    products = [
        [np.einsum("ncyx,oc->noyx", tiles[i][j], filters[i, j], optimize=True) for j in range(across.points)]
        for i in range(down.points)
    ]
    half = [down.from_points([row[j] for row in products]) for j in range(across.points)]
    out = np.empty((plain.shape[0], filters.shape[2], rows, down.outputs, columns, across.outputs), plain.dtype)
    for y in range(down.outputs):
        for x, result in enumerate(across.from_points([column[y] for column in half])):
            out[:, :, :, y, :, x] = result
    if integers:
        out = exact_quotient(out, down.scale * across.scale, operator.rshift)
    whole = out.reshape(*out.shape[:2], rows * down.outputs, -1)[:, :, : sizes[0], : sizes[1]]
    return layout_transform(np.ascontiguousarray(whole), "NCHW", out_layout)
