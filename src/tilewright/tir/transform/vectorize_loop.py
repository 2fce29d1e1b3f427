"""Turn loops of kind VECTORIZED into vector expressions, one lane per iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.arith.analyzer import Analyzer
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.stmt import (
    Allocate,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from tilewright.tir.transform.folding import fold_add, fold_subtract, map_children
from tilewright.tir.transform.guards import safe_to_evaluate
from tilewright.tir.transform.statements import map_stmt, substitute_var, with_fields
from tilewright.tir.transform.vector_index import ramp_divide, ramp_modulo
from tilewright.tir.visitor import collect


def vectorize_loop(func: PrimFunc) -> PrimFunc:
    """`func` with each VECTORIZED loop of constant extent n replaced by operations on n lanes.

    A statement that has no vector form (a condition that differs between lanes and guards memory, a nested vector
    loop) stays a serial loop of its own; the statements around it are still vectorized, as the lanes of a vectorized
    loop do not depend on each other. Where they do (all lanes store to one place, and it is no sum, product, minimum
    or maximum), the whole loop is serial.

        for i in vectorized(16):         c[ramp(j*16, 1, 16)] = a[ramp(j*16, 1, 16)] + broadcast(b[j], 16)
            c[j*16 + i] = a[j*16 + i] + b[j]        =>
    """
    return func.with_body(_Vectorizer().stmt(func.body))


class _Vectorizer:
    """Finds the loops, with the ranges of the loops around them known to `analyzer`."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def stmt(self, stmt: Stmt) -> Stmt:
        if type(stmt) is not For:
            return map_stmt(stmt, self.stmt, _unchanged)
        self.analyzer.bind(stmt.var, (stmt.min, stmt.extent))
        body = self.stmt(stmt.body)
        if stmt.kind is ForKind.VECTORIZED:
            lanes = stmt.extent.value if isinstance(stmt.extent, IntImm) else 0
            try:
                if lanes >= 1:
                    return seq(*[self._vector(stmt, body, *piece) for piece in _pieces(lanes)])
            except _LanesDepend:
                pass
            return For(stmt.var, stmt.min, stmt.extent, ForKind.SERIAL, body).at(stmt.position)
        if body is stmt.body:
            return stmt
        return with_fields(stmt, body=body)

    def _vector(self, loop: For, body: Stmt, first: int, lanes: int) -> Stmt:
        """Iterations `first` to `first + lanes` of `loop`, whose body is `body`, as one vector."""
        low = op.add(loop.min, op.const(first, loop.var.dtype))
        if lanes == 1:
            return substitute_var(body, loop.var, low)
        return _Lanes(loop.var, low, lanes, self.analyzer).stmt(body)


def _pieces(extent: int) -> Iterator[tuple[int, int]]:
    """(first iteration, lanes) of the vectors of a loop of `extent` iterations: powers of two, the longest first.

    LLVM splits others too, but keeps them in memory from one iteration to the next, and their calls go lane by lane.
    """
    first = 0
    while first < extent:
        lanes = 1 << (extent - first).bit_length() - 1
        yield first, lanes
        first += lanes


def _unchanged(x: Expr) -> Expr:
    return x


class _NoVectorForm(Exception):
    """Raised within this file only: the statement at hand must stay scalar."""


class _LanesDepend(Exception):
    """Raised within this file only: iterations depend on each other, so the whole loop must stay serial."""


class _Lanes:
    """Rewrites the body of one loop. An expression that is the same in all lanes stays scalar."""

    def __init__(self, var: Var, low: Expr, lanes: int, analyzer: Analyzer) -> None:
        self.var, self.low, self.lanes, self.analyzer = var, low, lanes, analyzer
        self.memo: dict[Expr, Expr] = {var: e.Ramp(low, op.const(1, var.dtype), lanes)}
        self.strict = 0  # within a vector `let`: a statement that fails takes the let with it

    # ------------------------------------------------------------------------------------------ statements
    def stmt(self, stmt: Stmt) -> Stmt:
        if type(stmt) is SeqStmt:
            return seq(*[self.stmt(s) for s in stmt.stmts])
        try:
            return _STMTS.get(type(stmt), _Lanes._other)(self, stmt).at(stmt.position)
        except _NoVectorForm:
            if self.strict:
                raise
            extent = op.const(self.lanes, self.var.dtype)
            return For(self.var, self.low, extent, ForKind.SERIAL, stmt).at(stmt.position)

    def _other(self, stmt: Stmt) -> Stmt:
        return map_stmt(stmt, self.stmt, self._invariant)

    def _invariant(self, x: Expr) -> Expr:
        """`x` where every lane must agree."""
        result = self.expr(x)
        if result.dtype.lanes > 1:
            raise _NoVectorForm
        return result

    def _for(self, loop: For) -> Stmt:
        self.analyzer.bind(loop.var, (loop.min, loop.extent))
        return self._other(loop)

    def _scalar_only(self, stmt: Stmt) -> Stmt:
        raise _NoVectorForm

    def _evaluate(self, stmt: Evaluate) -> Stmt:
        self._invariant(stmt.value)
        raise _NoVectorForm  # an effect must happen once per lane even where its arguments agree

    def _let(self, stmt: LetStmt) -> Stmt:
        value = self.expr(stmt.value)
        if value.dtype.lanes == 1:
            body = self.stmt(stmt.body)
            return stmt if value is stmt.value and body is stmt.body else LetStmt(stmt.var, value, body)
        self.memo[stmt.var] = var = Var(stmt.var.name, value.dtype)
        self.strict += 1
        try:
            return LetStmt(var, value, self.stmt(stmt.body))
        finally:
            self.strict -= 1

    def _store(self, stmt: BufferStore) -> Stmt:
        indices = [self.expr(i) for i in stmt.indices]
        if any(i.dtype.lanes > 1 for i in indices[:-1]):
            raise _NoVectorForm
        value = self.expr(stmt.value)
        if indices and indices[-1].dtype.lanes > 1:
            return BufferStore(stmt.buffer, op.broadcast(value, self.lanes), tuple(indices))
        if value.dtype.lanes > 1:
            value = self._across_lanes(stmt)
        elif _reads(stmt.value, stmt.buffer):
            raise _LanesDepend
        return BufferStore(stmt.buffer, value, tuple(indices))

    def _across_lanes(self, stmt: BufferStore) -> Expr:
        """The value of a store to one place by all lanes, where it is c[k] = c[k] op x: a reduction across lanes."""
        value = stmt.value
        name = _REDUCERS.get(type(value))
        if name is not None:
            assert isinstance(value, e.BinaryExpr)
            old = e.BufferLoad(stmt.buffer, stmt.indices)
            rest = value.b if value.a is old else value.a if value.b is old else None
            if rest is not None and not _reads(rest, stmt.buffer):
                vector = self.expr(rest)
                reduced = e.Call(vector.dtype.element, name, (vector,))
                return type(value)(self.expr(old), reduced)
        raise _LanesDepend

    # ----------------------------------------------------------------------------------------- expressions
    def expr(self, x: Expr) -> Expr:
        found = self.memo.get(x)
        if found is None:
            if x.dtype.lanes > 1:
                raise _NoVectorForm
            found = self.memo[x] = _EXPRS.get(type(x), _Lanes._leaf_or_generic)(self, x)
        return found

    def _leaf_or_generic(self, x: Expr) -> Expr:
        return map_children(x, self.expr)

    def _spread(self, *parts: Expr) -> list[Expr]:
        """`parts` with the lanes of this loop if any of them is a vector, else as they are."""
        if all(p.dtype.lanes == 1 for p in parts):
            return list(parts)
        return [op.broadcast(p, self.lanes) for p in parts]

    def _binary(self, x: Any) -> Expr:
        a, b = self.expr(x.a), self.expr(x.b)
        if a is x.a and b is x.b:
            return x
        a, b = self._spread(a, b)
        return type(x)(a, b)

    def _sum(self, x: Any) -> Expr:
        a, b = self.expr(x.a), self.expr(x.b)
        if a is x.a and b is x.b:
            return x
        join = fold_add if type(x) is e.Add else fold_subtract
        if not x.dtype.is_int or not (_is_affine(a) and _is_affine(b)):
            return join(*self._spread(a, b))
        stride = join(_stride(a), _stride(b))
        base = join(_base(a), _base(b))
        return base if op.is_const(stride, 0) else e.Ramp(base, stride, self.lanes)

    def _product(self, x: Any) -> Expr:
        a, b = self.expr(x.a), self.expr(x.b)
        if a is x.a and b is x.b:
            return x
        if isinstance(b, e.Ramp):
            a, b = b, a
        if isinstance(a, e.Ramp) and b.dtype.lanes == 1:
            return e.Ramp(op.multiply(a.base, b), op.multiply(a.stride, b), self.lanes)
        return op.multiply(*self._spread(a, b))

    def _divide(self, x: Any) -> Expr:
        a, b = self.expr(x.a), self.expr(x.b)
        if a is x.a and b is x.b:
            return x
        if isinstance(a, e.Ramp) and isinstance(b, IntImm) and b.value > 0:
            shorten = ramp_divide if type(x) is e.FloorDiv else ramp_modulo
            short = shorten(a, b.value, self.analyzer)
            if short is not None:
                return short
        a, b = self._spread(a, b)
        return type(x)(a, b)

    def _cast(self, x: Any) -> Expr:
        value = self.expr(x.value)
        if isinstance(value, e.Ramp) and x.dtype.is_int:
            return e.Ramp(op.cast(x.dtype, value.base), op.cast(x.dtype, value.stride), self.lanes)
        return x if value is x.value else op.cast(x.dtype.with_lanes(value.dtype.lanes), value)

    def _select(self, x: Any) -> Expr:
        condition = self.expr(x.condition)
        a, b = self._spread(self.expr(x.true_value), self.expr(x.false_value))
        if condition.dtype.lanes > 1:
            a, b = op.broadcast(a, self.lanes), op.broadcast(b, self.lanes)
        return x if (condition, a, b) == (x.condition, x.true_value, x.false_value) else e.Select(condition, a, b)

    def _let_expr(self, x: Any) -> Expr:
        value = self.expr(x.value)
        if value is not x.value:
            self.memo[x.var] = Var(x.var.name, value.dtype)
        body = self.expr(x.body)
        return x if body is x.body and value is x.value else e.Let(self.memo.get(x.var, x.var), value, body)

    def _load(self, x: Any) -> Expr:
        indices = [self.expr(i) for i in x.indices]
        if any(i.dtype.lanes > 1 for i in indices[:-1]):
            raise _NoVectorForm
        return e.BufferLoad(x.buffer, indices)

    def _call(self, x: Any) -> Expr:
        if x.op == "if_then_else":
            return self._if_then_else(x)
        args = [self.expr(a) for a in x.args]
        if all(new is old for new, old in zip(args, x.args, strict=True)):
            return x
        if x.op in _SCALAR_CALLS:
            raise _NoVectorForm
        if x.op in ("reinterpret", "likely") or x.dtype.is_float or x.dtype.is_int or x.dtype.is_bool:
            return e.Call(x.dtype.with_lanes(self.lanes), x.op, self._spread(*args))
        raise _NoVectorForm

    def _if_then_else(self, x: Any) -> Expr:
        """Lazy where the lanes agree on the condition; otherwise a select, if both sides may be evaluated."""
        condition = self.expr(x.args[0])
        if condition.dtype.lanes > 1 and not all(safe_to_evaluate(a, self.analyzer) for a in x.args[1:]):
            raise _NoVectorForm
        a, b = self._spread(self.expr(x.args[1]), self.expr(x.args[2]))
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


_STMTS: dict[type, Callable[[Any, Any], Stmt]] = {
    BufferStore: _Lanes._store,
    LetStmt: _Lanes._let,
    For: _Lanes._for,
    Evaluate: _Lanes._evaluate,
    Allocate: _Lanes._scalar_only,
    DeclBuffer: _Lanes._scalar_only,
    While: _Lanes._scalar_only,
    IfThenElse: _Lanes._other,
}
_EXPRS: dict[type, Callable[[Any, Any], Expr]] = {
    e.Add: _Lanes._sum,
    e.Sub: _Lanes._sum,
    e.Mul: _Lanes._product,
    e.FloorDiv: _Lanes._divide,
    e.FloorMod: _Lanes._divide,
    **dict.fromkeys((e.Div, e.Mod, e.Min, e.Max, e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or), _Lanes._binary),
    e.Cast: _Lanes._cast,
    e.Select: _Lanes._select,
    e.Let: _Lanes._let_expr,
    e.BufferLoad: _Lanes._load,
    e.Call: _Lanes._call,
}
