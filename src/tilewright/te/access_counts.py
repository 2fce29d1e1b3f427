"""Accesses of a loop nest to each of its buffers, counted from the extents of the loops around.

Of equal loads in one statement one is counted, as one is made. What stands under a condition is counted as if it always
held, and marked so; what a call does with an address that it is given is not known, and marked so too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tilewright.support.recursion import nested
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm
from tilewright.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    While,
)
from tilewright.tir.visitor import children, post_order


@dataclass(frozen=True)
class Loops:
    """The loops around a statement: the product of constant extents, and the texts of the others."""

    constant: int = 1
    symbols: tuple[str, ...] = ()

    def inside(self, extent: Expr | str) -> Loops:
        """Within one more loop; the extent of a loop that turns until a condition holds is given by name."""
        if isinstance(extent, IntImm):
            return Loops(self.constant * extent.value, self.symbols)
        return Loops(self.constant, tuple(sorted((*self.symbols, str(extent)))))

    def text(self) -> str:
        """The trip count in words."""
        return _sum_text({self.symbols: self.constant})


@dataclass
class Count:
    """A number of elements as a sum of products: by the symbols of a product, its constant factor."""

    terms: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def add(self, loops: Loops, lanes: int = 1) -> None:
        """Count `lanes` elements in each turn of `loops`."""
        self.terms[loops.symbols] += loops.constant * lanes

    def per(self, whole: Loops) -> str | None:
        """The quotient by `whole` in a few digits; None where it does not come out without a fraction of symbols."""
        quotient: dict[tuple[str, ...], float] = {}
        for symbols, factor in self.terms.items():
            rest = Counter(symbols)
            rest.subtract(whole.symbols)
            if whole.constant == 0 or min(rest.values(), default=0) < 0:
                return None
            quotient[tuple(sorted(rest.elements()))] = factor / whole.constant
        return _sum_text(quotient)

    def __str__(self) -> str:
        return _sum_text(self.terms)


def _sum_text(terms: dict[tuple[str, ...], float] | Counter[tuple[str, ...]]) -> str:
    products = []
    for symbols, factor in sorted(terms.items()):
        number = f"{factor:,}" if isinstance(factor, int) or factor == int(factor) else f"{factor:.3g}"
        named = [s if s.isidentifier() else f"({s})" for s in symbols]
        products.append(" * ".join([*([] if named and factor == 1 else [number.removesuffix(".0")]), *named]))
    return " + ".join(products) or "0"


@dataclass
class BufferUse:
    """One buffer of a loop nest: in how many turns it is made anew, and the elements read and written in all of them.

    `at_most` tells that some accesses stand under a condition, `escapes` that a call gets its address.
    """

    buffer: Buffer
    made: Loops
    reads: Count = field(default_factory=Count)
    writes: Count = field(default_factory=Count)
    at_most: bool = False
    escapes: bool = False

    def elements(self) -> Loops:
        """The elements of the buffer, in all its copies."""
        total = self.made
        for size in self.buffer.shape:
            total = total.inside(size)
        return total

    def bytes(self) -> str:
        """The bytes of one copy, with the gaps that strides leave."""
        shape, strides, item = self.buffer.constant_shape(), self.buffer.strides, self.buffer.dtype.itemsize
        if shape is not None and strides is not None and all(isinstance(s, IntImm) for s in strides):
            last = sum((n - 1) * s.value for n, s in zip(shape, strides, strict=True))  # type: ignore[attr-defined]
            return f"{(last + 1) * item:,}"
        size = Loops(item)
        for dimension in self.buffer.shape:
            size = size.inside(dimension)
        return size.text()


def access_counts(func: PrimFunc) -> list[BufferUse]:
    """The use of each buffer of `func`: parameters first, then allocations in the order in which they are met."""
    walk = _Walk()
    for param in func.params:
        if isinstance(param, Buffer):
            walk.use(param)
    walk.statement(func.body, Loops(), Loops(), False)
    return list(walk.uses.values())


class _Walk:
    """State of one `access_counts`."""

    def __init__(self) -> None:
        self.uses: dict[Buffer, BufferUse] = {}
        self.views: dict[Buffer, Buffer] = {}

    def use(self, buffer: Buffer, made: Loops | None = None) -> BufferUse:
        """The entry of a buffer, or of the one that it is a view of."""
        while buffer in self.views:
            buffer = self.views[buffer]
        return self.uses.setdefault(buffer, BufferUse(buffer, made or Loops()))

    @nested
    def statement(self, stmt: Stmt, loops: Loops, blocks: Loops, guarded: bool) -> None:
        """Count in `stmt`, which runs in each turn of `loops`; `blocks` are those not over threads of one block."""
        if isinstance(stmt, Allocate):
            self.use(stmt.buffer, blocks if stmt.buffer.scope == "shared" else loops)
        elif isinstance(stmt, BufferStore):
            entry = self.use(stmt.buffer)
            entry.writes.add(loops, stmt.value.dtype.lanes)
            entry.at_most |= guarded
        elif isinstance(stmt, DeclBuffer) and (base := _pointed(stmt.address)) is not None:
            self.views[stmt.buffer] = base
        inner, inner_blocks = loops, blocks
        if isinstance(stmt, (For, While)):
            extent = stmt.extent if isinstance(stmt, For) else "turns"
            inner = loops.inside(extent)
            of_block = isinstance(stmt, For) and stmt.thread.startswith(("threadIdx", "vthread"))
            inner_blocks = blocks if of_block else blocks.inside(extent)
        for child in children(stmt):
            if isinstance(child, Stmt):
                self.statement(child, inner, inner_blocks, guarded or isinstance(stmt, (IfThenElse, While)))
            elif isinstance(child, Expr) and not isinstance(stmt, (AttrStmt, DeclBuffer)):
                self.expression(child, inner if isinstance(stmt, While) else loops, guarded)

    def expression(self, value: Expr, loops: Loops, guarded: bool) -> None:
        """Count the distinct loads in an expression that is computed in each turn of `loops`."""
        loads: dict[BufferLoad, None] = {}
        addresses: set[Expr] = set()
        conditional: set[Expr] = set()

        def note(node: Expr) -> None:
            if isinstance(node, BufferLoad):
                loads[node] = None
            elif isinstance(node, Call) and node.op == "address_of":
                addresses.add(node.args[0])
            elif isinstance(node, Call) and node.op == "if_then_else":
                post_order(node.args[1:], conditional.add)

        post_order(value, note)
        for load in loads:
            entry = self.use(load.buffer)
            if load in addresses:
                entry.escapes = True
            else:
                entry.reads.add(loops, load.dtype.lanes)
                entry.at_most |= guarded or load in conditional


def _pointed(address: Expr) -> Buffer | None:
    """The buffer in which `address` points; None where that is not written in it."""
    found: list[Buffer] = []
    post_order(address, lambda node: found.append(node.buffer) if isinstance(node, BufferLoad) else None)
    return found[0] if found else None
