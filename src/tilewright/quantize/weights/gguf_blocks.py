"""GGUF's blocks as `CodedWeights`: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, the K-quants Q2_K to Q6_K, and those of a table of 16
numbers, IQ4_NL, IQ4_XS and MXFP4.

Layouts of blocks are those of ggml (ggml-common.h): numbers in float16 before or behind the codes, whose halves or
quarters share bytes. K-quants have 256 weights with two numbers of 16 bits, and one of 4 to 8 bits for each sub-block;
their products are kept, in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import ShapeError, UnsupportedError
from tilewright.quantize.weights.coded import CodedWeights, affine, coded

Array = np.ndarray[Any, Any]


class _Blocks:
    """The bytes of blocks [rows, blocks, bytes], taken from the front."""

    def __init__(self, data: Array, size: int) -> None:
        self.data = data.reshape(len(data), -1, size)

    def bytes_(self, count: int) -> Array:
        """The next bytes, [rows, blocks, count]."""
        taken, self.data = self.data[..., :count], self.data[..., count:]
        return taken

    def half(self) -> Array:
        """The next number of 16 bits, [rows, blocks]."""
        return np.ascontiguousarray(self.bytes_(2)).view(np.float16)[..., 0]

    def fields(self, count: int, bits: int, run: int) -> Array:
        """Codes of `bits` bits in the next bytes: each `run` of bytes has its lowest bits first, then the next ones."""
        shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
        parts = self.bytes_(count)
        found = (parts.reshape(*parts.shape[:2], -1, 1, run) >> shifts) & np.uint8((1 << bits) - 1)
        return found.reshape(*parts.shape[:2], -1)


def _flat(codes: Array) -> Array:
    return np.ascontiguousarray(codes.reshape(len(codes), -1))


def _legacy(bits: int, has_offset: bool) -> Callable[[_Blocks], CodedWeights]:
    """Blocks of 32 with a scale, and maybe an offset, in float16."""

    def read(blocks: _Blocks) -> CodedWeights:
        scales = blocks.half()
        offsets = blocks.half() if has_offset else None
        if bits == 8:
            return coded(_flat(blocks.bytes_(32) ^ np.uint8(128)), 8, scales, None, 32)
        high = np.unpackbits(blocks.bytes_(4), axis=-1, bitorder="little") if bits == 5 else None
        codes = blocks.fields(16, 4, 16)
        codes = codes if high is None else codes | high << 4
        if offsets is None:
            return coded(_flat(codes), bits, scales, None, 32)
        return affine(_flat(codes), bits, scales.astype(np.float32), offsets.astype(np.float32), 32)

    return read


def _six_bits(packed: Array) -> tuple[Array, Array]:
    """The eight scales and eight minima of 6 bits in twelve bytes of Q4_K and Q5_K."""
    first, second, third = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], axis=-1)
    minima = np.concatenate([second & 63, third >> 4 | (second >> 6) << 4], axis=-1)
    return scales, minima


def _product(number: Array, small: Array) -> Array:
    """[rows, blocks * sub-blocks]: a number of each block times those of its sub-blocks, exact in float32."""
    return _flat(number.astype(np.float32)[..., None] * small.astype(np.float32))


def _q2_k(blocks: _Blocks) -> CodedWeights:
    packed = blocks.bytes_(16)
    codes = blocks.fields(64, 2, 32)
    scale, least = blocks.half(), blocks.half()
    return affine(_flat(codes), 2, _product(scale, packed & 15), -_product(least, packed >> 4), 16)


def _q3_k(blocks: _Blocks) -> CodedWeights:
    """Sub-blocks of 16 are shorter than a step of 3 bits: these have 4."""
    high, codes = blocks.fields(32, 1, 32), blocks.fields(64, 2, 32)
    packed, scale = blocks.bytes_(12), blocks.half()
    low = np.concatenate([packed[..., :8] & 15, packed[..., :8] >> 4], axis=-1)
    upper = (packed[..., None, 8:] >> np.array([[0], [2], [4], [6]], np.uint8)) & np.uint8(3)
    small = (low | upper.reshape(low.shape) << 4).astype(np.int8) - np.int8(32)
    # A bit that is not set stands for -4: of codes around 8 that is 4 to 11.
    return coded(_flat((codes | high << 2) + np.uint8(4)), 4, _product(scale, small), None, 16)


def _q4_k(blocks: _Blocks) -> CodedWeights:
    scale, least = blocks.half(), blocks.half()
    scales, minima = _six_bits(blocks.bytes_(12))
    codes = blocks.fields(128, 4, 32)
    return affine(_flat(codes), 4, _product(scale, scales), -_product(least, minima), 32)


def _q5_k(blocks: _Blocks) -> CodedWeights:
    scale, least = blocks.half(), blocks.half()
    scales, minima = _six_bits(blocks.bytes_(12))
    high = blocks.fields(32, 1, 32)
    codes = blocks.fields(128, 4, 32) | high << 4
    return affine(_flat(codes), 5, _product(scale, scales), -_product(least, minima), 32)


def _q6_k(blocks: _Blocks) -> CodedWeights:
    low, high = blocks.fields(128, 4, 64), blocks.fields(64, 2, 32)
    small = np.ascontiguousarray(blocks.bytes_(16)).view(np.int8)
    return coded(_flat(low | high << 4), 6, _product(blocks.half(), small), None, 16)


#: The numbers that codes of IQ4_NL and IQ4_XS stand for, and those of MXFP4 (OCP's E2M1).
_UNEVEN = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_E2M1 = tuple(sign * x for sign in (1, -1) for x in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0))


def _iq4_nl(blocks: _Blocks) -> CodedWeights:
    scales = blocks.half()
    return coded(_flat(blocks.fields(16, 4, 16)), 4, scales, None, 32, _UNEVEN)


def _iq4_xs(blocks: _Blocks) -> CodedWeights:
    scale, high = blocks.half(), np.ascontiguousarray(blocks.bytes_(2)).view(np.uint16)
    low = blocks.bytes_(4)[..., None] >> np.array([0, 4], np.uint8) & np.uint8(15)
    upper = (high >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)).astype(np.uint8)
    small = (low.reshape(upper.shape) | upper << 4).astype(np.int8) - np.int8(32)
    return coded(_flat(blocks.fields(128, 4, 16)), 4, _product(scale, small), None, 32, _UNEVEN)


def _mxfp4(blocks: _Blocks) -> CodedWeights:
    """A power of two for each block of 32: the exponent of a float32."""
    scales = np.ldexp(np.float32(1), blocks.bytes_(1)[..., 0].astype(np.int32) - 127)
    return coded(_flat(blocks.fields(16, 4, 16)), 4, scales, None, 32, _E2M1)


#: By ggml's name of a type: weights and bytes of a block, and its reader.
GGUF_TYPES: dict[str, tuple[int, int, Callable[[_Blocks], CodedWeights]]] = {
    "Q4_0": (32, 18, _legacy(4, False)),
    "Q4_1": (32, 20, _legacy(4, True)),
    "Q5_0": (32, 22, _legacy(5, False)),
    "Q5_1": (32, 24, _legacy(5, True)),
    "Q8_0": (32, 34, _legacy(8, False)),
    "Q2_K": (256, 84, _q2_k),
    "Q3_K": (256, 110, _q3_k),
    "Q4_K": (256, 144, _q4_k),
    "Q5_K": (256, 176, _q5_k),
    "Q6_K": (256, 210, _q6_k),
    "IQ4_NL": (32, 18, _iq4_nl),
    "IQ4_XS": (256, 136, _iq4_xs),
    "MXFP4": (32, 17, _mxfp4),
}


def from_gguf(data: Array, kind: str) -> CodedWeights:
    """Weights [N, K] of GGUF's type `kind`, such as "Q4_K", in bytes [N, bytes of a row]."""
    if kind not in GGUF_TYPES:
        raise UnsupportedError(f"weights of GGUF's type {kind}; supported: {', '.join(GGUF_TYPES)}")
    _, size, read = GGUF_TYPES[kind]
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] % size:
        raise ShapeError(f"rows of {kind} are bytes, a multiple of {size}, not {data.dtype}{list(data.shape)}")
    return read(_Blocks(data, size))
