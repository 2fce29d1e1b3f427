"""Running sums and products on a device, of the same terms in the same order as on processors.

An axis has pieces of 64 elements, of which one thread adds up each; 64 pieces are a group, and so on by levels
(`topi/cumulative.py`). An element is what came before its group of each level, joined from the outermost inwards, and
what came before it in its piece. So sums of floats have the bits that processors compute.

    by pieces         a thread for each piece: first its total, then, with those before it added up, its elements
    by groups         a block for each group, its elements in shared memory, so that neighbours are read together

Totals of a level are in memory where several blocks need them: a launch for each such level and one for the elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright import tir
from tilewright.backend.gpu.schedule.attention_problem import quotient
from tilewright.backend.gpu.schedule.written_loops import bit_and, distinct, kernel
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, IntImm
from tilewright.tir.ir_builder import BufferVar, IRBuilder
from tilewright.tir.stmt import Allocate, Stmt, seq
from tilewright.topi.cumulative import BLOCK, level_count
from tilewright.topi.util import accumulator_dtype, unflatten_index

#: The element number k of a row, as the position in its tensor.
Position = Callable[[Any], tuple[Any, ...]]


def _known(size: Any) -> Any:
    return size.value if isinstance(size, IntImm) else size


class DeviceRunning:
    """The kernels of one scan of `source` along an axis: `totals[level]` holds what a level's groups come to."""

    def __init__(
        self, source: Buffer, result: Buffer, axis: int, neutral: int, exclusive: bool, reverse: bool, threads: int
    ) -> None:
        self.source, self.result, self.exclusive, self.reverse = source, result, exclusive, reverse
        self.threads = threads
        shape = [_known(size) for size in source.shape]
        self.before, self.size, self.behind = shape[:axis], shape[axis], shape[axis + 1 :]
        self.outer, self.lanes = math.prod(self.before), math.prod(self.behind)
        self.wide = accumulator_dtype(str(result.dtype))
        self.neutral = tir.const(neutral, self.wide)
        self.combine = tir.multiply if neutral else tir.add
        self.levels = level_count(source.shape[axis])
        self.totals: dict[int, Buffer] = {}

    # ------------------------------------------------------------------------------------------------------- shared
    def _entries(self, level: int) -> Any:
        """Groups of a level in a row."""
        return quotient(self.size, BLOCK**level)

    def _total(self, level: int) -> Buffer:
        shape = [op.convert(n) for n in (self.outer, self._entries(level), self.lanes)]
        return self.totals.setdefault(level, Buffer(f"totals{level}", shape, self.wide))

    def _allocated(self, body: Stmt) -> Stmt:
        for buffer in self.totals.values():
            body = Allocate(buffer, body)
        return body

    def _at(self, ib: IRBuilder, outer: Any, lane: Any) -> Position:
        """The function from an element's number in a row to its position."""
        first, last = ([op.convert(i) for i in unflatten_index(n, sizes)]
                       for n, sizes in ((outer, self.before), (lane, self.behind)))  # fmt: skip
        before, behind = ([ib.let("i", i) for i in part] for part in (first, last))
        return lambda k: (*before, op.convert(self.size) - 1 - k if self.reverse else k, *behind)

    def _cell(self, ib: IRBuilder, name: str) -> BufferVar:
        """A value of the thread's own, at first neutral."""
        made = ib.allocate(self.wide, 1, name, scope="local")
        made[0] = self.neutral
        return made

    def _accumulate(self, ib: IRBuilder, total: BufferVar, first: Any, end: Any, value: Callable[[Any], Any]) -> None:
        with ib.for_range(first, end, name="k") as k:
            total[0] = self.combine(total[0], value(k))

    def _raised(self, level: int) -> Stmt:
        """The totals of a level from those of the level below."""
        lower, upper, lanes = self._total(level - 1), self._total(level), self.lanes
        entries, below = self._entries(level), self._entries(level - 1)

        def write(ib: IRBuilder, outer: Any, entry: Any, lane: Any) -> None:
            total = self._cell(ib, "total")
            first = ib.let("first", entry * BLOCK)
            end = ib.let("end", tir.minimum(first + BLOCK, below))
            self._accumulate(ib, total, first, end, lambda k: ib.buffer_ptr(lower)[outer, k, lane])
            ib.buffer_ptr(upper)[outer, entry, lane] = total[0]

        return self._by_thread(entries, lanes, write)

    def _by_thread(self, entries: Any, lanes: Any, write: Callable[[IRBuilder, Any, Any, Any], None]) -> Stmt:
        """A thread for each entry of each row, neighbouring rows side by side."""
        count = self.outer * entries * lanes

        def body(ib: IRBuilder, block: Expr, thread: Expr) -> None:
            number = block * self.threads + thread
            with ib.if_scope(number < count):
                outer, entry = number // (entries * lanes), number // lanes % entries
                write(ib, ib.let("outer", outer), ib.let("entry", entry), ib.let("lane", number % lanes))

        return kernel(quotient(count, self.threads), self.threads, body)

    def _joined(self, parts: list[Any]) -> Any:
        """Combine the totals before an element, of each level from the outermost on."""
        found = parts[0]
        for part in parts[1:]:
            found = self.combine(found, part)
        return found

    def _first_of(self, level: int, entry: Any) -> Any:
        """The first of the entries of a level that are added up for one: those of its group, of the last level all."""
        return op.const(0) if level == self.levels else entry // BLOCK * BLOCK


class ByPieces(DeviceRunning):
    """A thread for each piece; neighbouring threads have neighbouring rows."""

    def statement(self) -> Stmt:
        """All kernels in order."""
        kernels = [self._by_thread(self._entries(1), self.lanes, self._piece)] if self.levels else []
        kernels += [self._raised(level) for level in range(2, self.levels + 1)]
        kernels.append(self._by_thread(self._entries(1), self.lanes, self._elements))
        return self._allocated(seq(*kernels))

    def _values(self, ib: IRBuilder, outer: Any, lane: Any) -> Callable[[Any], Any]:
        position = self._at(ib, outer, lane)
        return lambda k: ib.buffer_ptr(self.source)[position(k)].astype(self.wide)

    def _bounds(self, ib: IRBuilder, entry: Any) -> tuple[Any, Any]:
        first = ib.let("first", entry * BLOCK)
        return first, ib.let("end", tir.minimum(first + BLOCK, self.size))

    def _piece(self, ib: IRBuilder, outer: Any, entry: Any, lane: Any) -> None:
        total, values = self._cell(ib, "total"), self._values(ib, outer, lane)
        self._accumulate(ib, total, *self._bounds(ib, entry), values)
        ib.buffer_ptr(self._total(1))[outer, entry, lane] = total[0]

    def _elements(self, ib: IRBuilder, outer: Any, entry: Any, lane: Any) -> None:
        parts = []
        for level in range(self.levels, 0, -1):
            number = ib.let("number", entry // BLOCK ** (level - 1))
            part, memory = self._cell(ib, f"before{level}"), ib.buffer_ptr(self._total(level))
            self._accumulate(ib, part, self._first_of(level, number), number, _along(memory, outer, lane))
            parts.append(part[0])
        base = ib.let("base", self._joined(parts)) if parts else None
        total, values, position = self._cell(ib, "total"), self._values(ib, outer, lane), self._at(ib, outer, lane)
        with ib.for_range(*self._bounds(ib, entry), name="k") as k:
            later = ib.let("later", self.combine(total[0], values(k)))
            shown = total[0] if self.exclusive else later
            shown = shown if base is None else self.combine(base, shown)
            ib.buffer_ptr(self.result)[position(k)] = shown.astype(self.result.dtype)
            total[0] = later


class ByGroups(DeviceRunning):
    """A block of 64 threads for each group of 64 pieces; of short rows a block has several."""

    def statement(self) -> Stmt:
        """All kernels in order."""
        length, pieces = group_of(self.size)
        self.length, self.pieces, self.whole = length, pieces, pieces == BLOCK
        self.rows, self.groups = self.outer * self.lanes, quotient(self.size, BLOCK * BLOCK) if self.whole else 1
        kernels = [self._kernel(self._group_total)] if self.levels > 1 else []
        kernels += [self._raised(level) for level in range(3, self.levels + 1)]
        kernels.append(self._kernel(self._elements))
        return self._allocated(seq(*kernels))

    def _kernel(self, write: Callable[..., None]) -> Stmt:
        """A kernel over groups: their elements in shared memory, then `write`."""
        blocks = self.rows * self.groups if self.whole else quotient(self.rows, BLOCK // self.pieces)

        def body(ib: IRBuilder, block: Expr, thread: Expr) -> None:
            group = ib.let("group", block % self.groups if self.whole else 0)
            elements = ib.allocate(self.wide, BLOCK * self.length, "elements", scope="shared")

            def bring(inner: IRBuilder, at: Any, inside: Any, position: tuple[Any, ...]) -> None:
                value = inner.buffer_ptr(self.source)[position].astype(self.wide)
                _within(inner, elements)[at] = tir.if_then_else(inside, value, self.neutral)

            self._move(ib, block, thread, group, bring)
            own = self._own(thread)
            totals = ib.allocate(self.wide, BLOCK, "totals", scope="shared") if self.levels else None
            if totals is not None:
                total = self._cell(ib, "total")
                self._accumulate(ib, total, 0, self.length, lambda k: elements[own(k)])
                totals[thread] = total[0]
            write(ib, block, thread, group, elements, totals)

        return kernel(blocks, BLOCK, body)

    def _own(self, thread: Any) -> Callable[[Any], Any]:
        """The position in shared memory of element k of a thread's piece: no two threads meet in a bank."""
        return lambda k: thread * self.length + bit_and(thread + k, self.length - 1)

    def _move(
        self, ib: IRBuilder, block: Any, thread: Any, group: Any, move: Callable[[IRBuilder, Any, Any, Any], None]
    ) -> None:
        """`move(ib, index, inside, position)` for each element, neighbours by neighbouring threads.

        `index` is that in shared memory; `inside` says whether there is such an element.
        """

        def one(inner: IRBuilder, turn: Expr) -> None:
            number = turn * BLOCK + thread
            piece, k = inner.let("piece", number // self.length), inner.let("k", number % self.length)
            row = inner.let("row", block // self.groups if self.whole
                            else block * (BLOCK // self.pieces) + piece // self.pieces)  # fmt: skip
            element = inner.let("element", (group * self.pieces + piece % self.pieces) * self.length + k)
            inside = tir.all(row < self.rows, element < self.size)
            position = self._at(inner, row // self.lanes, row % self.lanes)(element)
            move(inner, self._own(piece)(k), inside, position)

        distinct(ib, self.length, one)

    def _group_total(self, ib: IRBuilder, block: Any, thread: Any, group: Any, _: BufferVar, totals: BufferVar) -> None:
        row = ib.let("row", block // self.groups)
        with ib.if_scope(thread < 1):
            whole = self._cell(ib, "whole")
            self._accumulate(ib, whole, 0, BLOCK, lambda k: totals[k])
            ib.buffer_ptr(self._total(2))[row // self.lanes, group, row % self.lanes] = whole[0]

    def _elements(
        self, ib: IRBuilder, block: Any, thread: Any, group: Any, elements: BufferVar, totals: BufferVar | None
    ) -> None:
        parts = [self._above(ib, level, block, thread, group) for level in range(self.levels, 1, -1)]
        if totals is not None:
            before, piece = self._cell(ib, "before"), thread % self.pieces
            self._accumulate(ib, before, 0, self.pieces, lambda k: tir.select(
                k < piece, totals[thread - piece + k], self.neutral))  # fmt: skip
            parts.append(before[0])
        base = ib.let("base", self._joined(parts)) if parts else None
        total, own = self._cell(ib, "running"), self._own(thread)

        def one(inner: IRBuilder, k: Expr) -> None:
            later = inner.let("later", self.combine(total[0], elements[own(k)]))
            shown = inner.let("shown", total[0] if self.exclusive else later)
            _within(inner, elements)[own(k)] = shown if base is None else self.combine(base, shown)
            _within(inner, total)[0] = later

        distinct(ib, self.length, one)
        self._move(
            ib,
            block,
            thread,
            group,
            lambda inner, at, inside, position: self._shown(inner, inside, position, elements[at]),
        )

    def _shown(self, ib: IRBuilder, inside: Any, position: tuple[Any, ...], value: Any) -> None:
        with ib.if_scope(inside):
            ib.buffer_ptr(self.result)[position] = value.astype(self.result.dtype)

    def _above(self, ib: IRBuilder, level: int, block: Any, thread: Any, group: Any) -> Any:
        """The total of a level's groups before this one, loaded 64 at a time."""
        row = ib.let("row", block // self.groups)
        number = ib.let("number", group // BLOCK ** (level - 2))
        first = ib.let("first", self._first_of(level, number))
        part, memory = self._cell(ib, f"before{level}"), ib.buffer_ptr(self._total(level))
        brought = ib.allocate(self.wide, BLOCK, "brought", scope="shared")
        with ib.for_range(0, (number - first + (BLOCK - 1)) // BLOCK, name="step") as step:
            start = ib.let("start", first + step * BLOCK)
            value = memory[row // self.lanes, start + thread, row % self.lanes]
            brought[thread] = tir.if_then_else(start + thread < number, value, self.neutral)
            self._accumulate(ib, part, 0, BLOCK, lambda k: brought[k])
        return part[0]


def group_of(size: Any) -> tuple[int, int]:
    """Elements of a piece, and pieces of a row that are side by side in a block: powers of two, up to 64."""
    if not isinstance(size, int):
        return BLOCK, BLOCK
    pieces = -(-size // BLOCK)
    length = BLOCK if pieces > 1 else 1 << max(size - 1, 0).bit_length()
    return length, min(BLOCK, 1 << max(pieces - 1, 0).bit_length())


def _along(memory: BufferVar, outer: Any, lane: Any) -> Callable[[Any], Any]:
    return lambda k: memory[outer, k, lane]


def _within(ib: IRBuilder, memory: BufferVar) -> BufferVar:
    """The same memory for another builder."""
    return ib.buffer_ptr(memory.buffer)
