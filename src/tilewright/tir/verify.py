"""The checker: what a valid program of the loop IR is, as a table with one rule per node class.

The builders of nodes check what can be seen at one node when it is made; here is what depends on the surroundings
(scopes, kinds of loops) and what a pass could get wrong. Tests run it between the stages of lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.errors import InternalError
from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import stmt as s
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.intrinsics import INTRINSICS
from tilewright.tir.node import Node
from tilewright.tir.visitor import children

Complaints = Iterator[str]


def verify(func: s.PrimFunc) -> None:
    """Raise InternalError, naming the node and what is wrong with it, unless `func` is a valid program."""
    checker = _Checker(func)
    for param in func.params:
        checker.define(param, "parameter")
    for param in func.params:
        if isinstance(param, Buffer):
            checker.shape(param, param)
    checker.stmt(func.body)


class _Checker:
    def __init__(self, func: s.PrimFunc) -> None:
        self.func = func
        self.defined: dict[Any, None] = {}
        self._checked: set[Expr] = set()

    def fail(self, node: Any, problem: str) -> None:
        """Raise the error about `node`."""
        raise InternalError(f"in {self.func.name}, {type(node).__name__}: {problem}\n  {_shown(node)}")

    def define(self, thing: Any, node: Any) -> None:
        """Put a variable or buffer in scope."""
        if thing in self.defined:
            self.fail(node, f"{thing.name} is defined again within its own scope")
        self.defined[thing] = None

    def leave(self, thing: Any) -> None:
        """Take a variable or buffer out of scope, and forget what was checked with it in scope."""
        del self.defined[thing]
        self._checked.clear()

    def shape(self, buffer: Buffer, node: Any) -> None:
        """Check the dimensions and strides of a buffer that is defined at `node`."""
        for size in (*buffer.shape, *(buffer.strides or ())):
            if not size.dtype.is_int or size.dtype.lanes != 1:
                self.fail(node, f"{buffer.name} has a dimension of type {size.dtype}")
            self.expr(size)
        if buffer.strides is not None and len(buffer.strides) != len(buffer.shape):
            self.fail(node, f"{buffer.name} has {len(buffer.shape)} dimensions and {len(buffer.strides)} strides")

    @nested
    def expr(self, x: Expr) -> None:
        """Check an expression and everything in it, each distinct node once in a scope."""
        if x in self._checked:
            return
        self._checked.add(x)
        if isinstance(x, e.Let):
            self.expr(x.value)
            self.define(x.var, x)
            self.expr(x.body)
            self.leave(x.var)
        else:
            for child in children(x):
                self.expr(child)
        self.apply(_EXPRESSIONS, x)

    @nested
    def stmt(self, stmt: s.Stmt) -> None:
        """Check a statement and everything in it."""
        if type(stmt) not in _STATEMENTS:
            self.fail(stmt, "no statement of the loop IR")
        self.apply(_STATEMENTS, stmt)
        inside = _scope_of(stmt)
        for child in children(stmt):
            if not isinstance(child, s.Stmt):
                self.expr(child)
        if inside is not None:
            self.define(inside, stmt)
            if isinstance(inside, Buffer):
                self.shape(inside, stmt)
        for child in children(stmt):
            if isinstance(child, s.Stmt):
                self.stmt(child)
        if inside is not None:
            self.leave(inside)

    def apply(self, table: dict[type, Callable[[_Checker, Any], Complaints]], node: Node) -> None:
        """Raise the first complaint of the rule for the class of `node`."""
        rule = table.get(type(node))
        if rule is not None:
            for problem in rule(self, node):
                self.fail(node, problem)


def _shown(node: Any) -> str:
    lines = repr(node).splitlines() if not isinstance(node, str) else [node]
    return "\n  ".join(lines if len(lines) <= 6 else [*lines[:6], "…"])


def _scope_of(stmt: s.Stmt) -> Any:
    """The variable or buffer that exists within the body of `stmt`."""
    if isinstance(stmt, (s.For, s.LetStmt)):
        return stmt.var
    return stmt.buffer if isinstance(stmt, (s.Allocate, s.DeclBuffer)) else None


# ------------------------------------------------------------------------------------------------- expressions
def _var(c: _Checker, x: Var) -> Complaints:
    if x not in c.defined:
        yield f"the variable {x.name} is read outside its scope"


def _int_imm(c: _Checker, x: IntImm) -> Complaints:
    low, high = x.dtype.limits() if x.dtype.is_int or x.dtype.is_bool else (1, 0)
    if not low <= x.value <= high:
        yield f"{x.value} is no value of {x.dtype}"


def _binary(c: _Checker, x: e.BinaryExpr) -> Complaints:
    if x.a.dtype is not x.b.dtype:
        yield f"operands of {x.a.dtype} and {x.b.dtype}"


def _arithmetic(c: _Checker, x: e.BinaryExpr) -> Complaints:
    yield from _binary(c, x)
    if not (x.a.dtype.is_int or x.a.dtype.is_float):
        yield f"arithmetic of {x.a.dtype}"


def _integer(c: _Checker, x: e.BinaryExpr) -> Complaints:
    yield from _binary(c, x)
    if not x.a.dtype.is_int:
        yield f"floor division of {x.a.dtype}; divide and take the floor"


def _logic(c: _Checker, x: e.BinaryExpr) -> Complaints:
    yield from _binary(c, x)
    if not x.a.dtype.is_bool:
        yield f"logic of {x.a.dtype}; compare first"


def _cast(c: _Checker, x: e.Cast) -> Complaints:
    if x.dtype.lanes != x.value.dtype.lanes:
        yield f"{x.value.dtype} becomes {x.dtype}, with other lanes"


def _select(c: _Checker, x: e.Select) -> Complaints:
    if not x.condition.dtype.is_bool or x.condition.dtype.lanes not in (1, x.dtype.lanes):
        yield f"a condition of {x.condition.dtype} for values of {x.dtype}"


def _ramp(c: _Checker, x: e.Ramp) -> Complaints:
    if x.base.dtype.lanes != 1 or x.base.dtype is not x.stride.dtype or not x.base.dtype.is_int:
        yield f"base of {x.base.dtype} and stride of {x.stride.dtype}; both must be one scalar integer type"
    if x.lanes < 2:
        yield f"{x.lanes} lanes"


def _broadcast(c: _Checker, x: e.Broadcast) -> Complaints:
    if x.value.dtype.lanes != 1 or x.lanes < 2:
        yield f"{x.value.dtype} in {x.lanes} lanes"


def _shuffle(c: _Checker, x: e.Shuffle) -> Complaints:
    available = sum(v.dtype.lanes for v in x.vectors)
    if len({v.dtype.element for v in x.vectors}) != 1:
        yield "vectors of different element types"
    if not all(0 <= i < available for i in x.indices):
        yield f"an index outside the {available} lanes there are"


def _access(c: _Checker, buffer: Buffer, indices: tuple[Expr, ...]) -> Complaints:
    if buffer not in c.defined:
        yield f"the buffer {buffer.name} is accessed outside its scope"
    if len(indices) != len(buffer.shape):
        yield f"{buffer.name} has {len(buffer.shape)} dimensions and gets {len(indices)} indices"
    for position, index in enumerate(indices):
        if not index.dtype.is_int:
            yield f"index {position} of {buffer.name} is {index.dtype}"
        if index.dtype.lanes > 1 and position + 1 < len(indices):
            yield f"index {position} of {buffer.name} is a vector; only the last may be"


def _load(c: _Checker, x: e.BufferLoad) -> Complaints:
    yield from _access(c, x.buffer, x.indices)
    lanes = x.indices[-1].dtype.lanes if x.indices else 1
    if x.dtype is not x.buffer.dtype.with_lanes(lanes):
        yield f"yields {x.dtype} of {x.buffer.dtype} and an index of {lanes} lanes"


def _call(c: _Checker, x: e.Call) -> Complaints:
    known = INTRINSICS.get(x.op)
    if known is None:
        yield f"the call {x.op!r} is not in tir/intrinsics.py"
    elif known.arity is not None and len(x.args) != known.arity:
        yield f"{x.op} takes {known.arity} arguments, not {len(x.args)}"
    else:
        problem = known.rule(x)
        if problem is not None:
            yield f"{x.op} {problem}"


def _lowered(c: _Checker, x: Expr) -> Complaints:
    yield "a node of tensor expressions; lowering to loops must have replaced it"


_EXPRESSIONS: dict[type, Callable[[_Checker, Any], Complaints]] = {
    Var: _var,
    e.SizeVar: _var,
    IntImm: _int_imm,
    **dict.fromkeys((e.Add, e.Sub, e.Mul, e.Div, e.Mod), _arithmetic),
    **dict.fromkeys((e.FloorDiv, e.FloorMod), _integer),
    **dict.fromkeys((e.Min, e.Max, e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE), _binary),
    **dict.fromkeys((e.And, e.Or), _logic),
    e.Cast: _cast,
    e.Select: _select,
    e.Ramp: _ramp,
    e.Broadcast: _broadcast,
    e.Shuffle: _shuffle,
    e.BufferLoad: _load,
    e.Call: _call,
    e.ProducerLoad: _lowered,
    e.Reduce: _lowered,
}


# -------------------------------------------------------------------------------------------------- statements
def _for(c: _Checker, x: s.For) -> Complaints:
    if not (x.var.dtype is x.min.dtype is x.extent.dtype) or not x.var.dtype.is_int or x.var.dtype.lanes != 1:
        yield f"the variable is {x.var.dtype}, the range {x.min.dtype} and {x.extent.dtype}"
    if x.kind in (s.ForKind.VECTORIZED, s.ForKind.UNROLLED) and not isinstance(x.extent, IntImm):
        yield f"a loop that is {x.kind.value} needs a constant extent, not {x.extent!r}"
    if (x.kind is s.ForKind.THREAD_BINDING) != bool(x.thread):
        yield f"kind {x.kind.value} with thread {x.thread!r}"


def _condition(c: _Checker, x: Any) -> Complaints:
    if x.condition.dtype != "bool":
        yield f"a condition of {x.condition.dtype}"


def _store(c: _Checker, x: s.BufferStore) -> Complaints:
    yield from _access(c, x.buffer, x.indices)
    lanes = x.indices[-1].dtype.lanes if x.indices else 1
    if x.value.dtype is not x.buffer.dtype.with_lanes(lanes):
        yield f"stores {x.value.dtype} into {x.buffer.dtype} at an index of {lanes} lanes"


def _let(c: _Checker, x: s.LetStmt) -> Complaints:
    if x.var.dtype is not x.value.dtype:
        yield f"{x.var.name} is {x.var.dtype}, its value {x.value.dtype}"


def _declare(c: _Checker, x: s.DeclBuffer) -> Complaints:
    if x.address.dtype != "handle":
        yield f"the address of {x.buffer.name} is {x.address.dtype}"


def _evaluate(c: _Checker, x: s.Evaluate) -> Complaints:
    if not isinstance(x.value, (e.Call, IntImm)):
        yield "an expression without effect; only a call has one"


def _fine(c: _Checker, x: Any) -> Complaints:
    return iter(())


_STATEMENTS: dict[type, Callable[[_Checker, Any], Complaints]] = {
    s.SeqStmt: _fine,
    s.For: _for,
    s.While: _condition,
    s.BufferStore: _store,
    s.Allocate: _fine,
    s.DeclBuffer: _declare,
    s.IfThenElse: _condition,
    s.LetStmt: _let,
    s.AttrStmt: _fine,
    s.AssertStmt: _condition,
    s.Evaluate: _evaluate,
}
