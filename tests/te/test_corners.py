"""Corner cases, compiled and run: no dimensions, no elements, scalars, int64 sizes, bool results, gathers."""

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend.build import build
from tilewright.tir.structural import structural_hash


def compiled(schedule, args):
    return build(te.lower(schedule, args), threads=1)["main"]


def test_a_tensor_without_dimensions():
    A, k = te.placeholder((4,), name="A"), te.reduce_axis((0, 4), "k")
    C = te.compute((), lambda: te.sum(A[k], axis=k), name="C")
    s = te.create_schedule(C)
    s.cache_write(C, "local")
    c = np.zeros((), "float32")
    compiled(s, [A, C])(np.ones(4, "float32"), c)
    assert c == 4


def test_a_reduction_over_nothing_is_the_identity():
    A, k = te.placeholder((4, 0), name="A"), te.reduce_axis((0, 0), "k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C)
    s[C].split(k, 4)
    c = np.ones(4, "float32")
    compiled(s, [A, C])(np.ones((4, 0), "float32"), c)
    assert (c == 0).all()


def test_a_tensor_without_elements():
    A = te.placeholder((0, 4), name="A")
    B = te.compute((0, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((0, 4), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C)
    outer, _ = s[C].split(C.op.axis[0], 3)
    s[B].compute_at(s[C], outer)
    memory = np.full((4, 4), 7, "float32")
    compiled(s, [A, C])(memory[:0], memory[2:2])
    assert (memory == 7).all()


def test_a_scalar_parameter():
    alpha, A = te.var("alpha", "float32"), te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] * alpha, name="C")
    c = np.zeros(8, "float32")
    compiled(te.create_schedule(C), [A, alpha, C])(np.ones(8, "float32"), 2.5, c)
    assert (c == 2.5).all()


def test_a_64_bit_size():
    n = te.size_var("n", "int64")
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((n, 4), lambda i, j: B[n - 1 - i, j] * 2.0, name="C")
    s = te.create_schedule(C)
    outer, _ = s[C].split(C.op.axis[0], 3)
    s[B].compute_at(s[C], outer)
    a, c = np.random.default_rng(0).standard_normal((5, 4)).astype("float32"), np.zeros((5, 4), "float32")
    compiled(s, [A, C, n])(a, c, 5)
    np.testing.assert_array_equal(c, (a[::-1] + 1) * 2)


def test_a_bool_result():
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] > 0.5, name="C")
    s = te.create_schedule(C)
    s[C].vectorize(C.op.axis[0])
    a, c = np.random.default_rng(0).random(8).astype("float32"), np.zeros(8, bool)
    compiled(s, [A, C])(a, c)
    np.testing.assert_array_equal(c, a > 0.5)


def test_a_vectorized_gather_with_64_bit_indices():
    A, where = te.placeholder((8,), name="A"), te.placeholder((5,), "int64", name="where")
    C = te.compute((5,), lambda i: A[where[i]] * 2.0, name="C")
    s = te.create_schedule(C)
    s[C].vectorize(C.op.axis[0])
    a, index, c = np.arange(8, dtype="float32"), np.array([7, 0, 3, 3, 1]), np.zeros(5, "float32")
    compiled(s, [A, where, C])(a, index, c)
    np.testing.assert_array_equal(c, a[index] * 2)


@pytest.mark.parametrize("parallel", [True, False])
def test_lowering_again_gives_the_same_program(parallel):
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C)
    s[B].compute_inline()
    if parallel:
        s[C].parallel(C.op.axis[0])
    assert structural_hash(te.lower(s, [A, C])) == structural_hash(te.lower(s, [A, C]))


def test_a_stage_that_nothing_reads_once_others_are_inlined_is_left_out():
    A = te.placeholder((4,), "int32", name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    C = te.compute((4,), lambda i: B[i] * 2, name="C")
    P = te.compute((4,), lambda i: tir.const(0), name="P")
    D = te.compute((4,), lambda i: C[i] * P[i] + A[i], name="D")
    s = te.create_schedule(D)
    s[P].compute_inline()
    s[C].compute_at(s[D], D.op.axis[0])
    s[B].compute_at(s[C], C.op.axis[0])
    func = te.lower(s, [A, D])
    assert func.attrs["workspace_bytes"] == 0 and "B" not in str(func)
