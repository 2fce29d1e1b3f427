"""Prefetches: asking for the memory that a later iteration of a loop reads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.machine import Machine
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.int_set import IntervalSet, eval_interval, union
from tilewright.tir.arith.range import Range
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Ramp, Var
from tilewright.tir.stmt import AttrStmt, Evaluate, For, ForKind, IfThenElse, PrimFunc, SeqStmt, Stmt, seq
from tilewright.tir.visitor import StmtRewriter, collect, substitute

KEY, SPREAD_KEY = "prefetch", "prefetch_spread"

#: Stretches of memory of which one iteration prefetches a line each, at most.
_MOST_STRETCHES = 4

_SECOND_LEVEL = 2  # locality: not into the first-level cache, which holds what is in use


def inject_prefetch(
    func: PrimFunc, line_bytes: int = Machine.line, at_once: int = int(Machine.lines_in_flight)
) -> PrimFunc:
    """`func` with each attribute "prefetch" of a loop's body made prefetches of what is read that many iterations on.

    for i in range(8):                                 for i in range(8):
        with attribute("prefetch", 2, on=a):               for line in range(2):
            for j in range(32):              =>                prefetch(a[i + 2, line*16])
                c[i, j] = a[i, j]                          for j in range(32):
                                                               c[i, j] = a[i, j]

    One prefetch is made for each cache line, of `line_bytes`, of the part of the buffer that the body reads. Nothing is
    made where that part is not known. Addresses past the end of the buffer are harmless: a prefetch does not fault.

    An attribute "prefetch_spread" is of a part that a loop further out moves on from: the part that many iterations on
    is brought to the level-2 cache evenly by all iterations of the loops within.

    for p in range(8):                                 for p in range(8):
        for t in range(2):                                 for t in range(2):
            for k in range(32):                    =>          for k in range(32):
                with attribute("prefetch_spread",                  prefetch(w[p + 1, (t*32 + k)*8], 0, 2)
                               1, on=w):                           c[t, k] = w[p, k*16]
                    c[t, k] = w[p, k*16]

    Of a loop between whose extent is not known, the first iteration brings all of it.

    Where more than `at_once` lines fall to one iteration, the loops inside it share them: a core that waits for as many
    as it can stops, for the length of a transfer from memory, at the next load of its own.
    """
    return _Injector(line_bytes, at_once)(func)


class _Injector(StmtRewriter):
    def __init__(self, line_bytes: int, at_once: int) -> None:
        super().__init__()
        self.line_bytes, self.at_once = line_bytes, at_once
        self.loops: list[For] = []

    def visit_For(self, node: For) -> Stmt:
        """Remembers the loops around an attribute: the last one is what it speaks of."""
        self.loops.append(node)
        result: Stmt = self.rebuild(node)
        self.loops.pop()
        return result

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        """The prefetches, then the body."""
        body: Stmt = self(node.body)
        if node.key == SPREAD_KEY and self.loops:
            part = _next_part(node, self.loops, self.line_bytes)
            return body if part is None else _shared(part, body, part.within, self.at_once)
        if node.key != KEY:
            return body if body is node.body and node.key == KEY else AttrStmt(node.key, node.target, node.value, body)
        region = _region(node.target, body) if self.loops else None
        if region is None:
            return body
        var = self.loops[-1].var
        return seq(substitute(_prefetches(node.target, region, self.line_bytes), {var: var + node.value}), body)


@dataclass(frozen=True)
class _Part:
    """The next region that a loop reads of a buffer, brought by the loops `within`: the `region`, from dimension
    `first` on one stretch of memory, with the variables of `later`; `line` is the number of elements in a cache line.
    The loops `repeated` have unknown extents: their first iterations bring it, and the others need not.
    """

    buffer: Buffer
    region: list[Range]
    first: int
    later: Mapping[Var, Expr]
    within: list[For]
    repeated: list[For]
    line: int

    @property
    def _extents(self) -> list[int]:
        return [int(span.extent.value) for span in self.region if isinstance(span.extent, IntImm)]

    def lines(self, loops: list[For]) -> int:
        """The number of cache lines that one iteration of all `loops` prefetches, at most."""
        return math.prod(self._extents[: self.first]) * -(-self._step(loops) // self.line)

    def _step(self, loops: list[For]) -> int:
        """Elements of each stretch for one iteration: whole lines, or a part of one."""
        count = math.prod(int(loop.extent.value) for loop in loops if isinstance(loop.extent, IntImm))
        step = -(-math.prod(self._extents[self.first :]) // count)
        return step if step <= self.line else -(-step // self.line) * self.line

    def prefetches(self, loops: list[For]) -> list[Stmt]:
        """The prefetches of one iteration of all `loops`."""
        iteration: Expr = op.const(0)
        for loop in loops:
            iteration = iteration * loop.extent + (loop.var - loop.min)
        step = self._step(loops)
        found: list[Stmt] = []
        for apart in itertools.product(*map(range, self._extents[: self.first])):
            positions = (span.min + (apart[d] if d < self.first else 0) for d, span in enumerate(self.region))
            *outer, last = positions
            for offset in range(0, step, self.line):
                indices = [substitute(x, self.later) for x in (*outer, last + (iteration * step + offset))]
                load = BufferLoad(self.buffer, [Analyzer().simplify(index) for index in indices])
                found.append(Evaluate(Call("int32", "prefetch", (load, op.const(0), op.const(_SECOND_LEVEL)))))
        for loop in self.repeated:
            found = [IfThenElse(loop.var <= loop.min, seq(*found))]
        return found


def _next_part(node: AttrStmt, loops: list[For], line_bytes: int) -> _Part | None:
    """The region requested by the attribute `node` in these loops: None where its size or offset is not known.

    Where the last of the loops is the one that moves on, those inside the attribute bring the next region.
    """
    buffer: Buffer = node.target
    line = max(1, line_bytes // (buffer.dtype.itemsize * buffer.dtype.lanes))
    reading: list[tuple[Stmt, list[For]]] = [(loops[-1], loops[:-1])]
    if collect(node.body, For):
        reading.append((node.body, loops))
    for body, around in reading:
        region = _region(buffer, body)
        region = None if region is None else _carried(buffer, region)
        first = None if region is None else _stretch(buffer, region)
        if region is None or first is None:
            continue
        vars_of = {var for span in region for var in collect(span.min, Var)}
        position = max((i for i, loop in enumerate(around) if loop.var in vars_of), default=None)
        if position is not None:
            later = {loops[position].var: loops[position].var + node.value}
            within = [loop for loop in loops[position + 1 :] if isinstance(loop.extent, IntImm)]
            repeated = [loop for loop in loops[position + 1 :] if loop not in within]
            return _Part(buffer, region, first, later, within, repeated, line)
    return None


def _shared(part: _Part, body: Stmt, loops: list[For], at_once: int) -> Stmt:
    """`body`, run by all iterations of `loops`, with its share of the prefetches: further in where that is large."""
    if part.lines(loops) > at_once:
        stmts = list(body.stmts) if isinstance(body, SeqStmt) else [body]
        position = next((i for i in reversed(range(len(stmts))) if isinstance(stmts[i], For)), 0)
        last = stmts[position]
        if isinstance(last, For) and last.kind is ForKind.SERIAL and isinstance(last.extent, IntImm):
            inner = _shared(part, last.body, [*loops, last], at_once)
            stmts[position] = For(last.var, last.min, last.extent, last.kind, inner, annotations=last.annotations)
            return seq(*stmts)
    return seq(*part.prefetches(loops), body)


def _carried(buffer: Buffer, region: list[Range]) -> list[Range]:
    """The region with what a vector reads beyond the end of one dimension as more of the dimension before."""
    found = list(region)
    for d in range(len(found) - 1, 0, -1):
        size, span = buffer.shape[d], found[d]
        if not isinstance(size, IntImm) or not isinstance(span.extent, IntImm) or not op.is_const(span.min, 0):
            continue
        rows, rest = divmod(span.extent.value, size.value)
        if rows > 1 and rest == 0:
            found[d] = Range(span.min, size)
            found[d - 1] = Range(found[d - 1].min, Analyzer().simplify(found[d - 1].extent + (rows - 1)))
    return found


def _stretch(buffer: Buffer, region: list[Range]) -> int | None:
    """The dimension from which on the region is one stretch of memory; None where it is many or of unknown size.

    A stretch is whole in all but the first dimension that it spans. There is one for each position in the dimensions
    before.
    """
    extents = [int(span.extent.value) if isinstance(span.extent, IntImm) else 0 for span in region]
    if 0 in extents:
        return None
    first = len(extents) - 1
    while first and op.is_const(buffer.shape[first], extents[first]):
        first -= 1
    while first < len(extents) - 1 and extents[first] == 1:
        first += 1
    return first if math.prod(extents[:first]) <= _MOST_STRETCHES else None


def _region(buffer: Buffer, body: Stmt) -> list[Range] | None:
    """The region of `buffer` that `body` reads, by dimension; None if that is not known or nothing."""
    analyzer = Analyzer()
    ranges: dict[Var, Range | IntervalSet] = {}
    for loop in reversed(collect(body, For)):  # outer loops first, as their variables stand in the ranges of inner ones
        low, high = (eval_interval(x, ranges, analyzer) for x in (loop.min, loop.min + loop.extent - 1))
        ranges[loop.var] = IntervalSet(low.min, high.max)
    whole: list[IntervalSet] | None = None
    for indices in _indices_read(buffer, body):
        read = [eval_interval(i, ranges, analyzer) for i in indices]
        whole = read if whole is None else [union(a, b, analyzer) for a, b in zip(whole, read, strict=True)]
    if whole is None:
        return None
    spans = [interval.to_range() for interval in whole]
    known = [Range(span.min, analyzer.simplify(span.extent)) for span in spans if span is not None]
    return known if len(known) == len(spans) else None


def _indices_read(buffer: Buffer, body: Stmt) -> Iterator[Sequence[Expr]]:
    """The indices at which `body` reads `buffer`: of vectors and of the rows of matrix registers those of both ends."""
    simplify = Analyzer().simplify
    for load in collect(body, BufferLoad):
        if load.buffer is buffer:
            for end in (0, load.indices[-1].dtype.lanes - 1):
                yield [i.base + i.stride * end if isinstance(i, Ramp) else i for i in load.indices]
    for call in collect(body, Call):
        if call.op == "tile_load" and _element(call.args[2]).buffer is buffer:
            _, rows, first, second, width = call.args
            ends = zip(_element(first).indices, _element(second).indices, strict=True)
            *outer, last = [a + simplify(b - a) * (rows - 1) for a, b in ends]
            yield [*outer, last + (width // buffer.dtype.itemsize - 1)]


def _element(address: Expr) -> BufferLoad:
    """The element that a register's row begins with."""
    assert isinstance(address, Call) and isinstance(address.args[0], BufferLoad)
    return address.args[0]


def _prefetches(buffer: Buffer, region: list[Range], line_bytes: int) -> Stmt:
    """Loops over the region, a cache line at a time along the last dimension."""
    step = max(line_bytes // (buffer.dtype.itemsize * buffer.dtype.lanes), 1)
    simplify = Analyzer().simplify
    loops: list[tuple[Var, Expr]] = []
    indices: list[Expr] = []
    for d, span in enumerate(region):
        last = d == len(region) - 1
        extent = simplify((span.extent + (step - 1)) // step if last else span.extent)
        if op.is_const(extent, 1):
            indices.append(span.min)
            continue
        var = Var("line" if last else f"row{d}", extent.dtype)
        loops.append((var, extent))
        indices.append(span.min + (var * step if last else var))
    result: Stmt = Evaluate(Call("int32", "prefetch", (BufferLoad(buffer, indices),)))
    for var, extent in reversed(loops):
        result = For(var, op.const(0, var.dtype), extent, ForKind.SERIAL, result)
    return result
