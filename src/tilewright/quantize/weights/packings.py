"""GPTQ's, AWQ's and HQQ's arrays, and int8 with a scale for each channel, as `CodedWeights`.

- GPTQ (AutoGPTQ, GPTQModel): int32 words along the depth, lowest bits first, codes of 3 bits across words.
- AWQ (AutoAWQ's GEMM version): int32 words of eight columns, in the order 0 2 4 6 1 3 5 7.
- HQQ: groups as rows; bytes, or words of ten codes of 3 bits, hold rows that lie a part of the matrix apart, the first
  one in the highest bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import ShapeError, UnsupportedError
from tilewright.quantize.weights.coded import CodedWeights, coded
from tilewright.topi.reference.blockwise import WHOLE, code_bits

Array = np.ndarray[Any, Any]

#: The column of each of the eight codes of a word, lowest bits first.
_AWQ_ORDER = np.array([0, 2, 4, 6, 1, 3, 5, 7])


def stream_codes(words: Array, bits: int) -> Array:
    """The codes in int32 words along the last axis, lowest bits first: [..., n] to [..., 32 n / bits]."""
    bytes_ = np.ascontiguousarray(words.astype("<u4", copy=False)).view(np.uint8)
    if bits in WHOLE:
        return code_bits(bytes_, bits)
    eight = bytes_.reshape(*bytes_.shape[:-1], -1, bits)
    joined = sum(eight[..., i].astype(np.uint64) << np.uint64(8 * i) for i in range(bits))
    fields = np.asarray(joined)[..., None] >> np.arange(0, 8 * bits, bits, dtype=np.uint64)
    return (fields & np.uint64((1 << bits) - 1)).astype(np.uint8).reshape(*bytes_.shape[:-1], -1)


def from_gptq(
    qweight: Array,
    scales: Array,
    qzeros: Array | None = None,
    g_idx: Array | None = None,
    bits: int = 4,
    version: int = 1,
) -> CodedWeights:
    """GPTQ's weights: `qweight` [K bits / 32, N], `scales` [G, N], `qzeros` [G, N bits / 32] and `g_idx` [K].

    Version 1 stores zero points less one, version 2 (`checkpoint_format: gptq_v2`) as they are.
    """
    if version not in (1, 2):
        raise UnsupportedError(f"version={version} of GPTQ's format; it is 1 or 2")
    codes = stream_codes(qweight.T, bits)
    units, depth = codes.shape
    zeros = None
    if qzeros is not None:
        zeros = stream_codes(qzeros, bits)[:, :units].T.astype(np.float32) + (2 - version)
        zeros = zeros.astype(np.uint8) if zeros.max() <= np.iinfo(np.uint8).max else zeros
    _check_columns("GPTQ", scales, units)
    count, group = len(scales), -(-depth // len(scales))
    if g_idx is None or np.array_equal(g_idx, np.arange(depth) // group):
        return coded(codes, bits, scales.T, zeros, group)
    if g_idx.shape != (depth,) or g_idx.min() < 0 or g_idx.max() >= count:
        raise ShapeError(f"GPTQ's g_idx has {depth} numbers below {count}, not {list(g_idx.shape)} up to {g_idx.max()}")
    plain = coded(codes, bits, np.zeros((units, count), np.float32), None, group)
    zeros = None if zeros is None or (zeros == 1 << (bits - 1)).all() else np.ascontiguousarray(zeros)
    return CodedWeights(plain.packed, bits, np.ascontiguousarray(scales.T), zeros, depth, g_idx.astype(np.int32))


def from_awq(qweight: Array, scales: Array, qzeros: Array | None = None) -> CodedWeights:
    """AWQ's weights of 4 bits: `qweight` [K, N / 8], `scales` [G, N] and `qzeros` [G, N / 8]."""
    codes = _awq_columns(qweight)
    depth, units = codes.shape
    _check_columns("AWQ", scales, units)
    zeros = None if qzeros is None else _awq_columns(qzeros).T
    return coded(np.ascontiguousarray(codes.T), 4, scales.T, zeros, -(-depth // len(scales)))


def _awq_columns(words: Array) -> Array:
    """The codes of each word in the order of their columns."""
    stored = stream_codes(words, 4).reshape(len(words), -1, len(_AWQ_ORDER))
    return stored[..., np.argsort(_AWQ_ORDER)].reshape(len(words), -1)


def from_hqq(
    w_q: Array, scale: Array, zero: Array, shape: tuple[int, int], bits: int, group_size: int, axis: int = 1
) -> CodedWeights:
    """HQQ's weights [N, K] of 8, 4, 3, 2 or 1 bits: `w_q` packed, `scale` and `zero` a float for each group."""
    if axis != 1:
        raise UnsupportedError("HQQ's groups along axis 0 lie across columns of a product; quantize with axis=1")
    units, depth = shape
    if depth % group_size:
        raise UnsupportedError(
            f"HQQ's groups of {group_size} go across rows of {depth} weights; use one that divides it"
        )
    if bits == 3:
        words, shifts = w_q.astype(np.uint32), np.arange(27, -1, -3, dtype=np.uint32)
    elif bits in WHOLE:
        words, shifts = np.ascontiguousarray(w_q).view(np.uint8), np.arange(8 - bits, -1, -bits, dtype=np.uint8)
    else:
        raise UnsupportedError(f"HQQ's weights of {bits} bits; 8, 4, 3, 2 and 1 are known")
    parts = [(words >> shift) & words.dtype.type((1 << bits) - 1) for shift in shifts]
    rows = np.concatenate(parts).astype(np.uint8).reshape(-1, group_size)
    if len(rows) * group_size < units * depth:
        raise ShapeError(f"HQQ's array {list(w_q.shape)} of {bits} bits holds no {units} by {depth} weights")
    codes = rows[: units * depth // group_size].reshape(units, depth)
    return coded(codes, bits, scale.reshape(units, -1), zero.reshape(units, -1), group_size)


def from_channels(weights: Array, scales: Array, zeros: Array | None = None) -> CodedWeights:
    """Weights int8 or uint8 [N, K] with a scale, and maybe a zero point, for each row."""
    if weights.dtype not in (np.int8, np.uint8):
        raise UnsupportedError(f"weights of a scale a channel are int8 or uint8, not {weights.dtype}")
    middle = 128 if weights.dtype == np.int8 else 0
    codes = (weights.astype(np.int16) + middle).astype(np.uint8)
    points = np.full(len(codes), middle) if zeros is None else zeros.reshape(-1).astype(np.int16) + middle
    if points.min() >= 0 and points.max() <= np.iinfo(np.uint8).max:
        points = points.astype(np.uint8)
    return coded(codes, 8, scales.reshape(-1, 1), points.reshape(-1, 1), codes.shape[1])


def _check_columns(name: str, scales: Array, units: int) -> None:
    if scales.ndim != 2 or scales.shape[1] != units:
        raise ShapeError(f"{name}'s scales are [groups, {units}], not {list(scales.shape)}")
