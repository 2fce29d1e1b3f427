"""Products with weights of a few bits, in blocks along the depth that share a scale (weight-only quantization).

    y[n] = sum over blocks b of scale[n, b] * sum over k in b of x[k] * (code[n, k] - zero[n, b])

The codes are never made floats. Instead a block of `x` becomes integers, `peak / limit` times which it is, and each
integer becomes `digits` signed bytes, which dot products of bytes multiply with the codes:

    integer = digit[0] + 256 * digit[1] + 65536 * digit[2]

With three digits an integer has 24 bits, as the significand of a float32: the product is as exact as one of float32.
Two have 16 bits, and one is what onnxruntime computes at accuracy level 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir import op
from tilewright.tir.dot_product import GROUP
from tilewright.tir.look_up import expand_look_up, look_up
from tilewright.topi import tag
from tilewright.topi.nn.dense import flattened, unflattened
from tilewright.topi.reference.blockwise import planes_of, step_of
from tilewright.topi.util import extents

_SUM, _REAL = "int32", "float32"
_BYTE_BITS = 8

#: Values of a digit.
_BASE = 1 << _BYTE_BITS

#: The largest digit that has a negative counterpart.
_LARGEST = 127

#: A block whose elements are all below this counts as zeros: the reciprocal of its scale might be infinite.
_NOTHING = 2.0**-100


def _code(weight: Tensor, n: Any, k: Any, bits: int, block: int) -> Any:
    """Code `k` of row `n` of weights [N, blocks, bytes of a block]."""
    code: Any = None
    first, below = 0, 0
    for width in planes_of(bits):
        position = k % block * width
        byte = weight(n, k // block, first + position // _BYTE_BITS)
        part = byte if width == _BYTE_BITS else _bits_at(byte, (position % _BYTE_BITS).astype("uint8"), width)
        code = part if code is None else code + op.call_intrin("uint8", "shift_left", part, op.const(below, "uint8"))
        first, below = first + block * width // _BYTE_BITS, below + width
    return code


def _bits_at(byte: Any, position: Any, width: int) -> Any:
    """The `width` bits of a byte from `position` on."""
    shifted = op.call_intrin("uint8", "shift_right", byte, position)
    return op.call_intrin("uint8", "bitwise_and", shifted, op.const((1 << width) - 1, "uint8"))


def dense_blockwise(
    data: Tensor,
    weight: Tensor,
    scales: Tensor,
    zeros: Tensor | None,
    bits: int,
    table: Sequence[float] | None = None,
) -> Tensor:
    """`data` [..., K] times the transpose of weights [N, blocks, block * bits / 8] as they come: [..., N].

    `scales` and `zeros` are [N, blocks]; without zeros each is the middle of the range. With a `table` codes stand for
    its numbers, and there are no zeros.
    """
    k = te.reduce_axis((0, extents(data)[-1]), name="k")
    block = extents(weight)[-1] * _BYTE_BITS // bits

    def body(*i: Any) -> Any:
        code = _code(weight, i[-1], k, bits, block)
        if table is not None:
            meant = expand_look_up(look_up(code.astype(_SUM), table))
        else:
            middle = op.const(float(1 << (bits - 1)), _REAL)
            meant = code.astype(_REAL) - (middle if zeros is None else zeros(i[-1], k // block).astype(_REAL))
        real = meant * scales(i[-1], k // block).astype(_REAL)
        return te.sum(data(*i[:-1], k).astype(_REAL) * real, axis=k)

    out = te.compute((*data.shape[:-1], weight.shape[0]), body, name="dense_blockwise", tag=tag.DENSE)
    if data.dtype == _REAL:
        return out
    return te.compute(out.shape, lambda *i: out(*i).astype(data.dtype), tag=tag.ELEMWISE)


def dense_blockwise_pack(
    data: Tensor, weight: Tensor, scales: Tensor, zeros: Tensor | None, units: int, bits: int, digits: int
) -> Tensor:
    """`data` [..., K] times the transpose of packed weights [N/b, blocks, steps * B, b, 4], as the kernels read them.

    The bytes i of step t of a column, one in each of B rows, hold F codes, plane after plane with the lowest bits first
    (`topi/reference/blockwise.py`): of the inputs 4 (F t + f) + i of the block. Scales and zeros are [N/b, blocks, b];
    `units` columns count.

    Stages: block_peak, block_codes [rows, blocks, digits, steps, F, 4], block_total [rows, blocks];
    dense_blockwise_sums [rows, N/b, blocks, digits, b] in int32; dense_blockwise [rows, N/b, b]; blockwise_units.
    """
    panels, blocks, rows_of_weight, panel, _ = extents(weight)
    *leading, _ = extents(data)
    (held, fields), rows = step_of(bits), math.prod(leading)
    steps = rows_of_weight // held
    numbers = _Integers(data, rows, leading, blocks, (steps, fields), digits)

    step, byte = te.reduce_axis((0, steps), name="t"), te.reduce_axis((0, GROUP), name="i")

    def term(m: Any, p: Any, b: Any, d: Any, lane: Any) -> Any:
        inputs = [numbers.codes(m, b, d, step, field, byte) for field in range(fields)]
        stored = [weight(p, b, step * held + row, lane, byte) for row in range(held)]
        return te.sum(products_of_fields(stored, inputs, bits), axis=[step, byte])

    sums = te.compute((rows, panels, blocks, digits, panel), term, name="dense_blockwise_sums", tag=tag.BLOCKWISE_SUMS)
    b = te.reduce_axis((0, blocks), name="b")

    def real(m: Any, p: Any, lane: Any) -> Any:
        zero = op.const(float(1 << (bits - 1)), _REAL) if zeros is None else zeros(p, b, lane).astype(_REAL)
        value = _joined([sums(m, p, b, d, lane) for d in range(digits)]) * numbers.scale(m, b)
        return te.sum((value - zero * numbers.total(m, b)) * scales(p, b, lane).astype(_REAL), axis=b)

    facts = {"bits": bits, "digits": digits, "block": steps * fields * GROUP}
    out = te.compute((rows, panels, panel), real, "dense_blockwise", tag.DENSE_BLOCKWISE, facts)

    def unit(*i: Any) -> Any:
        return out(flattened(i[:-1], leading), i[-1] // panel, i[-1] % panel).astype(data.dtype)

    return te.compute((*leading, units), unit, name="blockwise_units", tag=tag.INJECTIVE)


def dense_of_table_pack(
    data: Tensor, weight: Tensor, scales: Tensor, units: int, bits: int, table: Sequence[float]
) -> Tensor:
    """`dense_blockwise_pack` of codes of 1, 2 or 4 bits that stand for the numbers of a table: products in float32.

    Stages: block_codes, the data in the order of a kernel's steps; dense_blockwise_sums, each with one digit.
    """
    panels, blocks, steps, panel, _ = extents(weight)
    *leading, depth = extents(data)
    _, fields = step_of(bits)
    rows, block = math.prod(leading), steps * fields * GROUP

    def element(m: Any, b: Any, _d: Any, t: Any, f: Any, i: Any) -> Any:
        at = b * block + (t * fields + f) * GROUP + i
        value = data(*unflattened(m, leading), at).astype(_REAL)
        return value if depth == blocks * block else op.if_then_else(at < depth, value, op.const(0.0, _REAL))

    inputs = te.compute((rows, blocks, 1, steps, fields, GROUP), element, "block_codes", tag.BLOCK_CODES)
    step, byte = te.reduce_axis((0, steps), name="t"), te.reduce_axis((0, GROUP), name="i")

    def term(m: Any, p: Any, b: Any, d: Any, lane: Any) -> Any:
        values = [inputs(m, b, d, step, field, byte) for field in range(fields)]
        return te.sum(products_of_table(weight(p, b, step, lane, byte), values, bits, table), axis=[step, byte])

    sums = te.compute((rows, panels, blocks, 1, panel), term, name="dense_blockwise_sums", tag=tag.BLOCKWISE_SUMS)
    b = te.reduce_axis((0, blocks), name="b")
    facts = {"bits": bits, "digits": 1, "block": block, "table": tuple(table)}
    out = te.compute(
        (rows, panels, panel),
        lambda m, p, lane: te.sum(sums(m, p, b, 0, lane) * scales(p, b, lane).astype(_REAL), axis=b),
        "dense_blockwise",
        tag.DENSE_BLOCKWISE,
        facts,
    )
    return te.compute(
        (*leading, units),
        lambda *i: out(flattened(i[:-1], leading), i[-1] // panel, i[-1] % panel).astype(data.dtype),
        name="blockwise_units",
        tag=tag.INJECTIVE,
    )


def products_of_table(byte: Any, inputs: list[Any], bits: int, table: Sequence[float]) -> Any:
    """The float32 sum of the products of the numbers that the codes in a byte stand for and one of `inputs` each."""
    total = None
    for code, value in zip(codes_of_step([byte], bits), inputs):
        product = value * look_up(code.astype(_SUM), table)
        total = product if total is None else total + product
    return total


class _Integers:
    """The stages that make integers of the blocks of `data`: `codes`, and at (row, block) their `scale` and `total`."""

    def __init__(
        self, data: Tensor, rows: Any, leading: list[Any], blocks: int, parts: tuple[int, int], digits: int
    ) -> None:
        steps, fields = parts
        depth, block = extents(data)[-1], steps * fields * GROUP
        limit = _LARGEST * _BASE ** (digits - 1)
        k, j = te.reduce_axis((0, block), name="k"), te.reduce_axis((0, block), name="k")

        def element(m: Any, b: Any, i: Any) -> Any:
            at = b * block + i
            value = data(*unflattened(m, leading), at).astype(_REAL)
            return value if depth == blocks * block else op.if_then_else(at < depth, value, op.const(0.0, _REAL))

        peak = te.compute(
            (rows, blocks), lambda m, b: te.max(op.abs(element(m, b, k)), axis=k), "block_peak", tag.BLOCK_RANGE
        )

        def integer(m: Any, b: Any, i: Any) -> Any:
            found = peak(m, b) > op.const(_NOTHING, _REAL)
            inverse = op.const(float(limit), _REAL) / peak(m, b)
            return op.round(element(m, b, i) * op.select(found, inverse, op.const(0.0, _REAL)))

        def digit(m: Any, b: Any, d: Any, t: Any, f: Any, i: Any) -> Any:
            whole = integer(m, b, (t * fields + f) * GROUP + i).astype(_SUM)
            return _digit(whole, d, digits).astype("int8")

        self.codes = te.compute(
            (rows, blocks, digits, steps, fields, GROUP), digit, name="block_codes", tag=tag.BLOCK_CODES
        )
        self.scale: Callable[..., Any] = lambda m, b: peak(m, b) * op.const(1.0 / limit, _REAL)
        whole = te.compute(
            (rows, blocks), lambda m, b: te.sum(integer(m, b, j), axis=j), "block_total", tag.BLOCK_RANGE
        )
        self.total: Callable[..., Any] = lambda m, b: whole(m, b) * self.scale(m, b)


def _digit(whole: Any, d: Any, digits: int) -> Any:
    """Digit `d` of an integer, in its lowest byte; the digits before it are signed, so half a unit of each is added."""
    halves = [sum(_BASE // 2 * _BASE**lower for lower in range(position)) for position in range(digits)]
    shifted = [
        op.call_intrin(_SUM, "shift_right", whole + op.const(half, _SUM), op.const(_BYTE_BITS * position, _SUM))
        for position, half in enumerate(halves)
    ]
    found = shifted[-1]
    for position in range(digits - 1):
        found = op.select(tir.EQ(d, op.const(position)), shifted[position], found)
    return found


def products_of_fields(stored: list[Any], inputs: list[Any], bits: int) -> Any:
    """The int32 sum of the products of the codes in the bytes `stored` and one of `inputs` each."""
    total = None
    for code, value in zip(codes_of_step(stored, bits), inputs):
        product = value.astype(_SUM) * code.astype(_SUM)
        total = product if total is None else total + product
    return total


def codes_of_step(stored: Sequence[Any], bits: int) -> list[Any]:
    """The codes in the bytes of a step (`step_of`), or in vectors of such bytes, field by field."""
    _, fields = step_of(bits)
    codes, first, below = [None] * fields, 0, 0
    for width in planes_of(bits):
        for field in range(fields):
            row, position = divmod(field * width, _BYTE_BITS)
            part = _raised_bits(stored[first + row], position, width, below)
            known = codes[field]
            codes[field] = part if known is None else op.call_intrin(part.dtype, "bitwise_or", known, part)
        first, below = first + fields * width // _BYTE_BITS, below + width
    return codes


def _raised_bits(byte: Any, position: int, width: int, below: int) -> Any:
    """The `width` bits of a byte, or of a vector of bytes, from `position` on, moved to begin at `below`."""
    if width == _BYTE_BITS:
        return byte
    name, distance = ("shift_right", position - below) if position >= below else ("shift_left", below - position)
    shifted = op.call_intrin(byte.dtype, name, byte, op.const(distance, byte.dtype)) if distance else byte
    if not below and position + width == _BYTE_BITS:
        return shifted
    return op.call_intrin(byte.dtype, "bitwise_and", shifted, op.const(((1 << width) - 1) << below, byte.dtype))


def _joined(sums: list[Any]) -> Any:
    """The float32 value of sums by digit, lowest first: two digits fit 32 bits."""
    low = sums[0] if len(sums) == 1 else sums[1] * _BASE + sums[0]
    real = low.astype(_REAL)
    return real if len(sums) < 3 else sums[2].astype(_REAL) * op.const(float(_BASE**2), _REAL) + real
