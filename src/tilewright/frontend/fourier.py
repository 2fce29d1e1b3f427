"""Discrete Fourier transforms as products with constant matrices, real and imaginary parts apart.

Sums are in float64: the error of a plain sum grows with its length, unlike that of a fast transform.
"""

from __future__ import annotations

import numpy as np

from tilewright.frontend.idioms import cast, constant, dtype_of, rank_of, shape_of
from tilewright.frontend.product import matmul
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

Pair = tuple[Expr, Expr]


def real_transform(data: Expr, length: int) -> Pair:
    """The lines 0 … length / 2 of real signals along the last axis, cut or padded to `length`."""
    used = _fitted(data, length)
    angles = 2 * np.pi * np.outer(np.arange(shape_of(used)[-1]), np.arange(length // 2 + 1)) / length
    return _by(used, np.cos(angles)), _by(used, -np.sin(angles))


def complex_transform(real: Expr, imaginary: Expr, inverse: bool = False) -> Pair:
    """The transform along the last axis; the inverse one is divided by its length."""
    length = shape_of(real)[-1]
    angles = 2 * np.pi * np.outer(np.arange(length), np.arange(length)) / length
    scale = 1 / length if inverse else 1.0
    cosine, sine = np.cos(angles) * scale, np.sin(angles) * (scale if inverse else -scale)
    return (
        op.subtract(_by(real, cosine), _by(imaginary, sine)),
        op.add(_by(real, sine), _by(imaginary, cosine)),
    )


def real_inverse(real: Expr, imaginary: Expr, length: int) -> Expr:
    """The real signal of `length` whose transform begins with these lines: the others mirror them."""
    lines = min(shape_of(real)[-1], length // 2 + 1)
    real, imaginary = _fitted(real, lines), _fitted(imaginary, lines)
    angles = 2 * np.pi * np.outer(np.arange(lines), np.arange(length)) / length
    weight = np.where((np.arange(lines) == 0) | (2 * np.arange(lines) == length), 1.0, 2.0)[:, None] / length
    return op.subtract(_by(real, np.cos(angles) * weight), _by(imaginary, np.sin(angles) * weight))


def _fitted(data: Expr, length: int) -> Expr:
    """The first elements of the last axis, or all with zeros behind."""
    extent, rank = shape_of(data)[-1], rank_of(data)
    if extent > length:
        return op.strided_slice(data, begin=(0,), end=(length,), strides=(1,), axes=(rank - 1,))
    return data


def _by(data: Expr, matrix: np.ndarray) -> Expr:
    return cast(matmul(cast(data, "float64"), constant(matrix, "float64")), dtype_of(data))


def hann_window(length: int, kind: str = "hann") -> np.ndarray:
    """The periodic window of Hann, or of Hamming."""
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
    places = np.arange(count)[:, None] * stride + np.arange(padded)
    return op.multiply(op.take(data, Constant(places.astype(np.int32)), axis=rank - 1), constant(wide, dtype_of(data)))
