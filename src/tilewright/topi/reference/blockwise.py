"""Weights of a few bits in blocks with a scale each, in NumPy: codes, packing for kernels, products."""

from __future__ import annotations

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.tir.dot_product import GROUP

#: Bits of a code that divide a byte.
BITS = (2, 4, 8)


def code_bits(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers of `bits` bits in the last axis of bytes, lowest bits first: [..., n] to [..., n * 8 / bits]."""
    if bits not in BITS:
        raise UnsupportedError(f"weights of {bits} bits; 2, 4 and 8 are supported")
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(*packed.shape[:-1], -1)


def packed_codes(codes: np.ndarray, bits: int) -> np.ndarray:
    """The bytes of `codes` along the last axis, lowest bits first, the last byte filled up with zeros."""
    per_byte = 8 // bits
    filled = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % per_byte)])
    fields = filled.reshape(*filled.shape[:-1], -1, per_byte).astype(np.uint8)
    shifted = fields << np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(shifted, axis=-1)


def pack_weight(weight: np.ndarray, bits: int, panel: int) -> np.ndarray:
    """Weights [N, blocks, bytes] as kernels read them, [N / panel, blocks, steps, panel, 4], with zeros behind row N.

    Byte i of step t has one code in each of its fields, of the inputs 4 (F t + f) + i of the block.
    """
    fields = 8 // bits
    rows, blocks, _ = weight.shape
    codes = np.pad(code_bits(weight, bits), ((0, -rows % panel), (0, 0), (0, 0)))
    parts = codes.reshape(-1, panel, blocks, codes.shape[-1] // (fields * GROUP), fields, GROUP)
    shifted = parts << np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    return np.ascontiguousarray(np.bitwise_or.reduce(shifted, axis=4).transpose(0, 2, 3, 1, 4))


def unpack_weight(packed: np.ndarray, bits: int) -> np.ndarray:
    """The codes [N, blocks, block] of what `pack_weight` made, with the rows that filled the last panel."""
    panels, blocks, steps, panel, _ = packed.shape
    fields = packed[:, :, :, None] >> np.arange(0, 8, bits, dtype=np.uint8)[:, None, None]
    codes = (fields & np.uint8((1 << bits) - 1)).transpose(0, 4, 1, 2, 3, 5)
    return codes.reshape(panels * panel, blocks, steps * (8 // bits) * GROUP)


def pack_rows(values: np.ndarray, panel: int) -> np.ndarray:
    """Scales or zero points [N, blocks] in panels, [N / panel, blocks, panel]."""
    filled = np.pad(values, ((0, -len(values) % panel), (0, 0)))
    return np.ascontiguousarray(filled.reshape(-1, panel, values.shape[1]).transpose(0, 2, 1))


def dense_blockwise(
    data: np.ndarray,
    weight: np.ndarray,
    scales: np.ndarray,
    zeros: np.ndarray | None = None,
    bits: int = 4,
    units: int | None = None,
) -> np.ndarray:
    """`data` [..., K] times the transpose of the weights that codes, scales and zero points stand for, in float64.

    Weights and their numbers are plain, [N, blocks, bytes] and [N, blocks], or in panels.
    """
    if weight.ndim == 5:
        codes = unpack_weight(weight, bits)
        scales = scales.transpose(0, 2, 1).reshape(len(codes), -1)
        zeros = None if zeros is None else zeros.transpose(0, 2, 1).reshape(len(codes), -1)
    else:
        codes = code_bits(weight, bits)
    middle = np.float64(1 << (bits - 1)) if zeros is None else zeros.astype(np.float64)[..., None]
    real = (codes - middle) * scales.astype(np.float64)[..., None]
    flat = real.reshape(len(codes), -1)[:units, : data.shape[-1]]
    return (data.astype(np.float64) @ flat.T).astype(data.dtype)
