"""Tensor intrinsics for tensor cores: tiles of 16 x 16 x 16, float16 in, float32 out, by a warp of 32 threads.

    s[a_fragment].tensorize(rows, te.wmma.load("wmma.matrix_a"))          shared memory to fragments
    s[c_fragment].tensorize(rows, te.wmma.multiply())                     C += A @ B, and C = 0
    s[c].tensorize(rows, te.wmma.store())                                 fragments to memory

The stages of fragments are in the scopes "wmma.matrix_a", "wmma.matrix_b" and "wmma.accumulator". Their loops are bound
to no axis that tells the threads of a warp apart: bind an axis of 32 steps of the stages that copy to shared memory to
"threadIdx.x", and the warps of a block to "threadIdx.y".
"""

from __future__ import annotations

from tilewright import tir
from tilewright.errors import ScheduleError
from tilewright.te.itervar import reduce_axis
from tilewright.te.operation import compute, placeholder
from tilewright.te.reducer import sum as total
from tilewright.te.tensor import Tensor
from tilewright.te.tensor_intrin import TensorIntrin, decl_buffer, decl_tensor_intrin
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.stmt import Stmt
from tilewright.tir.warp_matrix import ACCUMULATOR, FRAGMENT_SCOPES, MATRIX_A, MATRIX_B, SIDE, fragment_call


def _bound(tensor: Tensor, scope: str) -> Buffer:
    """A tile of a larger matrix."""
    return decl_buffer(tensor.shape, tensor.dtype, tensor.name, scope, [Var(f"{tensor.name}_stride", "int32"), 1])


def load(scope: str, source: str = "shared") -> TensorIntrin:
    """Copies a tile of float16 from memory `source` to a fragment of `scope`. Raises ScheduleError for other scopes."""
    if scope not in (MATRIX_A, MATRIX_B):
        raise ScheduleError(f"te.wmma.load: fragments of {MATRIX_A} and {MATRIX_B} are loaded; got {scope!r}")
    a = placeholder((SIDE, SIDE), "float16", name="a")
    b = compute((SIDE, SIDE), lambda i, j: a(i, j), name="b")

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        return fragment_call("load_matrix_sync", outs[0], ins[0])

    return decl_tensor_intrin(b.op, statement, f"load of {scope}", {a: _bound(a, source), b: _bound(b, scope)})


def multiply() -> TensorIntrin:
    """c[i, j] += sum over k of float32(a[i, k]) float32(b[k, j]), on fragments."""
    a, b = (placeholder((SIDE, SIDE), "float16", name=name) for name in "ab")
    k = reduce_axis((0, SIDE), "k")
    c = compute(
        (SIDE, SIDE),
        lambda i, j: total(tir.cast("float32", a(i, k)) * tir.cast("float32", b(k, j)), axis=k),
        name="c",
    )

    def statements(ins: list[Buffer], outs: list[Buffer]) -> tuple[None, Stmt, Stmt]:
        return None, fragment_call("fill_fragment", outs[0], value=0.0), fragment_call("mma_sync", outs[0], *ins)

    scopes = zip((a, b, c), FRAGMENT_SCOPES, strict=True)
    return decl_tensor_intrin(c.op, statements, "mma_sync", {t: _bound(t, scope) for t, scope in scopes})


def store(target: str = "global") -> TensorIntrin:
    """Copies an accumulator of float32 to memory `target`."""
    a = placeholder((SIDE, SIDE), "float32", name="a")
    b = compute((SIDE, SIDE), lambda i, j: a(i, j), name="b")

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        return fragment_call("store_matrix_sync", outs[0], ins[0])

    return decl_tensor_intrin(b.op, statement, "store_matrix_sync", {a: _bound(a, ACCUMULATOR), b: _bound(b, target)})
