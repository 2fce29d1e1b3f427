"""Split reductions over a vectorized loop into one accumulator per lane, summed up once at the end."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BinaryExpr, BufferLoad, Expr, IntImm, Var
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, PrimFunc, Stmt, seq
from tilewright.tir.transform.accesses import accesses_of
from tilewright.tir.transform.statements import with_fields
from tilewright.tir.visitor import StmtRewriter, collect_vars


def vectorize_reduction(func: PrimFunc) -> PrimFunc:
    """`func` with lane accumulators for `c[k] = c[k] op x` in a vectorized loop within loops that k does not depend on.

    op is +, *, min or max. Runs before `vectorize_loop`, which would otherwise reduce across lanes in every iteration.

                                                    t = allocate(float32[16], "local")
                                                    for j in vectorized(16):
                                                        t[j] = 0
        for i in range(n):                          for i in range(n):
            for j in vectorized(16):        =>          for j in vectorized(16):
                c[0] = c[0] + a[i*16 + j]                   t[j] = t[j] + a[i*16 + j]
                                                    for j in vectorized(16):
                                                        c[0] = c[0] + t[j]
    """
    return _Visitor()(func)


@dataclass
class _Reduction:
    """The loops from the outermost one that may enclose the accumulators down to the vectorized one, and the store."""

    lanes: For
    store: BufferStore
    operation: type[BinaryExpr]
    rest: Expr


class _Visitor(StmtRewriter):
    def visit_For(self, node: For) -> Stmt:
        """A loop that is such a reduction, with accumulators; others are searched."""
        found = _match(node) if node.kind in (ForKind.SERIAL, ForKind.UNROLLED) else None
        return self.rebuild(node) if found is None else _with_accumulators(node, found)


def _match(loop: For) -> _Reduction | None:
    """The reduction that is the whole of `loop`, if its position is the same in all iterations."""
    variables: list[Var] = []
    conditions: list[Expr] = []
    inner: Stmt = loop
    while True:
        if type(inner) is For and inner.kind in (ForKind.SERIAL, ForKind.UNROLLED):
            variables.append(inner.var)
            inner = inner.body
        elif type(inner) is IfThenElse and inner.else_case is None:
            conditions.append(inner.condition)
            inner = inner.then_case
        else:
            break
    if type(inner) is not For or inner.kind is not ForKind.VECTORIZED or not isinstance(inner.extent, IntImm):
        return None
    store = inner.body
    if type(store) is not BufferStore or type(store.value) not in _IDENTITY:
        return None
    old, value = BufferLoad(store.buffer, store.indices), store.value
    assert isinstance(value, BinaryExpr)
    rest = value.b if value.a is old else value.a if value.b is old else None
    varying = {*variables, inner.var}
    fixed = all(varying.isdisjoint(collect_vars(i)) for i in store.indices)
    if rest is None or not fixed or store.buffer in accesses_of(rest, *conditions).reads:
        return None
    return _Reduction(inner, store, type(value), rest)


def _with_accumulators(loop: For, found: _Reduction) -> Stmt:
    lanes, store = found.lanes, found.store
    assert isinstance(lanes.extent, IntImm)
    partial = Buffer(f"{store.buffer.name}.lanes", [lanes.extent], store.buffer.dtype, "local")
    position = (lanes.var - lanes.min,)
    add = BufferStore(partial, found.operation(BufferLoad(partial, position), found.rest), position).at(store.position)
    first, last = Var(lanes.var.name, lanes.var.dtype), Var(lanes.var.name, lanes.var.dtype)
    zero = op.const(0, lanes.var.dtype)
    identity = op.const(_IDENTITY[found.operation](store.buffer.dtype), store.buffer.dtype)
    clear = BufferStore(partial, identity, (first,)).at(store.position)
    total = found.operation(BufferLoad(store.buffer, store.indices), BufferLoad(partial, [last]))
    gather = BufferStore(store.buffer, total, store.indices).at(store.position)
    body = seq(
        For(first, zero, lanes.extent, ForKind.VECTORIZED, clear),
        _Replacer(lanes, add)(loop),
        For(last, zero, lanes.extent, ForKind.VECTORIZED, gather),
    ).at(loop.position)
    return Allocate(partial, body)


class _Replacer(StmtRewriter):
    """The body of one loop replaced."""

    def __init__(self, loop: For, body: Stmt) -> None:
        super().__init__()
        self.loop, self.body = loop, body

    def visit_For(self, node: For) -> Stmt:
        """The loop with its new body, if it is the one."""
        return with_fields(node, body=self.body) if node is self.loop else self.rebuild(node)


_IDENTITY = {
    e.Add: lambda dtype: 0,
    e.Mul: lambda dtype: 1,
    e.Max: lambda dtype: dtype.extremes()[0],
    e.Min: lambda dtype: dtype.extremes()[1],
}
