"""Compute floats that no loop changes before the loops, where a C compiler may not: it could trap, or memory alias."""

from __future__ import annotations

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Var
from tilewright.tir.intrinsics import INTRINSICS
from tilewright.tir.stmt import BufferStore, For, LetStmt, PrimFunc, Stmt
from tilewright.tir.visitor import Rewriter, children, collect


def hoist_values(func: PrimFunc) -> PrimFunc:
    """`func` with floats computed from fixed elements of its inputs alone, and from nothing else, before its loops.

        for i in range(100):                    v = 127 / abs(s[0])
            y[i] = x[i] * (127 / abs(s[0]))  =>  for i in range(100):
                                                    y[i] = x[i] * v

    Inputs are buffers that the function neither stores to nor takes the address of. Arithmetic on floats never faults
    (docs/ir.md), so that what a condition kept from being evaluated may be.
    """
    if not collect(func.body, For):
        return func
    addressed = {
        load.buffer
        for call in collect(func.body, Call)
        for load in call.args
        if call.op in ("address_of", "access_region") and isinstance(load, BufferLoad)
    }
    stored = {store.buffer for store in collect(func.body, BufferStore)}
    hoister = _Hoister({param for param in func.params if isinstance(param, Buffer)} - stored - addressed)
    body: Stmt = hoister(func.body)
    for value, var in reversed(hoister.found.items()):
        body = LetStmt(var, value, body)
    return func.with_body(body) if hoister.found else func


class _Hoister(Rewriter):
    def __init__(self, inputs: set[Buffer]) -> None:
        super().__init__()
        self.inputs = inputs
        self.found: dict[Expr, Var] = {}
        self._fixed: dict[Expr, bool] = {}

    def visit_Expr(self, x: Expr) -> Expr:
        """The variable of a value that stays the same and takes more than a load."""
        if x.dtype.is_float and x.dtype.lanes == 1 and not isinstance(x, BufferLoad) and self._is_fixed(x):
            if collect(x, BufferLoad):
                return self.found.setdefault(x, Var(f"fixed_{len(self.found)}", x.dtype))
            return x
        return self.rebuild(x)

    @nested
    def _is_fixed(self, x: Expr) -> bool:
        if x not in self._fixed:
            self._fixed[x] = self._stays(x) and all(map(self._is_fixed, children(x)))
        return self._fixed[x]

    def _stays(self, x: Expr) -> bool:
        if isinstance(x, Call):
            return x.op in INTRINSICS and INTRINSICS[x.op].pure and bool(x.args)
        if isinstance(x, BufferLoad):
            sizes = zip(x.indices, x.buffer.shape, strict=True)
            return x.buffer in self.inputs and all(
                isinstance(i, IntImm) and isinstance(size, IntImm) and 0 <= i.value < size.value for i, size in sizes
            )
        return not isinstance(x, Var | e.Let)
