"""Reference of convolution by minimal filtering, in the steps of the kernels: transforms, products, transform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.winograd import transform_input, transform_kernel, transform_output


def winograd_weight_transform(kernel: np.ndarray, tile_size: int, kernel_layout: str, block: int) -> np.ndarray:
    """`kernel` in `kernel_layout` (O, I, 3, 3 in some order) to [O/block, m+2, m+2, I, block].

    One block of output channels at a time, so that the double precision in between needs little memory.
    """
    plain = layout_transform(kernel, kernel_layout, "OIHW")
    points = tile_size + 2
    result = np.empty((plain.shape[0] // block, points, points, plain.shape[1], block), kernel.dtype)
    for index, filters in enumerate(plain.reshape(-1, block, *plain.shape[1:])):
        result[index] = transform_kernel(filters.transpose(2, 3, 1, 0), tile_size)
    return result


def conv2d_winograd(
    data: np.ndarray, weight: np.ndarray, padding: Sequence[int], tile_size: int, data_layout: str, out_layout: str
) -> np.ndarray:
    """`data` in `data_layout` convolved with transformed weights [O/b, m+2, m+2, I, b]; the result in `out_layout`."""
    plain = layout_transform(data, data_layout, "NCHW")
    n, channels, height, width = plain.shape
    top, left, bottom, right = padding
    oh, ow = height + top + bottom - 2, width + left + right - 2
    rows, columns = -(-oh // tile_size), -(-ow // tile_size)
    hang = (bottom + rows * tile_size - oh, right + columns * tile_size - ow)
    padded = np.pad(plain, ((0, 0), (0, 0), (top, hang[0]), (left, hang[1])))

    def taps(y: int, x: int) -> np.ndarray:
        tapped = padded[..., y : y + rows * tile_size : tile_size, x : x + columns * tile_size : tile_size]
        return tapped[:, :, :rows, :columns]

    points = range(tile_size + 2)
    half = [transform_input([taps(y, x) for y in points]) for x in points]
    tiles = [transform_input([half[x][i] for x in points]) for i in points]
    filters = weight.transpose(1, 2, 0, 4, 3).reshape(len(points), len(points), -1, channels)
    products = [[np.einsum("ncyx,oc->noyx", tiles[i][j], filters[i, j], optimize=True) for j in points] for i in points]
    half = [transform_output([products[i][j] for i in points]) for j in points]
    out = np.empty((n, filters.shape[2], rows, tile_size, columns, tile_size), data.dtype)
    for y in range(tile_size):
        for x, value in enumerate(transform_output([half[j][y] for j in points])):
            out[:, :, :, y, :, x] = value
    whole = out.reshape(n, -1, rows * tile_size, columns * tile_size)[:, :, :oh, :ow]
    return layout_transform(np.ascontiguousarray(whole), "NCHW", out_layout)
