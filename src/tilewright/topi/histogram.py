"""Statistics of all values of a tensor, in one pass each: extreme values, and counts in bins around zero.

Parts of the values are shared out to workers. What is found does not depend on the order of values, so it is the same
for any number of workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.ir_builder import BufferVar, IRBuilder
from tilewright.tir.size_hint import size_hint
from tilewright.tir.stmt import Stmt
from tilewright.topi import tag
from tilewright.topi.loops import count

#: Values of a step: registers of vectors enough to hide what an operation takes.
_LANES = 64
#: Parts at most, and values of a part whose extremes are looked for, at least.
_PARTS, _PART = 8, 1 << 15
#: Tables of counts that neighbours take in turns, or equal ones would wait for each other; added up at the end.
_TABLES = 2
#: Bits of float32 without its sign, and those of its mantissa.
_UNSIGNED, _MANTISSA = 0x7FFFFFFF, 0x7FFFFF
#: The least limit that is not zero: the bins to one are a float32 for any number of them.
_LEAST_LIMIT = 2.0**-100


def extremes(x: Tensor) -> Tensor:
    """The least value of float32 `x`, the largest, and the largest magnitude: float32[3].

    The magnitude is NaN or infinite where any value is; the other two leave NaN out. Of no values they are infinite,
    with a magnitude of zero.
    """
    size = count(x.shape)
    parts = max(1, min(_PARTS, size_hint(size) // _PART))

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        ib = tir.ir_builder.create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        found = ib.allocate("float32", 3 * parts, "found") if parts > 1 else result
        with ib.for_range(0, parts, name="part", kind="parallel") as part:
            _part_extremes(ib, source, *_part(ib, size, part, parts), found, part * 3)
        if parts > 1:
            total = _Extremes(ib, 1)
            with ib.for_range(0, parts, name="part") as part:
                total.take(0, found[part * 3], found[part * 3 + 1], found[part * 3 + 2])
            total.store(result, 0)
        return ib.get()

    return te.extern((3,), [x], body, name="T_extremes", dtype="float32", tag=tag.EXTERN)


def histogram(x: Tensor, ends: Tensor, limit: Tensor, bins: int) -> Tensor:
    """Counts int32[bins] of values of float32 `x` in bins of equal width around zero, up to a magnitude on either side.

    That is the larger of `limit`, a power of two or zero, and the least power of two that no value exceeds: `ends` are
    their `extremes`. Bin bins / 2 begins at zero; where all values are zero, it has them. A value as large as the
    magnitude counts in the last bin.
    """
    size = count(x.shape)
    tables = _TABLES if size_hint(size) >= bins else 1
    parts = max(1, min(_PARTS, size_hint(size) // (8 * tables * bins)))

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        ib = tir.ir_builder.create()
        source, found, least, result = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        scale = ib.let("scale", _bins_to_one(found[2], least[()], bins))
        table = ib.allocate("int32", parts * tables * bins, "table") if parts * tables > 1 else result
        with ib.for_range(0, parts, name="part", kind="parallel") as part:
            own = ib.let("own", part * (tables * bins))
            _in_vectors(ib, tables * bins, lambda i: table.__setitem__(own + i, tir.const(0, "int32")))
            _count(ib, source, *_part(ib, size, part, parts), scale, bins, table, own, tables)
        if parts * tables > 1:
            _in_vectors(ib, bins, lambda i: result.__setitem__(i, table[i]))
            with ib.for_range(1, parts * tables, name="other") as other:
                _in_vectors(ib, bins, lambda i: result.__setitem__(i, result[i] + table[other * bins + i]))
        return ib.get()

    return te.extern((bins,), [x, ends, limit], body, name="T_histogram", dtype="int32", tag=tag.EXTERN)


# ---------------------------------------------------------------------------------------------------------- extremes
class _Extremes:
    """The extreme values so far, by lane: least, largest, and the bits of the largest magnitude."""

    def __init__(self, ib: IRBuilder, lanes: int) -> None:
        self.ib, self.lanes = ib, lanes
        kinds = (("least", "float32", math.inf), ("largest", "float32", -math.inf), ("magnitude", "int32", 0))
        self.found = [ib.allocate(dtype, lanes, name, scope="local") for name, dtype, _ in kinds]
        for one, (_, dtype, start) in zip(self.found, kinds, strict=True):
            with ib.for_range(0, lanes, name="lane", kind="vectorized") as lane:
                one[lane] = tir.const(start, dtype)

    def take(self, lane: Any, least: Any, largest: Any, magnitude: Any) -> None:
        """Combine what is found in a lane with more values."""
        low, high, most = self.found
        low[lane] = tir.select(least < low[lane], least, low[lane])
        high[lane] = tir.select(largest > high[lane], largest, high[lane])
        bits = _and(tir.reinterpret("int32", magnitude), _UNSIGNED)
        most[lane] = tir.maximum(most[lane], bits)

    def store(self, target: BufferVar, first: Any) -> None:
        """Write what lane 0 has found as three numbers."""
        low, high, most = self.found
        target[first], target[first + 1] = low[0], high[0]
        target[first + 2] = tir.reinterpret("float32", most[0])


def _part_extremes(ib: IRBuilder, source: BufferVar, first: Any, end: Any, target: BufferVar, position: Any) -> None:
    """The extremes of a part of the values."""
    lanes, rest = _Extremes(ib, _LANES), _Extremes(ib, 1)
    whole = ib.let("whole", (end - first) // _LANES)
    with (
        ib.for_range(0, whole, name="step") as step,
        ib.for_range(0, _LANES, name="lane", kind="vectorized") as lane,
    ):
        value = source[first + step * _LANES + lane]
        lanes.take(lane, value, value, value)
    with ib.for_range(0, _LANES, name="lane") as lane:
        low, high, most = (one[lane] for one in lanes.found)
        rest.take(0, low, high, tir.reinterpret("float32", most))
    with ib.for_range(first + whole * _LANES, end, name="i") as i:
        rest.take(0, source[i], source[i], source[i])
    rest.store(target, position)


# --------------------------------------------------------------------------------------------------------- histogram
def _bins_to_one(magnitude: Any, limit: Any, bins: int) -> Any:
    """Bins of values up to one: the power of two that is `bins` / 2 over the limit; zero where that is zero."""
    bits = tir.reinterpret("int32", magnitude)
    up = _and(bits + tir.const(_MANTISSA, "int32"), ~_MANTISSA)
    zero, floor = tir.const(0.0, "float32"), tir.const(_LEAST_LIMIT, "float32")
    power = tir.reinterpret("float32", up)
    power = tir.select(power > floor, power, tir.select(bits > tir.const(0, "int32"), floor, zero))
    most = tir.select(power > limit, power, limit)
    return tir.select(most > zero, tir.const(bins / 2, "float32") / most, zero)


def _count(
    ib: IRBuilder,
    source: BufferVar,
    first: Any,
    end: Any,
    scale: Any,
    bins: int,
    table: BufferVar,
    own: Any,
    tables: int,
) -> None:
    """Count a part of the values in `tables` tables from `own` on."""
    positions = ib.allocate("int32", _LANES, "positions", scope="local")

    def bin_of(value: Any) -> Any:
        """The bin of a value; NaN counts in the first, and nothing beyond an end is out of range."""
        position = value * scale + tir.const(bins // 2, "float32")
        inside = tir.select(position > tir.const(0.0, "float32"), position, tir.const(0.0, "float32"))
        last = tir.const(bins - 1, "float32")
        return tir.cast("int32", tir.select(inside < last, inside, last))

    whole = ib.let("whole", (end - first) // _LANES)
    with ib.for_range(0, whole, name="step") as step:
        with ib.for_range(0, _LANES, name="lane", kind="vectorized") as lane:
            positions[lane] = own + (lane % tables) * bins + bin_of(source[first + step * _LANES + lane])
        with (
            ib.for_range(0, _LANES // 8, name="group") as group,
            ib.for_range(0, 8, name="lane", kind="unrolled") as lane,
        ):
            at = ib.let("at", positions[group * 8 + lane])
            table[at] = table[at] + 1
    with ib.for_range(first + whole * _LANES, end, name="i") as i:
        at = ib.let("at", own + bin_of(source[i]))
        table[at] = table[at] + 1


def _and(value: Any, mask: int) -> Any:
    return tir.call_intrin("int32", "bitwise_and", value, tir.const(mask, "int32"))


# ------------------------------------------------------------------------------------------------------------- parts
def _part(ib: IRBuilder, size: Any, part: Any, parts: int) -> tuple[Any, Any]:
    """The first value of a part, and the first after it."""
    each = ib.let("each", (size + (parts - 1)) // parts)
    first = ib.let("first", tir.minimum(part * each, size))
    return first, ib.let("end", tir.minimum(first + each, size))


def _in_vectors(ib: IRBuilder, size: int, step: Callable[[Any], None]) -> None:
    """`step` for each number below `size`, a multiple of the lanes, or one by one."""
    lanes = math.gcd(size, _LANES)
    with (
        ib.for_range(0, size // lanes, name="block") as block,
        ib.for_range(0, lanes, name="lane", kind="vectorized") as lane,
    ):
        step(block * lanes + lane)
