"""Discrete Fourier transforms as products with constant matrices, real and imaginary parts apart.

A long transform is two short ones, along the rows and the columns of the signal laid out as a matrix. Sums are in
float64: the error of a plain sum grows with its length, unlike that of a fast transform.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend.builders.product import matmul
from tilewright.frontend.graph_node import Labelled
from tilewright.frontend.idioms import cast, concatenate, constant, dtype_of, rank_of, reshape, shape_of, slice_axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

Pair = tuple[Expr, Expr]


#: Transforms longer than this are split in two where their length has factors, for the sake of their matrices.
_LONGEST = 512


def real_transform(data: Expr, length: int) -> Pair:
    """The lines 0 … length / 2 of real signals along the last axis, cut or padded to `length`."""
    used = _fitted(data, length)
    have, lines = shape_of(used)[-1], length // 2 + 1
    if have == length and _factor(length) > 1:
        whole = complex_transform(used, op.zeros_like(used))
        return _fitted(whole[0], lines), _fitted(whole[1], lines)
    angles = 2 * np.pi * np.outer(np.arange(have), np.arange(lines)) / length
    wide = cast(used, "float64")
    return cast(_by(wide, np.cos(angles)), dtype_of(data)), cast(_by(wide, -np.sin(angles)), dtype_of(data))


def complex_transform(real: Expr, imaginary: Expr, inverse: bool = False) -> Pair:
    """The transform along the last axis; the inverse one is divided by its length."""
    kind, length = dtype_of(real), shape_of(real)[-1]
    made = _transform(cast(real, "float64"), cast(imaginary, "float64"), 1 if inverse else -1)
    scale = constant(1 / length if inverse else 1, "float64")
    first, second = (part * scale if inverse else part for part in made)
    return cast(first, kind), cast(second, kind)


def _transform(real: Expr, imaginary: Expr, sign: int) -> Pair:
    """Sums of exp(sign 2 pi i j k / n) times the elements, by n, as one product or those of two factors of n."""
    *lead, length = shape_of(real)
    rows = _factor(length)
    if rows == 1:
        angles = sign * 2 * np.pi * np.outer(np.arange(length), np.arange(length)) / length
        return _times((real, imaginary), _by, np.cos(angles), np.sin(angles))
    columns, rank = length // rows, len(lead)
    swap = (*range(rank), rank + 1, rank)

    def along(parts: Pair, extents: tuple[int, int]) -> Pair:
        """The transform along the first of two axes, which becomes the last."""
        first, second = (op.transpose(reshape(part, (*lead, *extents)), axes=swap) for part in parts)
        return _transform(first, second, sign)

    turned = along((real, imaginary), (rows, columns))
    angles = sign * 2 * np.pi * np.outer(np.arange(columns), np.arange(rows)) / length
    turned = _times(turned, _scaled, np.cos(angles), np.sin(angles))
    made = along(turned, (columns, rows))
    return tuple(reshape(op.transpose(part, axes=swap), (*lead, length)) for part in made)  # type: ignore[return-value]


def _times(parts: Pair, product: Callable[[Expr, np.ndarray], Expr], real: np.ndarray, imaginary: np.ndarray) -> Pair:
    """The complex product, in the sense of `product`, of a tensor and a constant."""
    return (
        product(parts[0], real) - product(parts[1], imaginary),
        product(parts[0], imaginary) + product(parts[1], real),
    )


def _factor(length: int) -> int:
    """The factor of a length nearest below its root; 1 where it needs no split, or has none."""
    if length <= _LONGEST:
        return 1
    return max(factor for factor in range(1, math.isqrt(length) + 1) if length % factor == 0)


def real_inverse(real: Expr, imaginary: Expr, length: int) -> Expr:
    """The real signal of `length` whose transform begins with these lines: the others mirror them."""
    kind, have = dtype_of(real), min(shape_of(real)[-1], length // 2 + 1)
    real, imaginary = (cast(_fitted(part, have), "float64") for part in (real, imaginary))
    if have == length // 2 + 1 and _factor(length) > 1:
        last, other = rank_of(real) - 1, _purely_real(imaginary, length)
        real = concatenate([real, _mirrored(real, length)], last)
        imaginary = concatenate([other, -_mirrored(imaginary, length)], last)
        return cast(complex_transform(real, imaginary, inverse=True)[0], kind)
    angles = 2 * np.pi * np.outer(np.arange(have), np.arange(length)) / length
    weight = np.where((np.arange(have) == 0) | (2 * np.arange(have) == length), 1.0, 2.0)[:, None] / length
    made = _by(real, np.cos(angles) * weight) - _by(imaginary, np.sin(angles) * weight)
    return cast(made, kind)


def _mirrored(lines: Expr, length: int) -> Expr:
    """The lines behind the first half, of which those but the first (and the middle one) are the mirror."""
    positions = np.arange(length - length // 2 - 1, 0, -1).astype(np.int32)
    return op.take(lines, Constant(positions), axis=rank_of(lines) - 1)


def _purely_real(imaginary: Expr, length: int) -> Expr:
    """The imaginary parts, 0 for the first line and the middle one: a real signal has none there."""
    lines = np.arange(length // 2 + 1)
    return _scaled(imaginary, ((lines > 0) & (2 * lines != length)).astype(np.float64))


def _fitted(data: Expr, length: int) -> Expr:
    """The first elements of the last axis, or all where there are fewer: zeros behind them add nothing."""
    return slice_axis(data, rank_of(data) - 1, 0, min(shape_of(data)[-1], length))


def _by(data: Expr, matrix: np.ndarray) -> Expr:
    return matmul(data, constant(matrix, "float64"))


def _scaled(data: Expr, factors: np.ndarray) -> Expr:
    return data * constant(factors, "float64")


def periodic_window(node: Labelled, kind: Any, length: int) -> np.ndarray:
    """The periodic window of Hann ("hann"), or of Hamming ("hamming"); None is ones."""
    if kind not in ("hann", "hamming", None):
        node.unsupported(f"the window {kind!r}")
    if kind is None:
        return np.ones(length)
    edge = 0.5 if kind == "hann" else 0.54
    return edge - (1 - edge) * np.cos(2 * np.pi * np.arange(length) / length)


def frames_of(data: Expr, length: int, stride: int, padded: int, window: np.ndarray, center: bool = True) -> Expr:
    """[…, frames, padded]: windows of a signal, which is mirrored at its ends where frames are centred."""
    rank = rank_of(data)
    if center:
        width = [(0, 0)] * (rank - 1) + [(padded // 2, padded // 2)]
        data = op.nn.pad(data, pad_width=width, pad_mode="reflect")
    before = (padded - length) // 2
    wide = np.pad(window, (before, padded - length - before))
    count = (shape_of(data)[-1] - padded) // stride + 1
    positions = np.arange(count)[:, None] * stride + np.arange(padded)
    return op.take(data, Constant(positions.astype(np.int32)), axis=rank - 1) * constant(wide, dtype_of(data))
