"""The check that a kernel is oblivious: no branch, trip count or address of it depends on the data that it reads.

Who watches such a kernel from outside, by the pages or cache lines that it touches, by its branches or by the number of
its instructions, learns the shapes of the model and nothing of its inputs and weights (Ohrimenko et al., Oblivious
Multi-Party Machine Learning on Trusted Processors, 2016). The check is of the loop IR. A compiler may still make a
branch of a choice between two values, and a processor may take longer for some numbers (a division, a subnormal).
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.support.recursion import nested
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BinaryExpr, BufferLoad, Call, Div, Expr, FloorDiv, FloorMod, Let, Mod, Var
from tilewright.tir.intrinsics import INTRINSICS, written_through
from tilewright.tir.node import Node
from tilewright.tir.printer import to_text
from tilewright.tir.stmt import Allocate, AssertStmt, BufferStore, For, IfThenElse, LetStmt, PrimFunc, While
from tilewright.tir.visitor import children, collect, post_order

#: Calls that evaluate one of their arguments or the other.
_CHOICES = ("if_then_else",)
#: Calls of functions that are not in the loop IR.
_OUTSIDE = ("call_extern", "call_packed")
#: Characters of code that a dependence shows.
_LONGEST = 100


class Dependence(NamedTuple):
    """One spot where data can be observed: its code `text`.

    `kind` is "branch", "trip count", "address", "division" (of integers) or "call".
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def data_dependences(func: PrimFunc) -> list[Dependence]:
    """All that can be observed of the data `func` reads, in the order of its code; none for an oblivious function.

    Data is what its buffers hold, and what it computes of that; scalar parameters, sizes among them, are public.
    """
    data = DataFlow(func)
    found: dict[Dependence, None] = {}

    def look(node: Node) -> None:
        for kind, cause in _observable(node):
            if any(data.reaches(part) for part in cause):
                found[Dependence(kind, _line(node.condition if isinstance(node, IfThenElse | While) else node))] = None

    post_order(func, look)
    return list(found)


def _observable(node: Node) -> list[tuple[str, tuple[Expr, ...]]]:
    """The kind of what can be observed of a node, and the expressions whose values make the difference."""
    if isinstance(node, IfThenElse | While | AssertStmt):
        return [("branch", (node.condition,))]
    if isinstance(node, For):
        return [("trip count", (node.min, node.extent))]
    if isinstance(node, BufferLoad | BufferStore):
        return [("address", node.indices)]
    if isinstance(node, BinaryExpr):
        return [("division", _divisor(node))]
    if not isinstance(node, Call):
        return []
    if node.op in _CHOICES:
        return [("branch", node.args[:1])]
    if node.op in _OUTSIDE:
        return [("call", tuple(load for arg in node.args[1:] for load in (arg, *collect(arg, BufferLoad))))]
    return [("address", node.args[1:])] if node.op == "pointer_add" else []


def _divisor(node: Node) -> tuple[Expr, ...]:
    """The divisor of integers: how long a processor divides depends on it, and that 0 and -1 differ is a branch."""
    if isinstance(node, Div | Mod | FloorDiv | FloorMod) and node.dtype.is_int:
        return (node.b,)
    return ()


class DataFlow:
    """The buffers of a function that hold data, and the variables whose values depend on it."""

    def __init__(self, func: PrimFunc) -> None:
        own = {stmt.buffer for stmt in collect(func, Allocate)}
        stores = collect(func, BufferStore)
        bindings = [(let.var, let.value) for let in collect(func, LetStmt)]
        bindings += [(let.var, let.value) for let in collect(func, Let)]
        written = [call for call in collect(func, Call) if not INTRINSICS[call.op].pure or written_through(call)]
        self._sources: set[Buffer | Var] = {
            *(load.buffer for load in collect(func, BufferLoad) if load.buffer not in own and load.dtype != "handle"),
            *(load.buffer for call in written for load in collect(call, BufferLoad)),
        }
        while True:
            self._memo: dict[Expr, bool] = {}
            more: set[Buffer | Var] = {var for var, value in bindings if self.reaches(value)}
            more |= {node.buffer for node in stores if self.reaches(node.value)}
            if more <= self._sources:
                break
            self._sources |= more

    def reaches(self, expr: Expr) -> bool:
        """True if the value of `expr` depends on data. An address does not depend on what is stored there."""
        if expr not in self._memo:
            self._memo[expr] = self._depends(expr)
        return self._memo[expr]

    @nested
    def _depends(self, expr: Expr) -> bool:
        if isinstance(expr, Var):
            return expr in self._sources
        if isinstance(expr, BufferLoad) and expr.buffer in self._sources:
            return True
        if isinstance(expr, Call) and expr.op in ("address_of", "access_region"):
            return any(self.reaches(i) for arg in expr.args for i in children(arg))
        return any(self.reaches(child) for child in children(expr))


def _line(node: Node) -> str:
    """The first line of the code of `node`, cut where it is long."""
    text = to_text(node).splitlines()[0]
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
