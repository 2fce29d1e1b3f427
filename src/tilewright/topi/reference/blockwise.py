"""Weights of a few bits in blocks with a scale each, in NumPy: codes, packing for kernels, products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.tir.dot_product import GROUP

#: Bits of a code.
BITS = tuple(range(1, 9))

#: Bits of a code that divide a byte.
WHOLE = (1, 2, 4, 8)


def planes_of(bits: int) -> list[int]:
    """The widths of the parts that a code is stored in, low bits first: powers of two, so that they fill bytes.

    A code of 3 bits is 2 bits in one plane and 1 in another, one of 6 bits 4 and 2.
    """
    return [width for width in reversed(WHOLE) if bits & width]


def code_bits(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers of `bits` bits in the last axis of bytes: [..., n] to [..., n * 8 / bits].

    One plane after the other (`planes_of`), in each the lowest bits of a byte first.
    """
    if bits not in BITS:
        raise UnsupportedError(f"weights of {bits} bits; 1 to 8 are supported")
    count, first, below = packed.shape[-1] * 8 // bits, 0, 0
    codes = np.zeros((*packed.shape[:-1], count), np.uint8)
    for width in planes_of(bits):
        plane = packed[..., first : first + count * width // 8, None]
        fields = (plane >> np.arange(0, 8, width, dtype=np.uint8)) & np.uint8((1 << width) - 1)
        codes |= fields.reshape(codes.shape) << np.uint8(below)
        first, below = first + count * width // 8, below + width
    return codes


def packed_codes(codes: np.ndarray, bits: int) -> np.ndarray:
    """The bytes of `codes` along the last axis, plane after plane, the last byte of each filled up with zeros."""
    planes, below = [], 0
    for width in planes_of(bits):
        part = (codes.astype(np.uint8) >> np.uint8(below)) & np.uint8((1 << width) - 1)
        filled = np.pad(part, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % (8 // width))])
        fields = filled.reshape(*filled.shape[:-1], -1, 8 // width) << np.arange(0, 8, width, dtype=np.uint8)
        planes.append(np.bitwise_or.reduce(fields, axis=-1))
        below += width
    return np.concatenate(planes, axis=-1) if len(planes) > 1 else planes[0]


def step_of(bits: int) -> tuple[int, int]:
    """A kernel's step: the bytes of a lane for each of its four inputs, and the codes that they hold together."""
    fields = 8 // min(planes_of(bits))
    return fields * bits // 8, fields


def pack_weight(weight: np.ndarray, bits: int, panel: int) -> np.ndarray:
    """Weights [N, blocks, bytes] as kernels read them, [N / panel, blocks, steps * B, panel, 4], zeros behind row N.

    The bytes i of step t, one in each of B rows, hold the codes of the inputs 4 (F t + f) + i of the block, for all F
    fields f: plane after plane, fields from the lowest bits up (`step_of` has B and F).
    """
    rows_of_step, fields = step_of(bits)
    rows, blocks, _ = weight.shape
    codes = np.pad(code_bits(weight, bits), ((0, -rows % panel), (0, 0), (0, 0)))
    parts = codes.reshape(-1, panel, blocks, codes.shape[-1] // (fields * GROUP), fields, GROUP)
    stored = packed_codes(parts.swapaxes(-1, -2), bits)  # [N / panel, panel, blocks, steps, 4, B]
    steps = parts.shape[3]
    return np.ascontiguousarray(stored.transpose(0, 2, 3, 5, 1, 4)).reshape(
        -1, blocks, steps * rows_of_step, panel, GROUP
    )


def unpack_weight(packed: np.ndarray, bits: int) -> np.ndarray:
    """The codes [N, blocks, block] of what `pack_weight` made, with the rows that filled the last panel."""
    rows_of_step, fields = step_of(bits)
    panels, blocks, rows, panel, _ = packed.shape
    steps = rows // rows_of_step
    stored = packed.reshape(panels, blocks, steps, rows_of_step, panel, GROUP).transpose(0, 4, 1, 2, 5, 3)
    codes = code_bits(stored, bits).swapaxes(-1, -2)
    return codes.reshape(panels * panel, blocks, steps * fields * GROUP)


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
    table: Sequence[float] | None = None,
) -> np.ndarray:
    """`data` [..., K] times the transpose of the weights that codes, scales and zero points stand for, in float64.

    Weights and their numbers are plain, [N, blocks, bytes] and [N, blocks], or in panels. Codes stand for the numbers
    of a table if there is one.
    """
    if weight.ndim == 5:
        codes = unpack_weight(weight, bits)
        scales = scales.transpose(0, 2, 1).reshape(len(codes), -1)
        zeros = None if zeros is None else zeros.transpose(0, 2, 1).reshape(len(codes), -1)
    else:
        codes = code_bits(weight, bits)
    middle = np.float64(1 << (bits - 1)) if zeros is None else zeros.astype(np.float64)[..., None]
    meant = codes - middle if table is None else np.array(table, np.float32).astype(np.float64)[codes]
    real = meant * scales.astype(np.float64)[..., None]
    flat = real.reshape(len(codes), -1)[:units, : data.shape[-1]]
    return (data.astype(np.float64) @ flat.T).astype(data.dtype)
