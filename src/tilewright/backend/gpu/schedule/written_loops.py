"""Loops written for devices in place of an operation's own: the stage that runs them, and what their kernels share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te
from tilewright.backend.gpu.schedule.attention_problem import grid
from tilewright.backend.gpu.schedule.reduce import schedule_apart
from tilewright.target import DeviceTarget
from tilewright.te.cache import replace_op
from tilewright.te.extern import ExternOp
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, Var
from tilewright.tir.ir_builder import IRBuilder, create
from tilewright.tir.stmt import For, ForKind, Stmt
from tilewright.tir.transform.thread_sync import DISTINCT
from tilewright.topi.schedule.stages import computes


def find_written(outs: list[te.Tensor], tag: str) -> te.Tensor | None:
    """The operation of this tag in the computation of `outs`, where it is the one that is written as loops."""
    loops = [t for t in computes(outs) if not isinstance(t.op, te.ComputeOp)]
    return loops[0] if len(loops) == 1 and loops[0].op.tag == tag and te.index_dtype() == "int32" else None


def schedule_written(
    s: te.Schedule, anchor: te.Tensor, out: te.Tensor, target: DeviceTarget, body: Callable[[Buffer, Buffer], Stmt]
) -> None:
    """Replace the loops of `anchor` by those that `body` makes of its input and its output; all else is apart."""
    old = anchor.op
    assert isinstance(old, ExternOp)
    (source,), (result,) = old.input_buffers, old.output_buffers
    made = ExternOp(
        old.name, old.inputs, [source], [result], body(source, result), old.tag, old.attrs, old.position
    )  # fmt: skip
    replace_op(s, s[anchor], made)
    schedule_apart(s, [out], target)


def kernel(blocks: Any, threads: int, write: Callable[[IRBuilder, Expr, Expr], None]) -> Stmt:
    """A kernel of so many blocks of threads; `write(ib, block, thread)` writes its body."""
    block, thread, ib = Var("block"), Var("threadIdx.x"), create()
    write(ib, block, thread)
    return grid([(block, blocks, "blockIdx.x"), (thread, threads, "threadIdx.x")], ib.get())


def bit_and(a: Any, b: Any) -> Expr:
    """The bits that both integers have."""
    return op.call_intrin("int32", "bitwise_and", op.convert(a), op.convert(b))


def power(exponent: Any) -> Expr:
    """Two to an exponent."""
    return op.call_intrin("int32", "shift_left", op.const(1), op.convert(exponent))


def halved(value: Any, times: Any) -> Expr:
    """A number that is not negative, divided by two so many times."""
    return op.call_intrin("int32", "shift_right", op.convert(value), op.convert(times))


def distinct(ib: IRBuilder, extent: Any, write: Callable[[IRBuilder, Expr], None]) -> None:
    """A loop in which no two iterations of any threads touch one element of shared memory."""
    var, inner = Var("turn"), create()
    write(inner, var)
    ib.emit(For(var, op.const(0), op.convert(extent), ForKind.SERIAL, inner.get(), "", {DISTINCT: True}))
