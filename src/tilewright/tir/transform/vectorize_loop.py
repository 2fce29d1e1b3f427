"""Turn loops of kind VECTORIZED into vector expressions, one lane per iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.support.dtype import MAX_LANES
from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.stmt import (
    BufferStore,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    PrimFunc,
    Stmt,
    seq,
)
from tilewright.tir.transform.folding import FoldingRewriter, fold_add, fold_subtract, substitute_var
from tilewright.tir.transform.guards import safe_to_evaluate
from tilewright.tir.transform.statements import with_fields
from tilewright.tir.transform.vector_index import ramp_divide, ramp_modulo
from tilewright.tir.visitor import StmtRewriter, children, collect


def vectorize_loop(func: PrimFunc) -> PrimFunc:
    """`func` with each VECTORIZED loop of constant extent n replaced by operations on n lanes.

    A statement that has no vector form (a condition that differs between lanes and guards memory, a nested vector
    loop) stays a serial loop of its own; the statements around it are still vectorized, as the lanes of a vectorized
    loop do not depend on each other. Where they do (all lanes store to one position, and it is no sum, product, minimum
    or maximum), the whole loop is serial.

        for i in vectorized(16):         c[ramp(j*16, 1, 16)] = a[ramp(j*16, 1, 16)] + broadcast(b[j], 16)
            c[j*16 + i] = a[j*16 + i] + b[j]        =>
    """
    return _Vectorizer()(func)


class _Vectorizer(StmtRewriter):
    """Finds the loops, with the ranges of the loops around them known to `analyzer`."""

    def __init__(self) -> None:
        super().__init__()
        self.analyzer = Analyzer()

    def visit_For(self, stmt: For) -> Stmt:
        """The loop, or the vector statements in place of it."""
        self.analyzer.bind(stmt.var, (stmt.min, stmt.extent))
        body: Stmt = self(stmt.body)
        if stmt.kind is ForKind.VECTORIZED:
            lanes = stmt.extent.value if isinstance(stmt.extent, IntImm) else 0
            try:
                if lanes >= 1:
                    return seq(*self._longest(stmt, body, lanes // MAX_LANES), *self._rest(stmt, body, lanes))
            except _LanesDepend:
                pass
            return For(stmt.var, stmt.min, stmt.extent, ForKind.SERIAL, body)
        if body is stmt.body:
            return stmt
        return with_fields(stmt, body=body)

    def _longest(self, loop: For, body: Stmt, count: int) -> Iterator[Stmt]:
        """The first `count` vectors of `loop`, of as many lanes as there may be: a serial loop."""
        dtype = loop.var.dtype
        if count == 1:
            yield self._vector(loop, body, op.const(0, dtype), MAX_LANES)
        elif count > 1:
            start, extent = op.const(0, dtype), op.const(count, dtype)
            part = Var(f"{loop.var.name}_part", dtype)
            self.analyzer.bind(part, (start, extent))
            vector = self._vector(loop, body, op.multiply(part, op.const(MAX_LANES, dtype)), MAX_LANES)
            yield For(part, start, extent, ForKind.SERIAL, vector)

    def _rest(self, loop: For, body: Stmt, extent: int) -> Iterator[Stmt]:
        """The vectors behind these."""
        done = extent // MAX_LANES * MAX_LANES
        for first, lanes in _pieces(extent - done):
            yield self._vector(loop, body, op.const(done + first, loop.var.dtype), lanes)

    def _vector(self, loop: For, body: Stmt, first: Expr, lanes: int) -> Stmt:
        """Iterations `first` to `first + lanes` of `loop`, whose body is `body`, as one vector."""
        low = op.add(loop.min, first)
        if lanes == 1:
            return substitute_var(body, loop.var, low)
        made: Stmt = _Lanes(loop.var, low, lanes, self.analyzer)(body)
        return made


def _pieces(extent: int) -> Iterator[tuple[int, int]]:
    """(first iteration, lanes) of the vectors of a loop of `extent` iterations: powers of two, the longest first.

    LLVM splits others too, but keeps them in memory from one iteration to the next, and their calls go lane by lane.
    """
    first = 0
    while first < extent:
        lanes = 1 << (extent - first).bit_length() - 1
        yield first, lanes
        first += lanes


class _NoVectorForm(Exception):
    """Raised within this file only: the statement at hand must stay scalar."""


class _LanesDepend(Exception):
    """Raised within this file only: iterations depend on each other, so the whole loop must stay serial."""


class _Lanes(FoldingRewriter):
    """Rewrites the body of one loop. An expression that is the same in all lanes stays scalar."""

    def __init__(self, var: Var, low: Expr, lanes: int, analyzer: Analyzer) -> None:
        super().__init__()
        self.var, self.low, self.lanes, self.analyzer = var, low, lanes, analyzer
        self.memo[var] = e.Ramp(low, op.const(1, var.dtype), lanes)
        self.strict = 0  # within a vector `let`: a statement that fails takes the let with it

    def __call__(self, node: Any) -> Any:
        if isinstance(node, Stmt):
            return self._statement(node)
        found = self.memo.get(node)
        if found is None:
            if node.dtype.lanes > 1:
                raise _NoVectorForm
            found = self.memo[node] = self._lanes_of(node)
        return found

    @nested
    def _lanes_of(self, node: Expr) -> Any:
        cls = node.__class__
        return (self._handlers.get(cls) or self._handler(cls))(self, node)

    # ------------------------------------------------------------------------------------------ statements
    def _statement(self, stmt: Stmt) -> Stmt:
        """`stmt` for all lanes; where it has no such form, a loop over them."""
        try:
            made: Stmt = super().__call__(stmt)
            return made
        except _NoVectorForm:
            if self.strict:
                raise
            extent = op.const(self.lanes, self.var.dtype)
            return For(self.var, self.low, extent, ForKind.SERIAL, stmt).at(stmt.position)

    def visit_Stmt(self, stmt: Stmt) -> Stmt:
        """A statement on whose own expressions every lane must agree."""
        if any(isinstance(x, Expr) and self(x).dtype.lanes > 1 for x in children(stmt)):
            raise _NoVectorForm
        return self.rebuild(stmt)

    def visit_For(self, loop: For) -> Stmt:
        """A loop that all lanes run."""
        self.analyzer.bind(loop.var, (loop.min, loop.extent))
        return self.visit_Stmt(loop)

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        """A call: an effect must happen once per lane even where its arguments agree."""
        raise _NoVectorForm

    visit_Allocate = visit_DeclBuffer = visit_While = visit_Evaluate

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        """A name for a scalar or a vector."""
        value = self(stmt.value)
        if value.dtype.lanes == 1:
            return self.rebuild(stmt)
        self.memo[stmt.var] = var = Var(stmt.var.name, value.dtype)
        self.strict += 1
        try:
            return LetStmt(var, value, self(stmt.body))
        finally:
            self.strict -= 1

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        """A vector store, or a reduction over the lanes."""
        indices = [self(i) for i in stmt.indices]
        if any(i.dtype.lanes > 1 for i in indices[:-1]):
            raise _NoVectorForm
        value = self(stmt.value)
        if indices and indices[-1].dtype.lanes > 1:
            return BufferStore(stmt.buffer, op.broadcast(value, self.lanes), tuple(indices))
        if value.dtype.lanes > 1:
            value = self._across_lanes(stmt)
        elif _reads(stmt.value, stmt.buffer):
            raise _LanesDepend
        return BufferStore(stmt.buffer, value, tuple(indices))

    def _across_lanes(self, stmt: BufferStore) -> Expr:
        """The value of a store to one position by all lanes, where it is c[k] = c[k] op x: a reduction across lanes."""
        value = stmt.value
        name = _REDUCERS.get(type(value))
        if name is not None:
            assert isinstance(value, e.BinaryExpr)
            old = e.BufferLoad(stmt.buffer, stmt.indices)
            rest = value.b if value.a is old else value.a if value.b is old else None
            if rest is not None and not _reads(rest, stmt.buffer):
                vector = self(rest)
                reduced = e.Call(vector.dtype.element, name, (vector,))
                return type(value)(self(old), reduced)
        raise _LanesDepend

    # ----------------------------------------------------------------------------------------- expressions
    def _spread(self, *parts: Expr) -> list[Expr]:
        """`parts` with the lanes of this loop if any of them is a vector, else as they are."""
        if all(p.dtype.lanes == 1 for p in parts):
            return list(parts)
        return [op.broadcast(p, self.lanes) for p in parts]

    def visit_BinaryExpr(self, x: Any) -> Expr:
        """The operation on lanes."""
        a, b = self(x.a), self(x.b)
        if a is x.a and b is x.b:
            return x
        a, b = self._spread(a, b)
        return type(x)(a, b)

    def visit_Add(self, x: Any) -> Expr:
        """A sum or difference; of ramps, a ramp."""
        a, b = self(x.a), self(x.b)
        if a is x.a and b is x.b:
            return x
        join = fold_add if type(x) is e.Add else fold_subtract
        if not x.dtype.is_int or not (_is_affine(a) and _is_affine(b)):
            return join(*self._spread(a, b))
        stride = join(_stride(a), _stride(b))
        base = join(_base(a), _base(b))
        return base if op.is_const(stride, 0) else e.Ramp(base, stride, self.lanes)

    visit_Sub = visit_Add

    def visit_Mul(self, x: Any) -> Expr:
        """A product; of a ramp, a ramp."""
        a, b = self(x.a), self(x.b)
        if a is x.a and b is x.b:
            return x
        if isinstance(b, e.Ramp):
            a, b = b, a
        if isinstance(a, e.Ramp) and b.dtype.lanes == 1:
            return e.Ramp(op.multiply(a.base, b), op.multiply(a.stride, b), self.lanes)
        return op.multiply(*self._spread(a, b))

    def visit_FloorDiv(self, x: Any) -> Expr:
        """A quotient or remainder; of a ramp, a ramp where its lanes allow."""
        a, b = self(x.a), self(x.b)
        if a is x.a and b is x.b:
            return x
        if isinstance(a, e.Ramp) and isinstance(b, IntImm) and b.value > 0:
            shorten = ramp_divide if type(x) is e.FloorDiv else ramp_modulo
            short = shorten(a, b.value, self.analyzer)
            if short is not None:
                return short
        a, b = self._spread(a, b)
        return type(x)(a, b)

    visit_FloorMod = visit_FloorDiv

    def visit_Cast(self, x: Any) -> Expr:
        """A conversion; of a ramp, a ramp."""
        value = self(x.value)
        if isinstance(value, e.Ramp) and x.dtype.is_int:
            return e.Ramp(op.cast(x.dtype, value.base), op.cast(x.dtype, value.stride), self.lanes)
        return x if value is x.value else op.cast(x.dtype.with_lanes(value.dtype.lanes), value)

    def visit_Select(self, x: Any) -> Expr:
        """The choice in every lane."""
        condition = self(x.condition)
        a, b = self._spread(self(x.true_value), self(x.false_value))
        if condition.dtype.lanes > 1:
            a, b = op.broadcast(a, self.lanes), op.broadcast(b, self.lanes)
        return x if (condition, a, b) == (x.condition, x.true_value, x.false_value) else e.Select(condition, a, b)

    def visit_Let(self, x: Any) -> Expr:
        """A name for a scalar or a vector."""
        value = self(x.value)
        if value is not x.value:
            self.memo[x.var] = Var(x.var.name, value.dtype)
        body = self(x.body)
        return x if body is x.body and value is x.value else e.Let(self.memo.get(x.var, x.var), value, body)

    def visit_BufferLoad(self, x: Any) -> Expr:
        """A vector load where the last index is a vector."""
        indices = [self(i) for i in x.indices]
        if any(i.dtype.lanes > 1 for i in indices[:-1]):
            raise _NoVectorForm
        return e.BufferLoad(x.buffer, indices)

    def visit_Call(self, x: Any) -> Expr:
        """The call in every lane."""
        if x.op == "if_then_else":
            return self._if_then_else(x)
        args = [self(a) for a in x.args]
        if all(new is old for new, old in zip(args, x.args, strict=True)):
            return x
        if x.op in _SCALAR_CALLS:
            raise _NoVectorForm
        if all(arg.dtype.lanes == 1 for arg in args):  # such as of (lane + 32) // 6 where there are four lanes
            return e.Call(x.dtype, x.op, args)
        if x.op in ("reinterpret", "likely") or x.dtype.is_float or x.dtype.is_int or x.dtype.is_bool:
            return e.Call(x.dtype.with_lanes(self.lanes), x.op, self._spread(*args))
        raise _NoVectorForm

    def _if_then_else(self, x: Any) -> Expr:
        """Lazy where the lanes agree on the condition; otherwise a select, if both sides may be evaluated."""
        condition = self(x.args[0])
        if condition.dtype.lanes > 1 and not all(safe_to_evaluate(a, self.analyzer) for a in x.args[1:]):
            raise _NoVectorForm
        a, b = self._spread(self(x.args[1]), self(x.args[2]))
        if condition.dtype.lanes > 1:
            return e.Select(condition, op.broadcast(a, self.lanes), op.broadcast(b, self.lanes))
        return op.if_then_else(condition, a, b)


_SCALAR_CALLS = frozenset({"call_extern", "address_of", "prefetch", "barrier", "warp_shuffle", "warp_shuffle_down"})
_REDUCERS: dict[type, str] = {
    e.Add: "vector_reduce_add",
    e.Mul: "vector_reduce_mul",
    e.Max: "vector_reduce_max",
    e.Min: "vector_reduce_min",
}


def _is_affine(x: Expr) -> bool:
    return x.dtype.lanes == 1 or isinstance(x, e.Ramp)


def _base(x: Expr) -> Expr:
    return x.base if isinstance(x, e.Ramp) else x


def _stride(x: Expr) -> Expr:
    return x.stride if isinstance(x, e.Ramp) else op.const(0, x.dtype)


def _reads(x: Expr, buffer: Any) -> bool:
    """True if `x` loads from `buffer`."""
    return any(load.buffer is buffer for load in collect(x, e.BufferLoad))
