"""The boxes of buffers that a statement accesses, and the test of two for a shared element."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Var
from tilewright.tir.intrinsics import written_through
from tilewright.tir.op import const
from tilewright.tir.stmt import BufferStore, For, Stmt, While
from tilewright.tir.transform.statements import walk
from tilewright.tir.visitor import collect, collect_vars, substitute


class Box(NamedTuple):
    """An access to `extents` elements of `buffer` from `start`, for each iteration of the loops `inner`."""

    buffer: Buffer
    start: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    writes: bool
    inner: tuple[For, ...]


def boxes_of(stmt: Stmt, loops: Sequence[For] = ()) -> list[Box]:
    """Every access in `stmt`, which `loops` are around.

    A call of `access_region` says its box and whether it writes; memory whose address is taken otherwise may be
    accessed whole, and written unless the address is for reading.
    """
    inner = (*loops, *[s for s in walk(stmt) if isinstance(s, For)])
    nodes = collect(stmt, BufferStore, BufferLoad, Call)
    pointers = [x for x in nodes if isinstance(x, Call) and x.op in ("access_region", "address_of")]
    named = {a for x in pointers for a in x.args if isinstance(a, BufferLoad)}
    found = []
    for node in nodes:
        if isinstance(node, BufferStore) or (isinstance(node, BufferLoad) and node not in named):
            ones = tuple(const(1) for _ in node.indices)
            found.append(Box(node.buffer, node.indices, ones, isinstance(node, BufferStore), inner))
    for call in pointers:
        load = next(a for a in call.args if isinstance(a, BufferLoad))
        if call.op == "address_of":
            zeros = tuple(const(0) for _ in load.indices)
            found.append(Box(load.buffer, zeros, load.buffer.shape, written_through(call), inner))
        else:
            found.append(Box(load.buffer, load.indices, call.args[2:], written_through(call), inner))
    return found


def may_overlap(first: Box, second: Box, moving: For | While | None = None, unknown: Collection[Var] = ()) -> bool:
    """False if the two boxes of one buffer certainly share no element.

    Variables of loops around both have one value in both, but for that of the loop `moving`, which has gone on. Nothing
    follows from indices with variables of `unknown`.
    """
    analyzer = Analyzer()
    moved = (moving,) if isinstance(moving, For) else ()
    for loop in (*moved, *first.inner):
        _bind(analyzer, loop.var, loop)
    fresh: dict[Var, Expr] = {}
    for loop in (*moved, *second.inner):
        renamed = Var(loop.var.name, loop.var.dtype)
        fresh[loop.var] = renamed
        _bind(analyzer, renamed, loop)
    for a, n, b, m in zip(first.start, first.extents, second.start, second.extents, strict=True):
        if collect((a, b, n, m), BufferLoad) or any(v in unknown for v in collect_vars((a, b, n, m))):
            continue
        b, m = substitute(b, fresh), substitute(m, fresh)
        if analyzer.can_prove(a + n <= b) or analyzer.can_prove(b + m <= a):
            return False
    return True


def _bind(analyzer: Analyzer, var: Var, loop: For) -> None:
    """Tells the range of a loop's variable; one whose range varies with other loops is taken as anything."""
    if isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm) and not collect_vars(loop.extent):
        analyzer.bind(var, loop.min, loop.extent)
