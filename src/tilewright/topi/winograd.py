"""Winograd convolution: fewer multiplications and more additions, one dimension at a time.

F(m, r) computes m outputs of a convolution by r taps from m + r - 1 inputs d. With the taps g,

    out = A^T [ (G g) * (B^T d) ]        (* elementwise; summed over input channels before A^T is applied)

takes as many multiplications as B^T d has values, the points: m + r - 1 instead of m * r. The maps come from
interpolation at all but one of so many points, and infinity (Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks", 2015). In two dimensions the maps are applied to rows and then to columns, which multiplies the gains: 2.25
times fewer for F(2x2, 3x3), 4 times for F(4x4, 3x3). F(2, 3) takes the points 0, 1, -1; F(4, 3) takes
0, ±sqrt(1/2), ±sqrt(2), whose powers stay near 1: the largest error is a quarter of that of the usual 0, ±1, ±2.

A convolution of stride 2 by 3 taps is the sum of one of stride 1 by the taps 0 and 2 on the even inputs, which F(m, 2)
does in m + 1 multiplications, and one by the tap 1 on the odd inputs, which takes m: 2 m + 1 in place of 3 m. In two
dimensions that is 1.44 times fewer for m = 2 and 1.78 times fewer for m = 4.

Longer kernels take more points: F(2x2, 5x5) has those of F(4x4, 3x3), and 2.8 times fewer multiplications. F(4, 7),
for kernels of one row or column, takes 0, ±1/2, ±4/5, ±5/4, ±2, and 2.8 times fewer.

Integers stay exact (`INTEGERS`): the points are 0, ±1, ±2 and infinity, B^T has whole numbers, G is multiplied by what
makes it whole, and A^T has powers of two. Data of 9 bits become 16 bits, as do kernels of 8. Sums may wrap around in 32
bits: what comes out is a multiple of all that was multiplied by, exactly, and is divided by it modulo 2**32
(`exact_quotient`).

The functions of a `Filter` take a list of values (expressions or NumPy arrays) and return a list, with what the rows of
a matrix have in common computed once.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Transform = Callable[[Sequence[Any]], list[Any]]

#: The points of F(4, 3) other than 0 and infinity, of both signs.
_NEAR, _FAR = math.sqrt(0.5), math.sqrt(2)

#: A coefficient below this is 0 but for the rounding of its computation.
_VANISHES = 1e-9


@dataclass(frozen=True, eq=False)
class Filter:
    """One dimension of a Winograd convolution: `outputs` results of `taps` taps at `stride` at a time.

    `kernel_matrix` is G [points, taps]; `to_points` is B^T, from `inputs` values; `from_points` is A^T. The costs are
    the additions and multiplications of both, a product that is added counted once. What comes out is `scale` times the
    results.
    """

    outputs: int
    taps: int
    stride: int
    kernel_matrix: np.ndarray
    to_points: Transform
    from_points: Transform
    to_cost: int
    from_cost: int
    scale: int = 1

    @property
    def points(self) -> int:
        """Multiplications for `outputs` results."""
        return len(self.kernel_matrix)

    @property
    def inputs(self) -> int:
        """Values that one tile reads."""
        return (self.outputs - 1) * self.stride + self.taps

    @property
    def step(self) -> int:
        """The distance of the first inputs of neighbouring tiles."""
        return self.outputs * self.stride


def _to_4_points(d: Sequence[Any]) -> list[Any]:
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def _from_4_points(m: Sequence[Any]) -> list[Any]:
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


def _to_6_points(d: Sequence[Any]) -> list[Any]:
    even, odd = d[4] - d[2] * 2, (d[3] - d[1] * 2) * _NEAR
    even2, odd2 = d[4] - d[2] * 0.5, (d[3] - d[1] * 0.5) * _FAR
    first, last = d[0] + d[4] - d[2] * 2.5, d[1] + d[5] - d[3] * 2.5
    return [first, even + odd, even - odd, even2 + odd2, even2 - odd2, last]


def _from_6_points(m: Sequence[Any]) -> list[Any]:
    plus, minus, plus2, minus2 = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return [
        m[0] + plus + plus2,
        minus * _NEAR + minus2 * _FAR,
        plus * 0.5 + plus2 * 2,
        minus * (_NEAR / 2) + minus2 * (_FAR * 2) + m[5],
    ]


def _to_6_integer_points(d: Sequence[Any]) -> list[Any]:
    even, odd, even2, odd2 = d[4] - d[2] * 4, d[3] - d[1] * 4, d[4] - d[2], (d[3] - d[1]) * 2
    first, last = d[0] * 4 - d[2] * 5 + d[4], d[1] * 4 - d[3] * 5 + d[5]
    return [first, even + odd, even - odd, even2 + odd2, even2 - odd2, last]


def _from_6_integer_points(m: Sequence[Any]) -> list[Any]:
    plus, minus, plus2, minus2 = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return [m[0] + plus + plus2, minus + minus2 * 2, plus + plus2 * 4, minus + (minus2 * 2 + m[5]) * 4]


def _to_5_strided_points(d: Sequence[Any]) -> list[Any]:
    return [d[0] - d[2], d[2], d[4] - d[2], d[1], d[3]]


def _from_5_strided_points(m: Sequence[Any]) -> list[Any]:
    return [m[0] + m[1] + m[3], m[1] + m[2] + m[4]]


def _to_9_strided_points(d: Sequence[Any]) -> list[Any]:
    """F(4, 2) on the even values at the points 0, 1, -1, 2 and infinity; the odd values as they are."""
    e0, e1, e2, e3, e4 = d[0], d[2], d[4], d[6], d[8]
    outer, inner, last = e2 * 2 - e3, e1 * 2 - e2, e3 - e1
    return [e0 * 2 - e1 - outer, inner + outer, outer - inner, last, e4 - e2 - last * 2, d[1], d[3], d[5], d[7]]


def _from_9_strided_points(m: Sequence[Any]) -> list[Any]:
    plus, minus = m[1] + m[2], m[1] - m[2]
    return [
        m[0] + plus + m[3] + m[5],
        minus + m[3] * 2 + m[6],
        plus + m[3] * 4 + m[7],
        minus + m[3] * 8 + m[4] + m[8],
    ]


def _one_point(values: Sequence[Any]) -> list[Any]:
    return list(values)


_F23 = [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]
_F43 = [
    [1, 0, 0],
    [-2 / 3, -2 / 3 * _NEAR, -1 / 3],
    [-2 / 3, 2 / 3 * _NEAR, -1 / 3],
    [1 / 6, 1 / 6 * _FAR, 1 / 3],
    [1 / 6, -1 / 6 * _FAR, 1 / 3],
    [0, 0, 1],
]
_F43_INTEGERS = [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 6]]
_F23_STRIDED = [[1, 0, 0], [1, 0, 1], [0, 0, 1], [0, 1, 0], [0, 1, 0]]
_F43_STRIDED = [
    [1 / 2, 0, 0],
    [1 / 2, 0, 1 / 2],
    [1 / 6, 0, -1 / 6],
    [1 / 6, 0, 1 / 3],
    [0, 0, 1],
    *([[0, 1, 0]] * 4),
]


def _interpolated(outputs: int, taps: int, magnitudes: Sequence[float]) -> Filter:
    """F(outputs, taps) at the points 0, plus and minus each of `magnitudes`, and infinity.

    The rows of B^T for a point and its negative share their even part and differ in the sign of their odd part. Each
    row is scaled so that its largest coefficient is 1, and the row of G the other way.
    """
    finite = [0.0, *(sign * size for size in magnitudes for sign in (1, -1))]
    rows = [np.poly(finite[:j] + finite[j + 1 :])[::-1] for j in range(len(finite))]
    kernel: list[list[float]] = [
        [float(p**k / np.polyval(row[::-1], p)) for k in range(taps)] for p, row in zip(finite, rows, strict=True)
    ]
    kernel.append([0.0] * (taps - 1) + [1.0])
    rows.append(np.poly(finite)[::-1])
    scales = [np.abs(row).max() for row in rows]
    matrix = np.array(kernel) * np.array(scales)[:, None]
    scaled = [[float(c) for c in row / scale] for row, scale in zip(rows, scales, strict=True)]
    powers = [[size**k for size in magnitudes] for k in range(outputs)]

    def to_points(d: Sequence[Any]) -> list[Any]:
        result = [_weighted(d, scaled[0])]
        for row in scaled[1:-1:2]:
            even, odd = _weighted(d[::2], row[::2]), _weighted(d[1::2], row[1::2])
            result += [even + odd, even - odd]
        return [*result, _weighted(d, scaled[-1])]

    def from_points(m: Sequence[Any]) -> list[Any]:
        sums = [a + b for a, b in zip(m[1:-1:2], m[2:-1:2], strict=True)]
        differences = [a - b for a, b in zip(m[1:-1:2], m[2:-1:2], strict=True)]
        result = [_weighted(differences if k % 2 else sums, powers[k]) for k in range(outputs)]
        return [result[0] + m[0], *result[1:-1], result[-1] + m[-1]]

    to_cost = sum(_terms(row) for row in (scaled[0], scaled[-1], *scaled[1:-1:2])) + 2 * len(magnitudes)
    from_cost = (2 + outputs) * len(magnitudes) + 2
    return Filter(outputs, taps, 1, matrix, to_points, from_points, to_cost, from_cost)


def _weighted(values: Sequence[Any], factors: Sequence[float]) -> Any:
    """The sum of products, without the terms that vanish or are not scaled."""
    terms = [v if f == 1.0 else v * f for v, f in zip(values, factors, strict=False) if abs(f) > _VANISHES]
    return functools.reduce(operator.add, terms)


def _terms(factors: Sequence[float]) -> int:
    return sum(abs(f) > _VANISHES for f in factors)


_FILTERS = (
    Filter(1, 1, 1, np.array([[1]]), _one_point, _one_point, 0, 0),
    Filter(2, 3, 1, np.array(_F23), _to_4_points, _from_4_points, 4, 4),
    Filter(4, 3, 1, np.array(_F43), _to_6_points, _from_6_points, 14, 13),
    Filter(2, 3, 2, np.array(_F23_STRIDED), _to_5_strided_points, _from_5_strided_points, 2, 4),
    Filter(4, 3, 2, np.array(_F43_STRIDED), _to_9_strided_points, _from_9_strided_points, 9, 13),
    _interpolated(2, 5, (_NEAR, _FAR)),
    _interpolated(2, 7, (1.0, 2.0, 0.5)),
    _interpolated(4, 7, (0.5, 0.8, 1.25, 2.0)),
)

#: Kernels of more taps use Winograd along one dimension only: in two their rounding errors multiply.
LONGEST_SQUARE = 5

#: (outputs, taps, stride) -> filter.
FILTERS: dict[tuple[int, int, int], Filter] = {(f.outputs, f.taps, f.stride): f for f in _FILTERS}

#: The same of integers; kernels of one row or column have the filter of one tap across.
INTEGERS: dict[tuple[int, int, int], Filter] = {
    (1, 1, 1): _FILTERS[0],
    (2, 3, 1): Filter(2, 3, 1, 2 * np.array(_F23), _to_4_points, _from_4_points, 4, 4, scale=2),
    (4, 3, 1): Filter(4, 3, 1, np.array(_F43_INTEGERS), _to_6_integer_points, _from_6_integer_points, 14, 12, scale=24),
    (2, 3, 2): FILTERS[2, 3, 2],  # whole as it is
    (4, 3, 2): replace(FILTERS[4, 3, 2], kernel_matrix=np.rint(6 * np.array(_F43_STRIDED)), scale=6),
}

#: Outputs of a tile that there are filters for.
TILE_SIZES = (2, 4)


def find_filter(tile_size: int, taps: int, stride: int = 1, integers: bool = False) -> Filter | None:
    """The filter of `tile_size` outputs, for one tap that of one output; None if there is none."""
    return (INTEGERS if integers else FILTERS).get((tile_size if taps > 1 else 1, taps, stride))


def find_filters(
    tile_size: int, kernel_size: Sequence[int], strides: Sequence[int] = (1, 1), integers: bool = False
) -> tuple[Filter, Filter] | None:
    """The filters of rows and columns; None where there are none, they would round too much or save nothing."""
    rows, columns = (find_filter(tile_size, *axis, integers) for axis in zip(kernel_size, strides, strict=True))
    square = min(kernel_size) > 1 and max(kernel_size) > LONGEST_SQUARE
    return None if rows is None or columns is None or square or max(kernel_size) == 1 else (rows, columns)


def transform_kernel(taps: np.ndarray, rows: Filter, columns: Filter) -> np.ndarray:
    """G g G^T of kernels `taps` [KH, KW, ...], as [points, points, ...], in double precision."""
    half = np.tensordot(rows.kernel_matrix, taps, axes=(1, 0))
    return np.tensordot(columns.kernel_matrix, half.swapaxes(0, 1), axes=(1, 0)).swapaxes(0, 1)


def exact_quotient(multiple: Any, divisor: int, shift_right: Callable[[Any, int], Any]) -> Any:
    """`multiple` / `divisor` in int32, where it is whole, known modulo 2**32 and below 2**31 over the power of two.

    The odd part is divided by multiplying with its inverse modulo 2**32.
    """
    zeros = (divisor & -divisor).bit_length() - 1
    inverse = pow(divisor >> zeros, -1, 2**32)
    signed = inverse - 2**32 if inverse >= 2**31 else inverse
    return shift_right(multiple * signed if signed != 1 else multiple, zeros)


def exact_below(kernel_size: Sequence[int], strides: Sequence[int]) -> int:
    """The magnitude below which results of a Winograd convolution of integers are exact; 0 where there is none."""
    found = [find_filters(size, kernel_size, strides, integers=True) for size in TILE_SIZES]
    scales = [rows.scale * columns.scale for rows, columns in filter(None, found)]
    return min((2**31 // (scale & -scale) for scale in scales), default=0)
