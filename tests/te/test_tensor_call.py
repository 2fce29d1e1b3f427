"""Tensor intrinsics called within `te.compute` on regions of tensors, and their scalar parameters."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.errors import ScheduleError, TypeMismatchError
from tilewright.te.tensor_intrin import TensorIntrin


def _gemv(rows: int, columns: int) -> TensorIntrin:
    """A matrix of any row stride times a vector, written as loops; it starts, computes or goes on."""
    w, x = te.placeholder((rows, columns), name="w"), te.placeholder((columns,), name="x")
    k = te.reduce_axis((0, columns), name="k")
    z = te.compute((rows,), lambda i: te.sum(w[i, k] * x[k], axis=k), name="z")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> list[tir.Stmt]:
        def loops(starts: bool, sums: bool) -> tir.Stmt:
            ib = tir.ir_builder.create()
            a, b, c = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
            with ib.for_range(0, rows, "i") as i:
                if starts:
                    c[i] = 0.0
                if sums:
                    with ib.for_range(0, columns, "j") as j:
                        c[i] = c[i] + a[i, j] * b[j]
            return ib.get()

        return [loops(True, True), loops(True, False), loops(False, True)]

    matrix = te.decl_buffer((rows, columns), name="W", strides=[te.var("row"), 1])
    return te.decl_tensor_intrin(z.op, statements, "gemv", {w: matrix})


def _axpb(size: int) -> TensorIntrin:
    x = te.placeholder((size,), name="x")
    a, b = te.var("a", "float32"), te.var("b", "float32")
    y = te.compute((size,), lambda i: x[i] * a + b, name="y")

    def statement(ins: list[tir.Buffer], outs: list[tir.Buffer], scalars: list[tir.Var]) -> tir.Stmt:
        ib = tir.ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, size, "i") as i:
            target[i] = source[i] * scalars[0] + scalars[1]
        return ib.get()

    return te.decl_tensor_intrin(y.op, statement, "axpb", scalar_params=[a, b])


def _run(s: te.Schedule, args: list[te.Tensor], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    values = [rng.integers(-5, 5, [int(d) for d in t.shape]).astype("float32") for t in args]
    tw.build(te.lower(s, args))["main"](*values)
    return values


@pytest.mark.parametrize("reordered", [False, True])
def test_a_reduction_around_an_intrinsic(reordered: bool) -> None:
    rows, columns = 4, 8
    A = te.placeholder((3, 2, rows, columns), name="A")
    B = te.placeholder((6, 2, columns), name="B")
    k = te.reduce_axis((0, 2), name="k")
    gemv = _gemv(rows, columns)
    C = te.compute((3, 6, rows), lambda i, j: gemv(A[i, k, 0:rows, 0:columns], B[j, k, :], reduce_axis=k), name="C")
    s = te.create_schedule(C)
    i, j, _ = C.op.axis
    if reordered:
        outer, inner = s[C].split(j, factor=4)
        s[C].reorder(outer, i, inner)
        s[C].parallel(outer)
    a, b, c = _run(s, [A, B, C])
    np.testing.assert_array_equal(c, np.einsum("iklr,jkr->ijl", a, b))


def test_parts_of_rows_and_whole_tensors() -> None:
    A, X = te.placeholder((8, 10), name="A"), te.placeholder((4,), name="X")
    gemv = _gemv(2, 4)
    C = te.compute((4, 2), lambda i: gemv(A[i * 2 : i * 2 + 2, 3:7], X), name="C")
    a, x, c = _run(te.create_schedule(C), [A, X, C])
    np.testing.assert_array_equal(c.ravel(), a[:, 3:7] @ x)


def test_scalar_parameters_of_an_intrinsic_are_passed_on() -> None:
    A, S = te.placeholder((5, 8), name="A"), te.placeholder((5,), name="S")
    axpb = _axpb(8)
    C = te.compute((5, 8), lambda i: axpb(A[i, 0:8], i + 1, 2), name="C")
    a, c = _run(te.create_schedule(C), [A, C])
    np.testing.assert_array_equal(c, a * np.arange(1, 6, dtype="float32")[:, None] + 2)
    with pytest.raises(ScheduleError, match="takes 1 regions of tensors and 2 numbers; 1 and 1 are given"):
        te.compute((5, 8), lambda i: axpb(A[i, 0:8], 2.0))
    E = te.compute((5, 8), lambda i, j: A[i, j] * (S[i] + 1.0) + 2.0, name="E")
    s = te.create_schedule(E)
    s[E].tensorize(E.op.axis[1], axpb)
    a, scale, made = _run(s, [A, S, E])
    np.testing.assert_array_equal(made, a * (scale[:, None] + 1) + 2)
    F = te.compute((5, 8), lambda i, j: A[i, j] * A[i, j] + 2.0, name="F")
    s = te.create_schedule(F)
    s[F].tensorize(F.op.axis[1], axpb)
    with pytest.raises(ScheduleError, match=r"a cannot be .*, which changes inside"):
        te.lower(s, [A, F])


def test_what_does_not_fit() -> None:
    A, X = te.placeholder((8, 10), name="A"), te.placeholder((4,), name="X")
    gemv = _gemv(2, 4)
    with pytest.raises(ScheduleError, match=r"w is \[2, 4\], the region given \[2, 5\]"):
        te.compute((4, 2), lambda i: gemv(A[i * 2 : i * 2 + 2, 3:8], X))
    with pytest.raises(ScheduleError, match="its last dimensions must be those that tensor intrinsic gemv makes: 2"):
        te.compute((4, 3), lambda i: gemv(A[i * 2 : i * 2 + 2, 3:7], X))
    with pytest.raises(ScheduleError, match="takes 2 regions"):
        te.compute((4, 2), lambda i: gemv(X))
    with pytest.raises(ScheduleError, match=r"a region such as A\[i, 0:16\] is needed for x"):
        te.compute((4, 2), lambda i: gemv(A[i * 2 : i * 2 + 2, 3:7], A[i]))
    with pytest.raises(TypeMismatchError, match="only tensor intrinsics take regions"):
        te.compute((4,), lambda i: tir.exp(A[i, 0:2]))
    with pytest.raises(TypeMismatchError, match="takes every element"):
        _ = A[0, 0:8:2]
    with pytest.raises(TypeError, match="not iterable"):
        iter(A[0, 0:4])


def test_an_intrinsic_reads_what_is_computed_in_the_loop_around_it() -> None:
    double = _axpb(8)
    x = te.placeholder((4, 8), name="x")
    more = te.compute((4, 8), lambda i, j: x[i, j] + 5.0, name="more")
    y = te.compute((4, 8), lambda i: double(more[i, 0:8], 2.0, 1.0), name="y")
    s = te.create_schedule(y.op)
    s[more].compute_at(s[y], y.op.axis[0])
    values = _run(s, [x, y])
    np.testing.assert_array_equal(values[1], (values[0] + 5) * 2 + 1)
