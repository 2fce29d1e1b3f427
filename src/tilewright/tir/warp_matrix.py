"""Calls that the threads of a warp make together on fragments: 16 x 16 tiles of matrices spread over their registers.

A fragment lies in a buffer of scope "wmma.matrix_a", "wmma.matrix_b" or "wmma.accumulator", whose sizes are multiples
of 16; it is named by its first element. Every position comes with its stride, the elements between two rows. A call's
first argument is what it writes.

    fill_fragment(fragment, stride, value)              load_matrix_sync(fragment, stride, memory, stride)
    mma_sync(c, stride, a, stride, b, stride)           store_matrix_sync(memory, stride, fragment, stride)

`mma_sync` adds a @ b to c (NVIDIA, CUDA C++ Programming Guide, "Warp Matrix Functions").
"""

from __future__ import annotations

from typing import Any

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr
from tilewright.tir.stmt import Evaluate, Stmt

#: The rows and columns of a fragment.
SIDE = 16
#: The threads that hold a fragment together.
WARP = 32
#: Scopes that hold fragments.
MATRIX_A, MATRIX_B, ACCUMULATOR = "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"
FRAGMENT_SCOPES = (MATRIX_A, MATRIX_B, ACCUMULATOR)
#: The calls above; each writes to its first argument.
CALLS = ("fill_fragment", "load_matrix_sync", "mma_sync", "store_matrix_sync")


def is_fragment_call(x: Any) -> bool:
    """True for one of the calls above."""
    return isinstance(x, Call) and x.op in CALLS


def fragment_call(name: str, *positions: Buffer, value: float | None = None) -> Stmt:
    """The call `name` on the tiles that `positions`, matrices with a stride of rows, begin with."""
    arguments: list[Expr] = []
    for buffer in positions:
        assert buffer.strides is not None
        arguments += [buffer[0, 0], buffer.strides[0]]
    if value is not None:
        arguments.append(op.const(float(value), "float32"))
    return Evaluate(Call("int32", name, tuple(arguments)))


def written_position(call: Call) -> BufferLoad:
    """The element that a fragment call writes to."""
    position = call.args[0]
    assert isinstance(position, BufferLoad)
    return position
