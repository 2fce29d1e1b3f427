"""Tensorization: the intrinsic stands where its loops were, on the right pieces of memory; mismatches are explained."""

import numpy as np
import pytest

from tests.te.python_backend import run
from tilewright import te, tir
from tilewright.errors import ScheduleError
from tilewright.tir import BufferLoad, BufferStore, For, ForKind, seq


def loop(extent, body):
    v = tir.Var("t")
    return For(v, tir.const(0), tir.const(extent), ForKind.SERIAL, body(v))


def dot(n=8, k=4, with_reset=True, dtype="int32"):
    """c[j] (+)= sum over k of a[k] * b[j, k], as plain loops."""
    a, b = te.placeholder((k,), dtype, name="a"), te.placeholder((n, k), dtype, name="b")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((n,), lambda j: te.sum(a[r] * b[j, r], axis=r), name="c")

    def build(inputs, outputs):
        x, w = inputs
        (y,) = outputs
        reset = loop(n, lambda j: BufferStore(y, tir.const(0, dtype), (j,)))
        update = loop(
            n,
            lambda j: loop(
                k, lambda r: BufferStore(y, BufferLoad(y, (j,)) + BufferLoad(x, (r,)) * BufferLoad(w, (j, r)), (j,))
            ),
        )
        return seq(reset, update), reset if with_reset else None, update

    return te.decl_tensor_intrin(c.op, build, "dot")


def product(m=3, n=16, k=12, swapped=False):
    A, B = te.placeholder((m, k), "int32", name="A"), te.placeholder((n, k), "int32", name="B")
    r = te.reduce_axis((0, k), "r")
    C = te.compute((m, n), lambda i, j: te.sum(B[j, r] * A[i, r] if swapped else A[i, r] * B[j, r], axis=r), name="C")
    return te.create_schedule(C), A, B, C, r


def check(s, A, B, C):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-5, 5, [d.value for d in t.shape]).astype("int32") for t in (A, B))
    c = np.full((a.shape[0], b.shape[0]), 99, "int32")
    func = te.schedule_to_tir(s, [A, B, C])
    run(func, a, b, c)
    np.testing.assert_array_equal(c, a @ b.T)
    return func


@pytest.mark.parametrize("fits", [True, False])
def test_an_index_read_from_memory(fits):
    """Windows of four, each in an order from memory: the intrinsic's lookup stands for the stage's where both agree."""

    def picked(data, order, factor=1):
        return lambda w, k: data[w * 4 + order[w * 4 + k] * factor]

    a, b = te.placeholder((8,), "int32", name="a"), te.placeholder((8,), "int32", name="b")
    c = te.compute((2, 4), picked(a, b), name="c")

    def build(inputs, outputs):
        by_name = {x.name: x for x in inputs}

        def store(k):
            named = k // 4 * 4 + BufferLoad(by_name["b"], (k,))
            return BufferStore(outputs[0], BufferLoad(by_name["a"], (named,)), (k // 4, k % 4))

        return loop(8, store)

    intrin = te.decl_tensor_intrin(c.op, build, "pick")
    A, B = te.placeholder((3, 24), "int32", name="A"), te.placeholder((24,), "int32", name="B")
    C = te.compute((3, 6, 4), lambda i, w, k: picked(A[i], B, 1 if fits else 2)(w, k), name="C")
    s = te.create_schedule(C)
    _, inner = s[C].split(C.op.axis[1], factor=2)
    s[C].tensorize(inner, intrin)
    if not fits:
        with pytest.raises(ScheduleError, match="the stage computes"):
            te.schedule_to_tir(s, [A, B, C])
        return
    rng = np.random.default_rng(0)
    x, order, found = rng.integers(0, 99, (3, 24)), rng.integers(0, 4, 24), np.zeros((3, 6, 4), "int32")
    run(te.schedule_to_tir(s, [A, B, C]), x.astype("int32"), order.astype("int32"), found)
    np.testing.assert_array_equal(found.reshape(3, 24), x[:, np.arange(24) // 4 * 4 + order])


@pytest.mark.parametrize("with_reset", [True, False])
@pytest.mark.parametrize("swapped", [True, False])
def test_update_inside_an_outer_reduction(with_reset, swapped):
    s, A, B, C, r = product(swapped=swapped)
    i, j = C.op.axis
    j_outer, j_inner = s[C].split(j, factor=8)
    r_outer, r_inner = s[C].split(r, factor=4)
    s[C].reorder(i, j_outer, r_outer, j_inner, r_inner)
    s[C].tensorize(j_inner, dot(with_reset=with_reset))
    check(s, A, B, C)


def test_an_intrinsic_may_replace_the_whole_computation():
    s, A, B, C, _r = product(n=8, k=4)
    s[C].tensorize(C.op.axis[1], dot())
    check(s, A, B, C)


def test_on_local_copies_and_accumulators():
    s, A, B, C, r = product()
    AL = s.cache_read(A, "local", [C])
    CL = s.cache_write(C, "local")
    _i, j = s[C].op.axis
    j_outer, _ = s[C].split(j, factor=8)
    s[CL].compute_at(s[C], j_outer)
    r_outer, r_inner = s[CL].split(r, factor=4)
    ci, cj = s[CL].op.axis
    s[CL].reorder(r_outer, ci, cj, r_inner)
    s[AL].compute_at(s[CL], r_outer)
    s[CL].tensorize(cj, dot())
    check(s, A, B, C)


def test_strides_are_bound():
    stride = te.var("stride")
    a = te.placeholder((4,), "int32", name="a")
    c = te.compute((4,), lambda i: a[i] + 1, name="c")
    strided = te.decl_buffer((4,), "int32", "a", strides=[stride])

    def build(inputs, outputs):
        return loop(
            4, lambda i: BufferStore(outputs[0], BufferLoad(inputs[0], (i,)) + 1 + stride - stride + stride, (i,))
        )

    column = te.decl_tensor_intrin(c.op, build, "column", binds={a: strided})
    A = te.placeholder((4, 6), "int32", name="A")
    C = te.compute((6, 4), lambda j, i: A[i, j] + 1, name="C")
    s = te.create_schedule(C)
    s[C].tensorize(C.op.axis[1], column)
    values, result = np.arange(24, dtype="int32").reshape(4, 6), np.zeros((6, 4), "int32")
    run(te.schedule_to_tir(s, [A, C]), values, result)
    np.testing.assert_array_equal(result, values.T + 1 + 6)


def _reorder_for(s, C, r, n, k):
    i, j = C.op.axis
    _, j_inner = s[C].split(j, factor=n)
    r_outer, r_inner = s[C].split(r, factor=k)
    s[C].reorder(i, r_outer, j_inner, r_inner)
    return j_inner, r_inner


@pytest.mark.parametrize(
    ("n", "k", "intrin", "message"),
    [
        (4, 4, dot(), "axis j runs 4 steps, the intrinsic has 8"),
        (8, 6, dot(), "axis r runs 6 steps, the intrinsic has 4"),
        (8, 5, dot(), "guarded, because a split does not divide"),
        (8, 4, dot(dtype="float32"), "the stage computes"),
    ],
)
def test_mismatches_are_explained(n, k, intrin, message):
    s, A, B, C, r = product()
    j_inner, _ = _reorder_for(s, C, r, n, k)
    s[C].tensorize(j_inner, intrin)
    with pytest.raises(ScheduleError, match=f"tensorize of axis j_inner in stage C with dot: .*{message}"):
        te.schedule_to_tir(s, [A, B, C])


def test_other_indices_are_a_mismatch():
    A, B = te.placeholder((8, 4), "int32", name="A"), te.placeholder((4,), "int32", name="B")
    r = te.reduce_axis((0, 4), "r")
    C = te.compute((8,), lambda j: te.sum(B[r] * A[j, 3 - r], axis=r), name="C")
    s = te.create_schedule(C)
    s[C].tensorize(C.op.axis[0], dot())
    with pytest.raises(ScheduleError, match="dimension 1 of A is indexed by"):
        te.schedule_to_tir(s, [A, B, C])


def test_declarations_are_checked():
    a = te.placeholder((4,), name="a")
    with pytest.raises(ScheduleError, match=r"needs the operation of a te\.compute"):
        te.decl_tensor_intrin(a.op, lambda i, o: None)
    c = te.compute((4,), lambda i: a[i], name="c")
    with pytest.raises(ScheduleError, match="returns a statement"):
        te.decl_tensor_intrin(c.op, lambda i, o: 3, "bad")


def test_nothing_is_computed_inside_the_replaced_loops():
    s, A, B, C, r = product(n=8, k=4)
    AL = s.cache_read(A, "local", [C])
    s[C].tensorize(C.op.axis[1], dot())
    s[AL].compute_at(s[C], r)
    with pytest.raises(ScheduleError, match=r"A\.local is computed inside the replaced loops"):
        te.schedule_to_tir(s, [A, B, C])
