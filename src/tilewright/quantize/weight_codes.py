"""Codes of a few bits for weights in blocks along the depth: scales of least squared error, and rounding by data.

w[n, k] is about (code[n, k] - zero[n, b]) * scale[n, b] for k in block b; symmetric codes have the middle as zero.

With the second moments of the data, H = X^T X, the columns that are still floats make up for the rounding error of each
column, as far as H couples them (Frantar et al., "GPTQ", ICLR 2023); scales then weigh columns by H's diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Bits of a code of weights.
BITS = tuple(range(2, 9))
#: Sizes of blocks that kernels and the ONNX operators take.
BLOCKS = (16, 32, 64, 128, 256)
#: The least scale that the search tries, as a share of what the largest element needs, and how many up to the largest;
#: 8 bits gain nothing by a search.
_LEAST_SHARE, _TRIED = 0.7, 16
_FINE_BITS = 8
#: Elements whose codes are searched at once: their temporaries stay in the last cache.
_CHUNK = 1 << 18
#: The share of the mean of H's diagonal that is added to it, so that it can be inverted.
_DAMPING = 0.01


@dataclass(frozen=True)
class CodedWeights:
    """Codes uint8[N, blocks, block], scales float32[N, blocks] and zero points uint8[N, blocks] of a weight [N, depth].

    Without zero points each is the middle, 2 ** (bits - 1).
    """

    codes: Array
    scales: Array
    zeros: Array | None
    bits: int
    depth: int

    @property
    def block(self) -> int:
        """Elements of a block."""
        return int(self.codes.shape[2])

    def floats(self) -> Array:
        """The weights that the codes stand for, float32[N, depth]."""
        zeros = np.float32(1 << (self.bits - 1)) if self.zeros is None else self.zeros[..., None].astype(np.float32)
        real = (self.codes.astype(np.float32) - zeros) * self.scales[..., None]
        return np.ascontiguousarray(real.reshape(len(real), -1)[:, : self.depth])


def block_for(depth: int, block: int) -> int:
    """The block of a weight of this depth: no longer than it must be to hold it."""
    return next(one for one in BLOCKS if one >= min(depth, block))


def coded_weights(weight: Array, bits: int, block: int, symmetric: bool, moments: Array | None = None) -> CodedWeights:
    """The codes of `weight` [N, depth]; with the `moments` [depth, depth] of its data, errors are made up for."""
    depth = weight.shape[1]
    block = block_for(depth, block)
    if moments is not None:
        return _compensated(weight, bits, block, symmetric, moments)
    blocks = np.pad(weight.astype(np.float32), ((0, 0), (0, -depth % block))).reshape(len(weight), -1, block)
    step = max(_CHUNK // (blocks.shape[1] * block), 1)
    parts = [_searched(blocks[i : i + step], bits, symmetric, None) for i in range(0, len(blocks), step)]
    codes, scales, zeros = (np.concatenate(one) for one in zip(*parts, strict=True))
    return CodedWeights(codes, scales, None if symmetric else zeros, bits, depth)


def _searched(blocks: Array, bits: int, symmetric: bool, importance: Array | None) -> tuple[Array, Array, Array]:
    """Codes, scales and zero points of `blocks` [..., block] with the least squared error of those tried."""
    most = np.float32((1 << bits) - 1)
    # powers of two: squares of large or small elements stay within float32
    exponent = np.frexp(np.abs(blocks).max(axis=-1))[1]
    blocks = np.ldexp(blocks, -exponent[..., None])
    weigh = np.float32(1.0) if importance is None else importance.astype(np.float32)
    best = np.full(blocks.shape[:-1], np.inf, np.float32)
    codes = np.zeros(blocks.shape, np.uint8)
    scales, zeros = np.ones(best.shape, np.float32), np.full(best.shape, 1 << (bits - 1), np.uint8)
    for scale, zero in _symmetric_tries(blocks, bits) + ([] if symmetric else _asymmetric_tries(blocks, bits)):
        whole = np.rint(blocks / scale[..., None])
        whole += zero[..., None]
        np.clip(whole, 0, most, out=whole)
        shifted = whole - zero[..., None]
        # the scale of least error for these codes
        square = np.sum(weigh * shifted * shifted, axis=-1)
        fitted = np.sum(weigh * shifted * blocks, axis=-1) / np.maximum(square, np.float32(1e-30))
        fitted = np.where((square > 0) & (np.abs(fitted) > np.finfo(np.float32).tiny), fitted, scale)
        error = np.sum(weigh * (blocks - shifted * fitted[..., None]) ** 2, axis=-1)
        better = error < best
        best[better], scales[better], zeros[better] = error[better], fitted[better], zero[better]
        codes[better] = whole[better]
    return codes, np.ldexp(scales, exponent), zeros


def _symmetric_tries(blocks: Array, bits: int) -> list[tuple[Array, Array]]:
    """Scales of either sign: one more code lies below the middle than above."""
    middle = 1 << (bits - 1)
    low, high = blocks.min(axis=-1), blocks.max(axis=-1)
    largest = np.where(-low > high, low, high)
    unit = _usable(largest / -middle)
    # with the last share the largest element has the last code on the shorter side
    most = middle / (middle - 1)
    shares = np.linspace(_LEAST_SHARE, most, _TRIED) if bits < _FINE_BITS else np.array([1.0, most])
    zero = np.full(unit.shape, middle, np.float32)
    return [(unit * np.float32(share), zero) for share in (*shares, *-shares)]


def _asymmetric_tries(blocks: Array, bits: int) -> list[tuple[Array, Array]]:
    """Scales and zero points of ranges that hold zero, with both ends cut off by as much."""
    most = (1 << bits) - 1
    low, high = np.minimum(blocks.min(axis=-1), 0), np.maximum(blocks.max(axis=-1), 0)
    found = []
    for share in (1.0,) if bits >= _FINE_BITS else np.linspace(_LEAST_SHARE, 1.0, _TRIED):
        unit = _usable((high - low) * np.float32(share / most))
        found.append((unit, np.clip(np.rint(-low * np.float32(share) / unit), 0, most)))
    return found


def _usable(scale: Array) -> Array:
    """The scales, 1 for those of blocks of zeros."""
    return np.where(np.abs(scale) > np.finfo(np.float32).tiny, scale, np.float32(1.0)).astype(np.float32)


def _compensated(weight: Array, bits: int, block: int, symmetric: bool, moments: Array) -> CodedWeights:
    """Codes column by column, the error of each made up for by the columns behind it."""
    count, depth = weight.shape
    importance = np.pad(np.maximum(np.diag(moments), 1e-12), (0, -depth % block), constant_values=1e-12)
    factor = _inverse_factor(moments)
    left = weight.astype(np.float64)
    blocks = -(-depth // block)
    codes = np.zeros((count, blocks, block), np.uint8)
    scales, zeros = np.ones((count, blocks), np.float32), np.zeros((count, blocks), np.uint8)
    for b in range(blocks):
        begin, end = b * block, min((b + 1) * block, depth)
        width = end - begin
        own = np.pad(left[:, begin:end], ((0, 0), (0, block - width))).astype(np.float32)
        weigh = importance[begin : begin + block]
        codes[:, b], scales[:, b], zeros[:, b] = _searched(own, bits, symmetric, weigh / weigh.mean())
        errors = np.zeros((count, width))
        scale, zero = scales[:, b].astype(np.float64), zeros[:, b].astype(np.float64)
        for k in range(width):
            column = left[:, begin + k]
            code = np.clip(np.rint(column / scale) + zero, 0, (1 << bits) - 1)
            codes[:, b, k] = code
            errors[:, k] = (column - (code - zero) * scale) / factor[begin + k, begin + k]
            left[:, begin + k : end] -= errors[:, k : k + 1] * factor[begin + k, begin + k : end]
        left[:, end:] -= errors @ factor[begin:end, end:]
        codes[:, b, width:] = zeros[:, b, None]
    return CodedWeights(codes, scales, None if symmetric else zeros, bits, depth)


def _inverse_factor(moments: Array) -> Array:
    """The upper factor U of the inverse of the damped moments, U^T U."""
    damped = moments.astype(np.float64) + np.eye(len(moments)) * max(_DAMPING * np.trace(moments) / len(moments), 1e-12)
    return np.linalg.cholesky(np.linalg.inv(damped)).T


def noise(weight: Array, coded: CodedWeights, moments: Array | None = None) -> tuple[float, float]:
    """Squares of weights and of their errors, or of the products with data of these `moments` and of their errors."""
    exact = weight.astype(np.float64)
    error = exact - coded.floats()
    if moments is None:
        return float(np.sum(exact**2)), float(np.sum(error**2))
    return float(np.sum((exact @ moments) * exact)), float(np.sum((error @ moments) * error))
