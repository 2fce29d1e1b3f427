"""Minimal filtering (Winograd): the linear maps of F(2x2, 3x3) and F(4x4, 3x3).

A tile of m by m outputs of a 3x3 convolution needs (m + 2) by (m + 2) inputs d. With g the kernel,

    out = A^T [ (G g G^T) * (B^T d B) ] A        (* elementwise; summed over input channels before A is applied)

takes (m + 2)^2 multiplications instead of 9 m^2: 2.25 times fewer for m = 2, 4 times fewer for m = 4. The maps come
from interpolation at m + 1 points and infinity (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
2015). F(2x2) takes 0, 1, -1. F(4x4) takes 0, ±sqrt(1/2), ±sqrt(2), whose powers stay near 1: the largest error is a
quarter of that of the usual 0, ±1, ±2. The functions here apply one matrix to one dimension: they take a list of values
(expressions or NumPy arrays) and give a list, with what the rows of a matrix have in common computed once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

#: The points of F(4x4) other than 0 and infinity, of both signs.
_NEAR, _FAR = math.sqrt(0.5), math.sqrt(2)

#: G of F(m x m, 3x3) by m: kernel taps to the (m + 2) points.
KERNEL_MATRIX: dict[int, np.ndarray] = {
    2: np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]),
    4: np.array(
        [
            [1, 0, 0],
            [-2 / 3, -2 / 3 * _NEAR, -1 / 3],
            [-2 / 3, 2 / 3 * _NEAR, -1 / 3],
            [1 / 6, 1 / 6 * _FAR, 1 / 3],
            [1 / 6, -1 / 6 * _FAR, 1 / 3],
            [0, 0, 1],
        ]
    ),
}

TILE_SIZES = tuple(KERNEL_MATRIX)


def transform_input(d: Sequence[Any]) -> list[Any]:
    """B^T applied to the m + 2 values `d`."""
    if len(d) == 4:
        return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]
    even, odd = d[4] - d[2] * 2, (d[3] - d[1] * 2) * _NEAR
    even2, odd2 = d[4] - d[2] * 0.5, (d[3] - d[1] * 0.5) * _FAR
    first, last = d[0] + d[4] - d[2] * 2.5, d[1] + d[5] - d[3] * 2.5
    return [first, even + odd, even - odd, even2 + odd2, even2 - odd2, last]


def transform_output(m: Sequence[Any]) -> list[Any]:
    """A^T applied to the m + 2 values `m`."""
    if len(m) == 4:
        return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]
    plus, minus, plus2, minus2 = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return [
        m[0] + plus + plus2,
        minus * _NEAR + minus2 * _FAR,
        plus * 0.5 + plus2 * 2,
        minus * (_NEAR / 2) + minus2 * (_FAR * 2) + m[5],
    ]


def transform_kernel(taps: np.ndarray, tile_size: int) -> np.ndarray:
    """G g G^T of kernels `taps` [3, 3, ...], as [m + 2, m + 2, ...], in double precision."""
    matrix = KERNEL_MATRIX[tile_size]
    rows = np.tensordot(matrix, taps, axes=(1, 0))
    return np.tensordot(matrix, rows.swapaxes(0, 1), axes=(1, 0)).swapaxes(0, 1)
