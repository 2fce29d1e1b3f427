"""Prefetches: asking for the memory that a later iteration of a loop reads."""

from __future__ import annotations

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.int_set import IntervalSet, eval_interval, union
from tilewright.arith.range import Range
from tilewright.machine import Machine
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, Var
from tilewright.tir.stmt import AttrStmt, Evaluate, For, ForKind, PrimFunc, Stmt, seq
from tilewright.tir.visitor import StmtRewriter, collect, substitute

KEY = "prefetch"


def inject_prefetch(func: PrimFunc, line_bytes: int = Machine.line) -> PrimFunc:
    """`func` with each attribute "prefetch" of a loop's body made prefetches of what is read that many iterations on.

    for i in range(8):                                 for i in range(8):
        with attribute("prefetch", 2, on=a):               for line in range(2):
            for j in range(32):              =>                prefetch(a[i + 2, line*16])
                c[i, j] = a[i, j]                          for j in range(32):
                                                               c[i, j] = a[i, j]

    One prefetch is made for each cache line, of `line_bytes`, of the part of the buffer that the body reads. Nothing is
    made where that part is not known. Addresses past the end of the buffer are harmless: a prefetch does not fault.
    """
    return _Injector(line_bytes)(func)


class _Injector(StmtRewriter):
    def __init__(self, line_bytes: int) -> None:
        super().__init__()
        self.line_bytes = line_bytes
        self.loop: For | None = None

    def visit_For(self, node: For) -> Stmt:
        """Remembers the loop that an attribute just inside it speaks of."""
        before, self.loop = self.loop, node
        result: Stmt = self.rebuild(node)
        self.loop = before
        return result

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        """The prefetches, then the body."""
        body: Stmt = self(node.body)
        if node.key != KEY:
            return body if body is node.body and node.key == KEY else AttrStmt(node.key, node.target, node.value, body)
        region = None if self.loop is None else _region(node.target, body)
        if self.loop is None or region is None:
            return body
        ahead = substitute(
            _prefetches(node.target, region, self.line_bytes), {self.loop.var: self.loop.var + node.value}
        )
        return seq(ahead, body)


def _region(buffer: Buffer, body: Stmt) -> list[Range] | None:
    """What `body` reads of `buffer`, by dimension; None if that is not known or nothing."""
    analyzer = Analyzer()
    ranges: dict[Var, Range | IntervalSet] = {}
    for loop in reversed(collect(body, For)):  # outer loops first, as their variables stand in the ranges of inner ones
        low, high = (eval_interval(x, ranges, analyzer) for x in (loop.min, loop.min + loop.extent - 1))
        ranges[loop.var] = IntervalSet(low.min, high.max)
    whole: list[IntervalSet] | None = None
    for load in collect(body, BufferLoad):
        if load.buffer is buffer:
            read = [eval_interval(i, ranges, analyzer) for i in load.indices]
            whole = read if whole is None else [union(a, b, analyzer) for a, b in zip(whole, read, strict=True)]
    if whole is None:
        return None
    spans = [interval.to_range() for interval in whole]
    return None if any(span is None for span in spans) else [span for span in spans if span is not None]


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
