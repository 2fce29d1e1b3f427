"""Write vector statements out lane by lane, for languages without vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.dot_product import SUMS
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Var
from tilewright.tir.look_up import expand_look_up
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, LetStmt, PrimFunc, Stmt, seq
from tilewright.tir.table_lookup import ENTRIES, NONE
from tilewright.tir.transform.folding import FoldingRewriter, fold_add
from tilewright.tir.visitor import collect, substitute

_FOLDS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "vector_reduce_add": e.Add,
    "vector_reduce_mul": e.Mul,
    "vector_reduce_max": e.Max,
    "vector_reduce_min": e.Min,
}


def scalarize_vectors(func: PrimFunc, kept: Callable[[BufferStore], bool] | None = None) -> PrimFunc:
    """`func` without vectors: a vector store becomes a loop over its lanes, unrolled where lanes are shuffled.

    Stores that are `kept` stay as they are.

        y[ramp(i*4, 1, 4)] = x[ramp(i*4, 1, 4)] + broadcast(a, 4)
    =>
        for lane in range(4):
            y[i*4 + lane] = x[i*4 + lane] + a

    A store that reads its own buffer goes through a local array, because all lanes are read before any is written. Sums
    over lanes add in the order in which the LLVM code generator adds them, so results are equal.
    """
    return _Scalarizer(kept)(func)


class _Scalarizer(FoldingRewriter):
    def __init__(self, kept: Callable[[BufferStore], bool] | None = None) -> None:
        super().__init__()
        self.kept = kept
        self.arrays: dict[Var, Buffer] = {}  # what holds the lanes of a vector variable

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        """A store; of a vector, lane by lane."""
        lanes = stmt.value.dtype.lanes
        if lanes == 1:
            return self.rebuild(stmt)
        if self.kept is not None and self.kept(stmt):
            return stmt
        reads = {load.buffer for load in collect(stmt.value, BufferLoad)}
        if stmt.buffer not in reads:
            return self._loop(lanes, [stmt.value, *stmt.indices], lambda i: self._lane_store(stmt, i))
        held = Buffer(f"{stmt.buffer.name}_lanes", [lanes], stmt.value.dtype.element, "local")
        fill = self._loop(lanes, [stmt.value], lambda i: BufferStore(held, self.lane(stmt.value, i), (i,)))
        copy = self._loop(
            lanes,
            [*stmt.indices],
            lambda i: BufferStore(stmt.buffer, BufferLoad(held, (i,)), self._lane_indices(stmt.indices, i)),
        )
        return Allocate(held, seq(fill, copy))

    def _lane_store(self, stmt: BufferStore, i: Expr) -> Stmt:
        return BufferStore(stmt.buffer, self.lane(stmt.value, i), self._lane_indices(stmt.indices, i))

    def _lane_indices(self, indices: tuple[Expr, ...], i: Expr) -> tuple[Expr, ...]:
        return tuple(self.lane(x, i) for x in indices)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        """A name; of a vector, an array of its lanes."""
        lanes = stmt.value.dtype.lanes
        if lanes == 1:
            return self.rebuild(stmt)
        held = Buffer(stmt.var.name, [lanes], stmt.value.dtype.element, "local")
        fill = self._loop(lanes, [stmt.value], lambda i: BufferStore(held, self.lane(stmt.value, i), (i,)))
        self.arrays[stmt.var] = held
        self.memo = {}  # another vector may have had this name
        return Allocate(held, seq(fill, self(stmt.body)))

    def _loop(self, lanes: int, parts: list[Expr], body: Callable[[Expr], Stmt]) -> Stmt:
        """`body` for each lane: a loop, or one statement a lane where `parts` shuffle lanes."""
        if collect(parts, e.Shuffle):
            return seq(*[body(op.const(i)) for i in range(lanes)])
        lane = Var("lane")
        # written out, so that arrays of lanes are registers: a compiler that leaves the loop keeps them in memory
        return For(lane, op.const(0), op.const(lanes), ForKind.SERIAL, body(lane), "", {"unroll_hint": True})

    # ---------------------------------------------------------------------------------------------- expressions
    def visit_Shuffle(self, x: e.Shuffle) -> Expr:
        """One lane of vectors."""
        return self._shuffle(x, op.const(0)) if x.dtype.lanes == 1 else self.rebuild(x)

    def visit_Call(self, call: Call) -> Expr:
        """A call; a reduction over lanes is written out."""
        if call.op == "mask_bits":
            return self._mask(call)
        if call.op not in _FOLDS:
            return self.rebuild(call)
        vector, combine = call.args[0], _FOLDS[call.op]
        values = [self.lane(vector, op.const(i)) for i in range(vector.dtype.lanes)]
        while len(values) > 1:
            half = len(values) // 2
            rest = values[2 * half :]
            values = [combine(values[i], values[half + i]) for i in range(half)] + rest
        return values[0]

    def _mask(self, call: Call) -> Expr:
        """The word of a `mask_bits`."""
        (lanes,) = call.args
        word: Expr = op.const(0, call.dtype)
        for i in range(lanes.dtype.lanes):
            bit = self.lane(lanes, op.const(i)).astype(call.dtype)
            raised = op.call_intrin(call.dtype, "shift_left", bit, op.const(i, call.dtype)) if i else bit
            word = op.call_intrin(call.dtype, "bitwise_or", word, raised) if i else raised
        return word

    @nested
    def lane(self, x: Expr, i: Expr) -> Expr:
        """Lane `i` of a vector; a scalar is the same in every lane."""
        if isinstance(x, Call) and x.op == "any_lane":
            return self.lane(x.args[0], i)  # what was worth a branch for all is asked of each
        if x.dtype.lanes == 1:
            made: Expr = self(x)
            return made
        rule = _LANES.get(type(x))
        if rule is not None:
            return rule(self, x, i)
        if isinstance(x, e.BinaryExpr):
            return type(x)(self.lane(x.a, i), self.lane(x.b, i))
        raise UnsupportedError(f"a vector expression has no form lane by lane: {x!r}")

    def _variable(self, x: Var, i: Expr) -> Expr:
        return BufferLoad(self.arrays[x], (i,))

    def _inner_let(self, x: e.Let, i: Expr) -> Expr:
        return self.lane(substitute(x.body, {x.var: x.value}), i)

    def _shuffle(self, x: e.Shuffle, i: Expr) -> Expr:
        assert isinstance(i, IntImm)
        position = x.indices[i.value]
        for vector in x.vectors:
            if position < vector.dtype.lanes:
                return self.lane(vector, op.const(position))
            position -= vector.dtype.lanes
        raise UnsupportedError(f"a shuffle names a lane that its vectors lack: {x!r}")

    def _call(self, x: Call, i: Expr) -> Expr:
        if x.op in ("dot2", "dot4", "dot4_in_pairs"):
            return self._dot(x, i)
        if x.op == "look_up":
            return self.lane(expand_look_up(x), i)
        if x.op == "table_lookup":
            return self._lookup(x, i)
        arguments = [a if isinstance(a, e.StringImm) else self.lane(a, i) for a in x.args]
        return Call(x.dtype.element, x.op, tuple(arguments))

    def _lookup(self, x: Call, i: Expr) -> Expr:
        """The entry that lane `i` of the index names; 0 for none, of constant indices alone."""
        table, index = x.args
        at = self.lane(index, i)
        if isinstance(at, IntImm) and at.value == NONE:
            return op.const(0, table.dtype.element)
        start = i // ENTRIES * ENTRIES if table.dtype.lanes > ENTRIES else op.const(0)
        return self.lane(table, start + at.astype("int32"))

    def _dot(self, x: Call, i: Expr) -> Expr:
        """One lane's sum and the products of its group."""
        acc, *factors = x.args
        group, sums = SUMS[str(factors[0].dtype.element)]
        total = self.lane(acc, i)
        for position in range(group):
            a, b = (self._member(factor, i, position, group).astype(sums) for factor in factors)
            total = total + a * b
        return total

    def _member(self, x: Expr, i: Expr, position: int, group: int) -> Expr:
        """Element `position` of group `i` of a vector, which may be one group spread to all."""
        word = x.args[0] if isinstance(x, Call) and x.op == "reinterpret" else None
        one = word.value if isinstance(word, e.Broadcast) else None
        if isinstance(one, Call) and one.op == "reinterpret":
            return self.lane(one.args[0], op.const(position))
        return self.lane(x, i * group + position)


_LANES: dict[type, Callable[[_Scalarizer, Any, Expr], Expr]] = {
    e.Ramp: lambda s, x, i: fold_add(s(x.base), i.astype(x.base.dtype) * s(x.stride)),
    e.Broadcast: lambda s, x, i: s(x.value),
    e.Not: lambda s, x, i: e.Not(s.lane(x.a, i)),
    e.Cast: lambda s, x, i: e.Cast(x.dtype.element, s.lane(x.value, i)),
    e.Select: lambda s, x, i: e.Select(s.lane(x.condition, i), s.lane(x.true_value, i), s.lane(x.false_value, i)),
    e.BufferLoad: lambda s, x, i: BufferLoad(x.buffer, s._lane_indices(x.indices, i)),
    e.Var: _Scalarizer._variable,
    e.Let: _Scalarizer._inner_let,
    e.Shuffle: _Scalarizer._shuffle,
    e.Call: _Scalarizer._call,
}
