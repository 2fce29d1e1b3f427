"""Layers of bytes from bytes to bytes, for processors with vectors of 16 of them ("mve" in `target.microcontrollers`).

Sums, scale, rounding and bounds are one computation: a kernel keeps sums in registers until they are bytes again. The
expressions here are what any processor computes; boards with such vectors call a C function for them
(`backend/board/schedule/byte_layers.py`), to which `attrs` of the tensors say what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import output_size
from tilewright.topi.nn.pad import pad
from tilewright.topi.reference.byte_layers import AWAY, LANES, ONCE, WORDS
from tilewright.topi.util import extents


def scaled(total: Any, m: Any, shift: Any, rounding: str) -> Any:
    """An int32 sum times m / 2^(31 + shift), or m / 2^(32 + shift) where it is rounded `ONCE`."""
    wide, factor = total.astype("int64"), m.astype("int64")
    if rounding == ONCE:
        high = _shifted(wide * factor, 32)
    else:
        high = _shifted(wide * factor + tir.const(1 << 30, "int64"), 31)
    if rounding == AWAY:
        high = high + tir.select(shift == 0, tir.const(0, "int64"), _shifted(high, 63))
    half = _shifted(tir.call_intrin("int64", "shift_left", tir.const(1, "int64"), shift.astype("int64")), 1)
    return tir.call_intrin("int64", "shift_right", high + half, shift.astype("int64"))


def _shifted(value: Any, count: int) -> Any:
    return tir.call_intrin("int64", "shift_right", value, tir.const(count, "int64"))


def _finished(total: Any, m: Any, shift: Any, attrs: Mapping[str, Any]) -> Any:
    """The byte that a sum becomes."""
    value = scaled(total, m, shift, attrs["rounding"]) + tir.const(attrs["zero"], "int64")
    low, high = (tir.const(attrs[name], "int64") for name in ("low", "high"))
    return tir.minimum(tir.maximum(value, low), high).astype("int8")


def conv2d_scaled(data: Tensor, weight: Tensor, scale: Tensor, attrs: Mapping[str, Any]) -> Tensor:
    """`data` [1, H, W, C] with weights of KH * KW * C bytes a channel to int8 [1, OH, OW, O].

    Weights and `scale` are packed (`reference.byte_layers.packed_rows`, `packed_scale`).
    """
    sums = _sums(data, weight, attrs)

    def byte(b: Any, y: Any, x: Any, o: Any) -> Any:
        bias, m, left = (scale(o // WORDS, row, o % WORDS) for row in range(3))
        return _finished(sums(b, y, x, o) + bias, m, -left, attrs)

    facts = {"kind": "conv2d", "operands": (data, weight, scale), **attrs}
    return te.compute(extents(sums), byte, name="layer", tag=tag.BYTE_LAYER, attrs=facts)


def conv2d_sums(data: Tensor, weight: Tensor, bias: Tensor, attrs: Mapping[str, Any]) -> Tensor:
    """`data` [1, H, W, C] with packed weights, as of `conv2d_scaled`, to int32 [1, OH, OW, O].

    `bias` is filled up to whole vectors.
    """
    sums = _sums(data, weight, attrs)

    def total(b: Any, y: Any, x: Any, o: Any) -> Any:
        return sums(b, y, x, o) + bias(o)

    facts = {"kind": "sums", "operands": (data, weight, bias), **attrs}
    return te.compute(extents(sums), total, name="layer", tag=tag.BYTE_LAYER, attrs=facts)


def _sums(data: Tensor, weight: Tensor, attrs: Mapping[str, Any]) -> Tensor:
    _, h, w, c = extents(data)
    kh, kw = attrs["kernel_size"]
    channels = attrs["channels"]
    size = output_size((h, w), (kh, kw), attrs["strides"], attrs["padding"], (1, 1))
    image, (sh, sw) = _padded(data, attrs), attrs["strides"]
    k = [te.reduce_axis((0, n), name) for n, name in ((kh, "kh"), (kw, "kw"), (c, "c"))]

    def element(_b: Any, y: Any, x: Any, o: Any) -> Any:
        ry, rx, r = k
        value = image(0, y * sh + ry, x * sw + rx, r).astype("int32")
        at = (ry * kw + rx) * c + r
        return te.sum(value * weight(o // 2, at // LANES, o % 2, at % LANES).astype("int32"), axis=k)

    return te.compute((1, *size, channels), element, name="layer_sums")


def depthwise_scaled(data: Tensor, weight: Tensor, scale: Tensor, attrs: Mapping[str, Any]) -> Tensor:
    """`data` [1, H, W, C] with weights [C'/16, KH * KW, 16] to int8 [1, OH, OW, C].

    `scale` is packed to 16 lanes (`reference.byte_layers.packed_scale`).
    """
    _, h, w, c = extents(data)
    kh, kw = attrs["kernel_size"]
    size = output_size((h, w), (kh, kw), attrs["strides"], attrs["padding"], (1, 1))
    image, (sh, sw) = _padded(data, attrs), attrs["strides"]
    ry, rx = te.reduce_axis((0, kh), "kh"), te.reduce_axis((0, kw), "kw")

    def element(_b: Any, y: Any, x: Any, f: Any) -> Any:
        value = image(0, y * sh + ry, x * sw + rx, f).astype("int32")
        return te.sum(value * weight(f // LANES, ry * kw + rx, f % LANES).astype("int32"), axis=[ry, rx])

    sums = te.compute((1, *size, c), element, name="layer_sums")

    def byte(b: Any, y: Any, x: Any, f: Any) -> Any:
        lane = f % WORDS * WORDS + f % LANES // WORDS
        bias, m, left = (scale(f // LANES, row, lane) for row in range(3))
        return _finished(sums(b, y, x, f) + bias, m, -left, attrs)

    facts = {"kind": "depthwise", "operands": (data, weight, scale), **attrs}
    return te.compute((1, *size, c), byte, name="layer", tag=tag.BYTE_LAYER, attrs=facts)


def _padded(data: Tensor, attrs: Mapping[str, Any]) -> Tensor:
    top, left, bottom, right = attrs["padding"]
    return pad(data, (0, top, left, 0), (0, bottom, right, 0), attrs["pad_value"])


def add_scaled(a: Tensor, b: Tensor, attrs: Mapping[str, Any]) -> Tensor:
    """The sum of two tensors of bytes, each less its zero point and scaled, scaled again."""

    def part(value: Any, of: Any) -> Any:
        zero, left, m, shift = of
        wide = (value.astype("int32") - tir.const(zero)) * tir.const(1 << left)
        factors = tir.const(m), tir.const(shift)
        return scaled(wide, *factors, AWAY).astype("int32")

    def byte(*i: Any) -> Any:
        total = part(a(*i), attrs["first"]) + part(b(*i), attrs["second"])
        return _finished(total, tir.const(attrs["m"]), tir.const(attrs["shift"]), attrs)

    facts = {"kind": "add", "operands": (a, b), **attrs}
    return te.compute(extents(a), byte, name="layer", tag=tag.BYTE_LAYER, attrs=facts)
