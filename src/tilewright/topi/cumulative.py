"""Running sums and products along an axis, each made of the one before; long sums of floats in blocks.

A sum of what came before a block and one within it differ less in size than a sum over all of the axis and its next
element, so the rounding errors grow with the number of levels of blocks and not with the length of the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IntImm
from tilewright.tir.ir_builder import BufferVar, IRBuilder
from tilewright.tir.stmt import Stmt
from tilewright.topi import tag
from tilewright.topi.loops import count
from tilewright.topi.util import accumulator_dtype, normalize_axis, unflatten_index

Combine = Callable[[Any, Any], Any]

#: Elements of a block, and blocks of a block of the next level; levels of a symbolic length.
BLOCK, _LEVELS = 64, 3
#: Neighbouring rows that run side by side.
_LANES = 16


def cumsum(x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sums along `axis`, without the element itself if `exclusive`, from the end if `reverse`."""
    return _running(x, x.dtype, axis, tir.add, 0, exclusive, reverse)


def cumprod(x: Tensor, axis: int = 0, exclusive: bool = False, dtype: str = "") -> Tensor:
    """Running products along `axis` in `dtype` (default: that of x), without the element itself if `exclusive`."""
    return _running(x, dtype or x.dtype, axis, tir.multiply, 1, exclusive, False)


def _running(
    x: Tensor, dtype: str, axis: int, combine: Combine, neutral: int, exclusive: bool, reverse: bool
) -> Tensor:
    at = normalize_axis(axis, x.ndim)
    before, size, behind = x.shape[:at], x.shape[at], x.shape[at + 1 :]
    neighbours = count(behind)
    tiles = (neighbours + (_LANES - 1)) // _LANES
    levels = level_count(size) if neutral == 0 and x.dtype.is_float else 0

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = tir.ir_builder.create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, count(before) * tiles, name="tile", kind="parallel") as tile:
            outer = [ib.let(f"i{d}", tir.convert(i)) for d, i in enumerate(unflatten_index(tile // tiles, before))]
            first = ib.let("first", tile % tiles * _LANES)

            def position(k: Any, lane: Any) -> tuple[Any, ...]:
                return (*outer, size - 1 - k if reverse else k, *unflatten_index(first + lane, behind))

            def run(width: Any, kind: str) -> None:
                _Rows(ib, source, result, position, width, kind, dtype, combine, neutral, exclusive).run(size, levels)

            if isinstance(neighbours, IntImm) and neighbours.value <= _LANES:
                run(neighbours, "vectorized" if neighbours.value == _LANES else "serial")
            else:
                with ib.if_scope(first + _LANES <= neighbours):
                    run(_LANES, "vectorized")
                with ib.else_scope():
                    run(neighbours - first, "serial")
        return ib.get()

    facts = {"axis": at, "neutral": neutral, "exclusive": exclusive, "reverse": reverse}
    return te.extern(x.shape, [x], body, name="T_running", dtype=dtype, tag=tag.RUNNING, attrs=facts)


def level_count(size: Any) -> int:
    """The number of times that the blocks of a row are grouped to greater blocks."""
    if not isinstance(size, IntImm):
        return _LEVELS
    level, reach = 0, BLOCK
    while reach < size.value:
        level, reach = level + 1, reach * BLOCK
    return level


@dataclass(frozen=True)
class _Rows:
    """`width` neighbouring rows, their running values side by side; `position(k, lane)` is where element k of
    one is.
    """

    ib: IRBuilder
    source: BufferVar
    result: BufferVar
    position: Callable[[Any, Any], tuple[Any, ...]]
    width: Any
    kind: str
    dtype: str
    combine: Combine
    neutral: int
    exclusive: bool

    def run(self, size: Any, levels: int) -> None:
        """All `size` elements of the rows, in blocks of `levels` levels."""
        totals = [self._allocate(f"total{level}") for level in range(levels + 1)]
        self._clear(totals[levels])
        self._block(tir.const(0, tir.convert(size).dtype), size, totals, [])

    def _allocate(self, name: str) -> BufferVar:
        return self.ib.allocate(accumulator_dtype(str(self.dtype)), _LANES, name, scope="local")

    def _clear(self, total: BufferVar) -> None:
        with self.ib.for_range(0, self.width, name="lane", kind=self.kind) as lane:
            total[lane] = tir.const(self.neutral, total.dtype)

    def _block(self, first: Any, end: Any, totals: Sequence[BufferVar], before: Sequence[BufferVar]) -> None:
        """The elements from `first` to `end`; the last of `totals` is theirs, `before` those of what precedes them."""
        *inner, total = totals
        if not inner:
            self._elements(first, end, total, before)
            return
        step = BLOCK ** len(inner)
        with self.ib.for_range(0, (end - first + (step - 1)) // step, name="block") as block:
            start = self.ib.let("start", first + block * step)
            self._clear(inner[-1])
            self._block(start, tir.minimum(start + step, end), inner, [*before, total])
            with self.ib.for_range(0, self.width, name="lane", kind=self.kind) as lane:
                total[lane] = self.combine(total[lane], inner[-1][lane])

    def _elements(self, first: Any, end: Any, total: BufferVar, before: Sequence[BufferVar]) -> None:
        """One element after the other, each added to the running value of its block."""
        base = self._allocate("base")
        if before:
            with self.ib.for_range(0, self.width, name="lane", kind=self.kind) as lane:
                base[lane] = self._joined([part[lane] for part in before])
        with (
            self.ib.for_range(first, end, name="k") as k,
            self.ib.for_range(0, self.width, name="lane", kind=self.kind) as lane,
        ):
            value = self.source[self.position(k, lane)].astype(total.dtype)
            later = self.combine(total[lane], value)
            shown = total[lane] if self.exclusive else later
            shown = self.combine(base[lane], shown) if before else shown
            self.result[self.position(k, lane)] = shown.astype(self.dtype)
            total[lane] = later

    def _joined(self, parts: Sequence[Any]) -> Any:
        result = parts[0]
        for part in parts[1:]:
            result = self.combine(result, part)
        return result
