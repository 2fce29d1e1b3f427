"""Helper of these tests: compile functions of the loop IR for this machine, link and call them on NumPy arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tilewright.codegen.llvm import compile_object, emit
from tilewright.runtime.link import link
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.stmt import BufferStore, For, ForKind, PrimFunc, Stmt


def call(funcs: PrimFunc | list[PrimFunc], *args: Any, entry: str | None = None, worker: int = 0, workers: int = 1) -> int:
    """Compile `funcs` and call the packed entry of the last one (or `entry`); returns its code."""
    funcs = funcs if isinstance(funcs, list) else [funcs]
    target = Target.host()
    name = f"{entry or funcs[-1].name}__entry"
    barrier = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda ctx: None)
    imports = {"tilewright_barrier": ctypes.cast(barrier, ctypes.c_void_p).value or 0}
    linked = link(compile_object(emit(funcs, target), target), [name], imports)
    slots = np.zeros(len(args) + 1, np.int64)
    for i, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            slots[i] = arg.ctypes.data
        else:
            cell = np.zeros(8, np.uint8)
            raw = np.frombuffer(np.asarray(arg).tobytes(), np.uint8)
            cell[: raw.size] = raw
            slots[i] = cell.view(np.int64)[0]
    context = np.zeros(2, np.int64)
    context[:1].view(np.int32)[:] = (worker, workers)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(linked.addresses[name])
    return int(function(slots.ctypes.data, context.ctypes.data))


def loop(var: Var, extent: int | Expr, body: Stmt, **annotations: Any) -> For:
    """A serial loop from 0."""
    return For(var, IntImm("int32", 0), extent if isinstance(extent, Expr) else IntImm("int32", extent), ForKind.SERIAL,
               body, annotations=annotations)  # fmt: skip


def elementwise(value: Any, inputs: list[np.ndarray], dtype: str) -> np.ndarray:
    """`value(*elements)` stored for every element of the inputs, as an array of `dtype`."""
    n = inputs[0].size
    buffers = [Buffer(f"x{i}", (n,), DType(str(x.dtype))) for i, x in enumerate(inputs)]
    out = Buffer("out", (n,), dtype)
    i = Var("i")
    from tilewright.tir.expr import BufferLoad

    body = BufferStore(out, value(*(BufferLoad(x, (i,)) for x in buffers)), (i,))
    result = np.zeros(n, DType(dtype).numpy)
    assert call(PrimFunc("f", [*buffers, out], loop(i, n, body)), *inputs, result) == 0
    return result
