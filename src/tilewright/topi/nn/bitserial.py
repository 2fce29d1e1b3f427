"""Products of data of 1 to 8 and weights of 1 to 4 bits, from their bits: by popcounts, or by lookups of partial sums.

A weight is sum over planes j of 2^j times its bit, `scale` times that less `offset`. So a product needs the sums of
data under the ones of each plane, and the sum of all data of the window where there is an offset:

    y[o] = scale * sum over j of 2^j * S[j, o] - offset * sum of data
    S[j, o] = sum over k of data[k] * bit[j, o, k]

`popcount` splits data into planes as well, S = sum over i of 2^i * popcount(data plane i & weight plane j), in words of
32 channels, or in `popcount_bytes` of eight, whose counts are added in bytes and widened before they overflow. `lookup`
keeps data whole (T-MAC, Wei et al., 2024): four bits of a plane of the weights, a nibble, name one of the 16 sums of
four data, which are a table that one instruction looks up for all lanes. Data of more than four bits are two digits of
four with a table each.

Weights are packed (`topi/reference/bitserial.py`): words [O/L, KH, KW, words, planes, L], bytes
[O/L, KH, KW, chunks, steps, planes, L/h, h], each byte eight channels of a plane, lowest bits first. The L output
channels of a panel lie so that every h-th byte belongs to neighbours: widening needs masks and shifts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir import op
from tilewright.tir.table_lookup import ENTRIES
from tilewright.topi import tag
from tilewright.topi.bitserial_form import (
    BYTE,
    DIGIT,
    LOOKUP,
    NIBBLE,
    POPCOUNT,
    POPCOUNT_BYTES,
    WORD,
    BitSerial,
    padded_channels,
)
from tilewright.topi.nn.conv2d import output_size
from tilewright.topi.util import extents

_SUM = "int32"


def bitserial_conv2d_pack(
    data: Tensor, weight: Tensor, how: BitSerial, strides: Sequence[int], padding: Sequence[int]
) -> Tensor:
    """Images [N, H, W, C] of integers, of which the lowest bits count, and packed weights: int32 [N, OH, OW, units].

    Stages: bit_codes (bytes with zeros around), bit_planes or bit_tables, bit_pixels and bit_windows (sums of data,
    with an offset), bit_bytes (unless words), bitserial_conv2d [N, OH, OW, O/L, planes …, L], bitserial_units.
    """
    return _product(_Images(data, weight, how, tuple(strides), tuple(padding)))


def bitserial_dense_pack(data: Tensor, weight: Tensor, how: BitSerial) -> Tensor:
    """Rows [M, K] as the pixels of an image with a window of one: int32 [M, units]."""
    return _product(_Images(data, weight, how, (1, 1), (0, 0, 0, 0)))


class _Images:
    """The codes of the data of a product and what is known of its sizes."""

    def __init__(
        self, data: Tensor, weight: Tensor, how: BitSerial, strides: tuple[int, ...], padding: tuple[int, ...]
    ) -> None:
        self.how, self.weight, self.rows = how, weight, data.ndim == 2
        sizes = extents(weight)
        self.window = sizes[1:3]
        n, h, w, self.given = (1, 1, *extents(data)) if self.rows else extents(data)
        channels = padded_channels(self.given, how.data_bits, how.method)
        self.height, self.width = output_size((h, w), self.window, strides, padding, (1, 1))
        one = tuple(self.window) == (1, 1) and not any(padding)
        self.strides = (1, 1) if one else strides
        size = (self.height, self.width) if one else (h + padding[0] + padding[2], w + padding[1] + padding[3])
        self.batch, self.channels, self.size = n, channels, size
        self.digits = digits_of(how.data_bits, how.method)
        mask = op.const((1 << how.data_bits) - 1, "uint8")

        def code(b: Any, y: Any, x: Any, c: Any) -> Any:
            row, column = (y * strides[0], x * strides[1]) if one else (y - padding[0], x - padding[1])
            digit, c = (c // channels, c % channels) if self.digits > 1 else (None, c)
            given = data(column, c) if self.rows else data(b, row, column, c)
            value = op.call_intrin("uint8", "bitwise_and", given.astype("uint8"), mask)
            value = value if digit is None else _digit(value, digit)
            inside = [c < self.given] if channels > self.given else []
            inside += [row >= 0] if padding[0] and not one else []
            inside += [row < h] if padding[2] and not one else []
            inside += [column >= 0] if padding[1] and not one else []
            inside += [column < w] if padding[3] and not one else []
            return op.if_then_else(op.all(*inside), value, op.const(0, "uint8")) if inside else value

        self.codes = te.compute((n, *size, self.digits * channels), code, name="bit_codes", tag=tag.BIT_CODES)

    @property
    def sums(self) -> tuple[int, int, int]:
        """Batch, height and width of the result."""
        return self.batch, self.height, self.width

    def at(self, y: Any, x: Any, ry: Any, rx: Any) -> tuple[Any, Any]:
        """The pixel that tap (ry, rx) of the window of a result reads."""
        return y * self.strides[0] + ry, x * self.strides[1] + rx

    def taps(self) -> list[te.IterVar]:
        """Fresh reduction axes over the window."""
        return [te.reduce_axis((0, size), name) for size, name in zip(self.window, ("kh", "kw"), strict=True)]


def _product(images: _Images) -> Tensor:
    how = images.how
    windows = _window_sums(images) if how.offset else None
    build = {POPCOUNT: _word_sums, POPCOUNT_BYTES: _byte_sums, LOOKUP: _lookup_sums}[how.method]
    sums, shifts, panel = build(images)

    def unit(*i: Any) -> Any:
        b, y, x, o = (0, 0, *i) if images.rows else i
        found = None
        for number, shift in enumerate(shifts):
            value = sums(b, y, x, o // panel, number, *_lane(o % panel, sums)).astype(_SUM) * (how.scale << shift)
            found = value if found is None else found + value
        return found if windows is None else windows(b, y, x) * -how.offset + found

    shape = (images.width, how.units) if images.rows else (*images.sums, how.units)
    return te.compute(shape, unit, name="bitserial_units", tag=tag.INJECTIVE)


def _lane(o: Any, sums: Tensor) -> list[Any]:
    """The position of channel `o` of a panel in the last axes of `sums`."""
    *_, inner = extents(sums)
    return [o] if sums.ndim == 6 else [o // inner, o % inner]


def _window_sums(images: _Images) -> Tensor:
    """The sum of all data that each result sees, [N, OH, OW]."""
    c, (ry, rx) = te.reduce_axis((0, images.channels), "c"), images.taps()

    def whole(b: Any, y: Any, x: Any) -> Any:
        low = images.codes(b, y, x, c).astype(_SUM)
        if images.digits == 1:
            return te.sum(low, axis=c)
        high = images.codes(b, y, x, images.channels + c).astype(_SUM)
        return te.sum(high * (1 << DIGIT) + low, axis=c)

    pixels = te.compute(
        (images.batch, *images.size),
        whole,
        name="bit_pixels",
        tag=tag.BIT_PIXELS,
    )
    if tuple(images.window) == (1, 1) and images.strides == (1, 1):
        return pixels
    return te.compute(
        images.sums,
        lambda b, y, x: te.sum(pixels(b, *images.at(y, x, ry, rx)), axis=[ry, rx]),
        name="bit_windows",
        tag=tag.BIT_WINDOWS,
    )


def digits_of(data_bits: int, method: str) -> int:
    """Digits that the data are taken apart into."""
    return -(-data_bits // DIGIT) if method == LOOKUP else 1


def _digit(value: Any, digit: Any) -> Any:
    """Digit 0 or 1 of a byte."""
    high = op.call_intrin("uint8", "shift_right", value, op.const(DIGIT, "uint8"))
    low = op.call_intrin("uint8", "bitwise_and", value, op.const((1 << DIGIT) - 1, "uint8"))
    return op.select(tir.EQ(digit, op.const(0)), low, high)


def plane_bit(code: Any, plane: Any, lane: Any, word: int) -> Any:
    """Bit `plane` of a byte as bit `lane` of a word."""
    dtype = f"uint{word}"
    shifted = op.call_intrin("uint8", "shift_right", code, plane.astype("uint8"))
    bit = op.call_intrin("uint8", "bitwise_and", shifted, op.const(1, "uint8")).astype(dtype)
    return op.call_intrin(dtype, "shift_left", bit, lane.astype(dtype))


def _planes(images: _Images, word: int) -> Tensor:
    """Words of `word` channels of a bit each, [N, H, W, words, data_bits]."""
    lane = te.reduce_axis((0, word), "lane")

    def plane(b: Any, y: Any, x: Any, k: Any, i: Any) -> Any:
        return te.sum(plane_bit(images.codes(b, y, x, k * word + lane), i, lane, word), axis=lane)

    shape = (images.batch, *images.size, images.channels // word, images.how.data_bits)
    return te.compute(shape, plane, name="bit_planes", tag=tag.BIT_PLANES)


def _pairs(images: _Images, planes: int) -> list[int]:
    """The exponents i + j of plane i of data and j of weights, in the order of the axis of their sums."""
    return [i + j for i in range(images.how.data_bits) for j in range(planes)]


def _facts(images: _Images, steps: int = 1) -> dict[str, Any]:
    """The attributes by which a schedule knows the workload."""
    return {
        "method": images.how.method,
        "data_bits": images.how.data_bits,
        "window": tuple(images.window),
        "strides": images.strides,
        "columns": images.size[1],
        "channels": images.channels,
        "steps": steps,
        "corrected": bool(images.how.offset),
    }


def _word_sums(images: _Images) -> tuple[Tensor, list[int], int]:
    """Popcounts of words, [N, OH, OW, O/L, planes of data and weights, L]."""
    panels, _, _, words, planes, panel = extents(images.weight)
    data, weight = _planes(images, WORD), images.weight
    k, (ry, rx) = te.reduce_axis((0, words), "k"), images.taps()

    def term(b: Any, y: Any, x: Any, p: Any, q: Any, lane: Any) -> Any:
        value = data(b, *images.at(y, x, ry, rx), k, q // planes)
        both = op.call_intrin("uint32", "bitwise_and", value, weight(p, ry, rx, k, q % planes, lane))
        return te.sum(op.call_intrin("uint32", "popcount", both).astype(_SUM), axis=[ry, rx, k])

    shifts = _pairs(images, planes)
    shape = (*images.sums, panels, len(shifts), panel)
    sums = te.compute(shape, term, name="bitserial_conv2d", tag=tag.BITSERIAL, attrs=_facts(images))
    return sums, shifts, panel


def _byte_sums(images: _Images) -> tuple[Tensor, list[int], int]:
    """Popcounts of bytes, widened after each chunk."""
    *_, steps, planes, _, _ = extents(images.weight)
    data, step = _planes(images, BYTE), te.reduce_axis((0, steps), "t")

    def term(b: Any, y: Any, x: Any, at: tuple[Any, ...], q: Any, lanes: tuple[Any, ...]) -> Any:
        p, ry, rx, chunk = at
        value = data(b, *images.at(y, x, ry, rx), chunk * steps + step, q // planes)
        weight = images.weight(p, ry, rx, chunk, step, q % planes, *lanes)
        both = op.call_intrin("uint8", "bitwise_and", value, weight)
        return te.sum(op.call_intrin("uint8", "popcount", both), axis=step)

    shifts = _pairs(images, planes)
    return _widened(images, term, len(shifts)), shifts, _panel(images.weight)


def _lookup_sums(images: _Images) -> tuple[Tensor, list[int], int]:
    """Sums of four data by the nibbles of weights, widened after each chunk."""
    *_, steps, planes, _, _ = extents(images.weight)
    groups = images.channels // NIBBLE
    shape = (images.batch, *images.size, images.digits * groups, ENTRIES)

    def entry(b: Any, y: Any, x: Any, group: Any, m: Any) -> Any:
        return table_entry(lambda position: images.codes(b, y, x, group * NIBBLE + position), m)

    tables = te.compute(shape, entry, name="bit_tables", tag=tag.BIT_TABLES)
    step, half, m = (te.reduce_axis((0, n), name) for n, name in ((steps, "t"), (2, "half"), (ENTRIES, "m")))

    def term(b: Any, y: Any, x: Any, at: tuple[Any, ...], q: Any, lanes: tuple[Any, ...]) -> Any:
        p, ry, rx, chunk = at
        group = q // planes * groups + (chunk * steps + step) * 2 + half
        sum_of = tables(b, *images.at(y, x, ry, rx), group, m)
        weight = images.weight(p, ry, rx, chunk, step, q % planes, *lanes)
        return te.sum(looked_up(weight, half, m, sum_of), axis=[step, half, m])

    shifts = [DIGIT * digit + plane for digit in range(images.digits) for plane in range(planes)]
    return _widened(images, term, len(shifts)), shifts, _panel(images.weight)


def table_entry(data: Callable[[int], Any], m: Any) -> Any:
    """The sum of those of four data whose bit in `m` is set."""
    total = None
    for position in range(NIBBLE):
        held = tir.NE(m // (1 << position) % 2, op.const(0))
        value = op.select(held, data(position), op.const(0, "uint8"))
        total = value if total is None else total + value
    return total


def looked_up(weight: Any, half: Any, m: Any, entry: Any) -> Any:
    """Entry m of a table where nibble `half` of the byte `weight` is m, else 0."""
    shifted = op.call_intrin("uint8", "shift_right", weight, (half * NIBBLE).astype("uint8"))
    nibble = op.call_intrin("uint8", "bitwise_and", shifted, op.const(ENTRIES - 1, "uint8"))
    return op.select(tir.EQ(nibble, m.astype("uint8")), entry, op.const(0, "uint8"))


def _panel(weight: Tensor) -> int:
    *_, outer, inner = extents(weight)
    return int(outer * inner)


def _widened(images: _Images, term: Any, planes: int) -> Tensor:
    """Sums of bytes over chunks, [N, OH, OW, O/L, planes, h, L/h], of 16 bits where these hold them."""
    panels, kh, kw, chunks, steps, _, lanes, parts = extents(images.weight)
    bytes_ = te.compute(
        (*images.sums, kh, kw, chunks, panels, planes, lanes, parts),
        lambda b, y, x, ry, rx, k, p, q, *lane: term(b, y, x, (p, ry, rx, k), q, lane),
        name="bit_bytes",
        tag=tag.BIT_BYTES,
    )
    k, (ry, rx) = te.reduce_axis((0, chunks), "k"), images.taps()
    wide = "uint16" if parts == 2 else "uint32"

    def whole(b: Any, y: Any, x: Any, p: Any, q: Any, part: Any, lane: Any) -> Any:
        return te.sum(bytes_(b, y, x, ry, rx, k, p, q, lane, part).astype(wide), axis=[ry, rx, k])

    shape = (*images.sums, panels, planes, parts, lanes)
    return te.compute(shape, whole, name="bitserial_conv2d", tag=tag.BITSERIAL, attrs=_facts(images, steps))
