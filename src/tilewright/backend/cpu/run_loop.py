"""The run loop of a compiled model: one function of the loop IR that calls every kernel in order.

All workers run it together (the kernels are SPMD); a barrier stands between kernels. For the worker pool
`tir.transform.run_regions` makes it a function of the kernel's number, so that the pool can deal out the shares. Its
parameters are pointers: the slots, which are those of the model's inputs and then its outputs, the weights, the arena
of intermediates, and the base of the workers' own scratch. Slots are read where they are used, as a model may have
thousands.

    def main(slots, weights, arena, scratch):
        fused_conv2d(slots[0], weights + 0, arena + 0, arena + 401408, scratch + worker * stride)
        barrier()
        …

With symbolic sizes a table of 64-bit integers follows. It holds the dimensions, which kernels take as scalars, and the
offsets that are known at run time only: `arena + table[5]`; one entry is the stride of the scratch memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.runtime.native import Kind
from tilewright.runtime.plan import ExecutionPlan, Location
from tilewright.support.dtype import DType
from tilewright.tir import op as tir_op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, StringImm, Var
from tilewright.tir.stmt import Evaluate, PrimFunc, Stmt, seq


def build_run_loop(plan: ExecutionPlan, kinds: Mapping[str, Kind]) -> PrimFunc:
    """The function that makes the calls of `plan` in order; `kinds` say by kernel how workers share it ("shared").

    With symbolic sizes it takes a table, one entry of which is the stride of the scratch memory.
    """
    loop = _RunLoop(plan)
    steps: list[Stmt] = []
    for i, call in enumerate(plan.kernels):
        if i:
            steps.append(Evaluate(Call("int32", "barrier", ())))
        arguments = tuple(loop.argument(arg) for arg in call.args)
        steps.append(Evaluate(Call("int32", "call_function", (StringImm(call.name), *arguments))))
    body = seq(*steps) if steps else Evaluate(tir_op.const(0))
    shared_by = tuple(kinds.get(call.name, "shared") for call in plan.kernels)
    attrs = {"spmd": True, "noalias": False, "slots": len(plan.inputs) + len(plan.outputs), "regions": shared_by}
    return PrimFunc(plan.entry, loop.params, body, attrs)


class _RunLoop:
    """The parameters of a run loop, and the arguments of its calls in terms of them."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.slots = Buffer("slots", [Var("count")], "handle")
        self.outputs = len(plan.inputs)
        self.pointers = {space: Var(space, "handle") for space in ("weights", "arena", "scratch")}
        self.params: list[Var | Buffer] = [self.slots, *self.pointers.values()]
        self.table = Buffer("table", [Var("entries")], "int64")
        stride: Expr = tir_op.const(plan.worker_workspace_bytes, "int64")
        if plan.dynamic is not None:
            self.params.append(self.table)
            stride = self.entry(plan.dynamic.stride_entry)
        worker = tir_op.cast("int64", Call("int32", "worker_id", ()))
        self.own = _advance(self.pointers["scratch"], tir_op.multiply(worker, stride))

    def entry(self, index: int) -> Expr:
        """An entry of the table."""
        return BufferLoad(self.table, (tir_op.const(index),))

    def argument(self, where: Location) -> Expr:
        """The argument that `where` describes: an address, or a dimension."""
        if where.space == "table":
            return tir_op.cast("int32", self.entry(where.offset))
        if where.space in ("input", "output"):
            return BufferLoad(self.slots, (tir_op.const(where.offset + self.outputs * (where.space == "output")),))
        offset = tir_op.const(where.offset, "int64")
        for slot in where.slots:
            offset = tir_op.add(offset, self.entry(slot))
        return _advance(self.own if where.space == "scratch" else self.pointers[where.space], offset)


def _advance(pointer: Expr, offset: Expr) -> Expr:
    return pointer if tir_op.is_const(offset, 0) else Call(DType("handle"), "pointer_add", (pointer, offset))
