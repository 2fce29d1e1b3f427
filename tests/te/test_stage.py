"""Every schedule primitive: what it does to the loops, and the error where it is not legal."""

import pytest

from tilewright import te, tir
from tilewright.errors import ScheduleError
from tilewright.tir import ForKind


@pytest.fixture
def gemm():
    A, B = te.placeholder((8, 16), name="A"), te.placeholder((16, 32), name="B")
    k = te.reduce_axis((0, 16), "k")
    P = te.compute((8, 16), lambda i, j: A[i, j] + 1.0, name="P")
    C = te.compute((8, 32), lambda i, j: te.sum(P[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((8, 32), lambda i, j: C[i, j] * 2.0, name="D")
    return te.create_schedule(D), A, B, P, C, D, k


def names(stage):
    return [iv.name for iv in stage.leaf_iter_vars]


def test_stages_are_in_order_and_found_by_tensor_or_operation(gemm):
    s, _A, _B, _P, C, D, _ = gemm
    assert [stage.name for stage in s.stages] == ["A", "P", "B", "C", "D"]
    assert s[C] is s[C.op] and s[D].is_output and not s[C].is_output
    with pytest.raises(ScheduleError, match="not part of this schedule"):
        s[te.placeholder((1,), name="other")]


def test_split_fuse_reorder_tile(gemm):
    s, *_, C, D, k = gemm
    i, j = C.op.axis
    outer, _inner = s[C].split(j, factor=8)
    s[C].reorder(k, outer, i)
    assert names(s[C]) == ["k", "j_outer", "j_inner", "i"]
    fused = s[C].fuse(s[C].leaf_iter_vars[1], s[C].leaf_iter_vars[2])
    assert fused in s[C].leaf_iter_vars and len(s[C].leaf_iter_vars) == 3
    assert s[C].fuse(fused) is fused
    s[D].tile(*D.op.axis, 4, 8)
    assert names(s[D]) == ["i_outer", "j_outer", "i_inner", "j_inner"]


def test_reorder_keeps_the_positions_of_other_loops(gemm):
    s, *_, C, _, k = gemm
    i, _j = C.op.axis
    s[C].reorder(k, i)
    assert names(s[C]) == ["k", "j", "i"]


def test_marks_are_kept_per_axis(gemm):
    s, *_, D, _ = gemm
    i, j = D.op.axis
    s[D].parallel(i)
    s[D].vectorize(j)
    s[D].pragma(i, "grain", 4)
    assert s[D].attr(i).kind is ForKind.PARALLEL and s[D].attr(i).pragmas == {"grain": 4}
    assert s[D].attr(j).kind is ForKind.VECTORIZED


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda s, P, C, D, k: s[C].split(C.op.axis[0]), "axis i in stage C: pass either"),
        (lambda s, P, C, D, k: s[C].split(C.op.axis[0], factor=2, nparts=2), "pass either"),
        (lambda s, P, C, D, k: s[C].split(C.op.axis[0], factor=0), "must be at least 1"),
        (lambda s, P, C, D, k: s[C].split(D.op.axis[0], factor=2), "not one of the stage's loops"),
        (lambda s, P, C, D, k: s[C].split("i", factor=2), "is not an axis"),
        (lambda s, P, C, D, k: s[C].fuse(C.op.axis[1], C.op.axis[0]), "just inside the first"),
        (lambda s, P, C, D, k: s[C].fuse(C.op.axis[1], k), "one is a reduction axis"),
        (lambda s, P, C, D, k: s[C].reorder(k, k), "given twice"),
        (lambda s, P, C, D, k: s[C].parallel(k), "parallel of axis k in stage C"),
        (lambda s, P, C, D, k: s[C].bind(k, te.thread_axis("blockIdx.x")), "bind of axis k"),
        (lambda s, P, C, D, k: s[C].bind(C.op.axis[0], k), "needs a te.thread_axis"),
        (lambda s, P, C, D, k: s[C].compute_inline(), "a reduction cannot be inlined"),
        (lambda s, P, C, D, k: s[D].compute_inline(), "an output of the schedule"),
        (lambda s, P, C, D, k: s[D].compute_at(s[C], k), "an output of the schedule"),
        (lambda s, P, C, D, k: s[C].compute_at(s[C], k), "inside its own loop"),
        (lambda s, P, C, D, k: s[P].compute_at(s[C], D.op.axis[0]), "i is not a loop of C"),
        (lambda s, P, C, D, k: s[s.stages[0].op].compute_inline(), "a placeholder is given by the caller"),
        (lambda s, P, C, D, k: s[D].set_scope("local"), "caller's memory"),
        (lambda s, P, C, D, k: s[C].storage_align(k, 8), "must be one of op.axis"),
        (lambda s, P, C, D, k: s.cache_write(s.stages[0].outputs[0], "local"), "a placeholder is given"),
        (lambda s, P, C, D, k: s.cache_read(P, "local", [D]), "D does not read it"),
    ],
)
def test_illegal_steps_are_refused(gemm, step, message):
    s, _, _, P, C, D, k = gemm
    with pytest.raises(ScheduleError, match=message):
        step(s, P, C, D, k)


def test_an_axis_that_is_gone_is_named_with_what_it_became(gemm):
    s, *_, C, _D, k = gemm
    i, j = C.op.axis
    outer, inner = s[C].split(i, factor=2)
    with pytest.raises(ScheduleError, match="split into i_outer and i_inner"):
        s[C].unroll(i)
    s[C].reorder(outer, inner, j, k)
    s[C].fuse(outer, inner)
    with pytest.raises(ScheduleError, match="fused into i_outer_i_inner_fused"):
        s[C].unroll(outer)


def test_marked_axes_are_not_taken_apart(gemm):
    s, _, _, _P, C, _D, _k = gemm
    s[C].unroll(C.op.axis[0])
    with pytest.raises(ScheduleError, match="already unrolled"):
        s[C].split(C.op.axis[0], factor=2)
    with pytest.raises(ScheduleError, match="already unrolled"):
        s[C].vectorize(C.op.axis[0])


def test_cache_write_takes_all_outputs():
    A = te.placeholder((4,), name="A")
    first, _ = te.compute((4,), lambda i: (A[i], A[i] + 1.0), name="two")
    with pytest.raises(ScheduleError, match="pass all 2 outputs"):
        te.create_schedule(first.op).cache_write(first, "local")


def test_create_schedule_needs_operations():
    with pytest.raises(ScheduleError, match="at least one"):
        te.create_schedule([])
    with pytest.raises(ScheduleError, match="takes operations or tensors"):
        te.create_schedule([3])


def test_vectorized_reduction_axis():
    a, k = te.placeholder((4, 32), name="A"), te.reduce_axis((0, 32), name="k")
    total = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="T")
    s = te.create_schedule(total.op)
    s[total].vectorize(k)
    mean = te.comm_reducer(lambda x, y: (x + y) * 0.5, lambda t: tir.const(0, t), "mean")
    other = te.compute((4,), lambda i: mean(a[i, k], axis=k), name="M")
    s = te.create_schedule(other.op)
    with pytest.raises(ScheduleError, match="vectorize of axis k in stage M: iterations of a reduction"):
        s[other].vectorize(k)
