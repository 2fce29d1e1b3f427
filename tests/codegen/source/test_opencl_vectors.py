"""Vectors in OpenCL's text: which stores have them, and which arrays become variables."""

from __future__ import annotations

import pytest

from tilewright import tir
from tilewright.codegen.source.gpu import emit_kernel
from tilewright.codegen.source.opencl import OPENCL_C, VECTOR_FUNCTIONS
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Broadcast, BufferLoad, Call, Ramp, Var
from tilewright.tir.float_vectors import has_vector
from tilewright.tir.stmt import Allocate, BufferStore, Evaluate, PrimFunc, seq
from tilewright.tir.transform.split_host_device import Launch

A, B = Buffer("a", [64], "float32"), Buffer("b", [64], "float32")


def _run(first: int, lanes: int, stride: int = 1) -> tuple[Ramp]:
    return (Ramp(op.const(first), op.const(stride), lanes),)


def _load(buffer: Buffer, first: int, lanes: int, stride: int = 1) -> BufferLoad:
    return BufferLoad(buffer, _run(first, lanes, stride))


def _text(body: tir.Stmt) -> str:
    kernel = PrimFunc("f", [A, B], body, {"written": (False, True)})
    one = op.const(1)
    return emit_kernel(Launch(kernel, (one, one, one), (1, 1, 1)), OPENCL_C, set())


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (_load(A, 0, 8) * Broadcast(A[Var("i")], 8) + _load(B, 8, 8), True),
        (tir.Max(_load(A, 0, 4), Broadcast(op.const(0.0, "float32"), 4)), True),
        (_load(A, 0, 8, stride=2), False),  # lanes that are no neighbours
        (_load(A, 0, 32), False),  # longer than OpenCL's
        (Call("float32x8", "lgamma", (_load(A, 0, 8),)), False),
        (tir.Cast("int32x8", _load(A, 0, 8)), False),
    ],
)
def test_stores_of_neighbouring_floats_are_vectors(value: tir.Expr, kept: bool) -> None:
    assert has_vector(BufferStore(B, value, _run(0, value.dtype.lanes)), VECTOR_FUNCTIONS) is kept


def _sums(lanes: int, last: int, held: Buffer) -> Allocate:
    """A tile of sums that is cleared, added to, and stored; `last` is the first element of the last access."""
    cleared = [BufferStore(held, Broadcast(op.const(0.0, "float32"), lanes), _run(i, lanes)) for i in (0, last)]
    return Allocate(held, seq(*cleared, BufferStore(B, _load(held, last, lanes), _run(0, lanes))))


def test_tiles_of_sums_are_variables() -> None:
    text = _text(_sums(8, 8, Buffer("sums", [16], "float32", "local")))
    assert "sums_0" not in text  # nothing reads it
    assert "float8 sums_8;" in text and "((__global floats8*)(b + 0))->v = sums_8;" in text and "[" not in text


def test_copies_of_a_tile_that_is_used_otherwise_are_arrays() -> None:
    held = Buffer("sums", [32], "float32", "local")
    text = _text(seq(_sums(16, 16, held), _sums(16, 8, held)))
    assert (
        "float16 sums_16;" in text
        and "float sums[32] __attribute__" in text
        and "((const __private floats16*)(sums + 8))->v" in text
    )


@pytest.mark.parametrize(("hints", "level"), [((), 3), ((op.const(0), op.const(2)), 2)])
def test_prefetches_are_of_an_address(hints: tuple[tir.Expr, ...], level: int) -> None:
    hint = Evaluate(Call("int32", "prefetch", (BufferLoad(A, [op.const(16)]), *hints)))
    assert f"prefetch_line(a + 16, {level});" in _text(hint)
    assert "#define prefetch_line(address, level) __builtin_prefetch(" in OPENCL_C.prelude
