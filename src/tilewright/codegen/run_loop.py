"""The run loop of a compiled model: one function of the loop IR that calls every kernel in order.

All workers run it together (the kernels are SPMD); a barrier stands between kernels. Its parameters are pointers:
the model's inputs, its outputs, the weights, the arena of intermediates, and the base of the workers' own scratch.

    def main(input0, output0, weights, arena, scratch):
        fused_conv2d(input0, weights + 0, arena + 0, arena + 401408, scratch + worker * stride)
        barrier()
        …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.support.dtype import DType
from tilewright.tir import op as tir_op
from tilewright.tir.expr import Call, Expr, StringImm, Var
from tilewright.tir.stmt import Evaluate, PrimFunc, Stmt, seq

Space = Literal["input", "output", "weights", "arena", "scratch"]


@dataclass(frozen=True)
class Location:
    """Where a kernel's argument lives: `offset` is an index for inputs and outputs, bytes for the other spaces."""

    space: Space
    offset: int


@dataclass(frozen=True)
class KernelCall:
    """One step of the run loop: the kernel's name, where its arguments live, and the source nodes it computes."""

    kernel: str
    arguments: tuple[Location, ...]
    source: str = ""


def build_run_loop(
    calls: Sequence[KernelCall], inputs: int, outputs: int, scratch_stride: int, name: str = "main"
) -> PrimFunc:
    """The function that runs `calls` in order; `scratch_stride` is the bytes of scratch memory of one worker."""
    pointers: dict[tuple[str, int], Expr] = {}
    params: list[Var] = []

    def parameter(label: str, space: str, index: int) -> None:
        var = Var(label, "handle")
        params.append(var)
        pointers[space, index] = var

    for i in range(inputs):
        parameter(f"input{i}", "input", i)
    for i in range(outputs):
        parameter(f"output{i}", "output", i)
    for space in ("weights", "arena", "scratch"):
        parameter(space, space, 0)

    worker = tir_op.cast("int64", Call("int32", "worker_id", ()))
    own = _advance(pointers["scratch", 0], tir_op.multiply(worker, tir_op.const(scratch_stride, "int64")))

    def address(where: Location) -> Expr:
        if where.space in ("input", "output"):
            return pointers[where.space, where.offset]
        base = own if where.space == "scratch" else pointers[where.space, 0]
        return _advance(base, tir_op.const(where.offset, "int64"))

    steps: list[Stmt] = []
    for i, call in enumerate(calls):
        if i:
            steps.append(Evaluate(Call("int32", "barrier", ())))
        arguments = tuple(address(where) for where in call.arguments)
        steps.append(Evaluate(Call("int32", "call_function", (StringImm(call.kernel), *arguments))))
    return PrimFunc(name, params, seq(*steps) if steps else Evaluate(tir_op.const(0)), {"spmd": True, "noalias": False})


def _advance(pointer: Expr, offset: Expr) -> Expr:
    return pointer if tir_op.is_const(offset, 0) else Call(DType("handle"), "pointer_add", (pointer, offset))
