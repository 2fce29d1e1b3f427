"""Loop nests: their shape for the patterns that matter, their guards, and their results."""

import numpy as np
import pytest

from tests.te.python_backend import evaluate, run
from tilewright import te, tir
from tilewright.errors import ScheduleError
from tilewright.tir import Allocate, BufferStore, For, IfThenElse, SeqStmt
from tilewright.tir.visitor import post_order


def gemm(m=8, n=32, k=8, tile=(4, 16)):
    """The register-tiled product: a local accumulator per tile, unrolled rows, vectorized columns."""
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = te.create_schedule(C)
    CC = s.cache_write(C, "local")
    i_outer, j_outer, i_inner, j_inner = s[C].tile(*s[C].op.axis, *tile)
    fused = s[C].fuse(i_outer, j_outer)
    s[C].parallel(fused)
    s[C].unroll(i_inner)
    s[C].vectorize(j_inner)
    s[CC].compute_at(s[C], fused)
    i, j = s[CC].op.axis
    (r,) = s[CC].op.reduce_axis
    r_outer, r_inner = s[CC].split(r, factor=4)
    s[CC].reorder(r_outer, r_inner, i, j)
    s[CC].pragma(r_inner, "unroll", 2)
    s[CC].unroll(i)
    s[CC].vectorize(j)
    return s, [A, B, C]


def count(func, kind):
    found = []
    post_order(func.body, lambda n: found.append(n) if isinstance(n, kind) else None)
    return len(found)


def outline(stmt):
    """The loops as nested lists: a loop is [kind and extent, *body]."""
    if isinstance(stmt, For):
        return [f"{stmt.kind.value} {stmt.extent.value}", *outline_all(stmt.body)]
    if isinstance(stmt, Allocate):
        return [f"{stmt.buffer.scope} {[d.value for d in stmt.buffer.shape]}", *outline_all(stmt.body)]
    return "store " + stmt.buffer.name if isinstance(stmt, BufferStore) else [type(stmt).__name__]


def outline_all(stmt):
    return [outline(x) for x in (stmt.stmts if isinstance(stmt, SeqStmt) else [stmt])]


def test_a_register_tile():
    s, args = gemm()
    func = te.schedule_to_tir(s, args, name="gemm")
    assert func.name == "gemm" and [p.name for p in func.params] == ["A", "B", "C"]
    rows = ["unrolled 4", ["vectorized 16", "store C.local"]]
    assert outline(func.body) == [
        "parallel 4",
        [
            "local [4, 16]",
            rows,
            ["serial 2", ["serial 4", rows]],
            ["unrolled 4", ["vectorized 16", "store C"]],
        ],
    ]
    assert count(func, IfThenElse) == 0


@pytest.mark.parametrize("shape", [(8, 32, 8), (7, 18, 9), (1, 1, 1), (4, 17, 3)])
def test_a_register_tile_of_any_shape_is_right(shape):
    m, n, k = shape
    s, args = gemm(m, n, k)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(x).astype("float32") for x in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, "float32")
    run(te.schedule_to_tir(s, args), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_pragmas_become_annotations():
    s, args = gemm()
    found = []
    post_order(te.schedule_to_tir(s, args).body, lambda n: found.append(n) if isinstance(n, For) else None)
    assert [dict(loop.annotations) for loop in found if loop.annotations] == [{"unroll": 2}]


def test_a_split_that_does_not_divide_is_guarded_once_and_early():
    A = te.placeholder((10, 6), name="A")
    C = te.compute(A.shape, lambda i, j: A[i, j] + 1.0, name="C")
    s = te.create_schedule(C)
    s[C].split(C.op.axis[0], factor=4)
    func = te.schedule_to_tir(s, [A, C])
    assert count(func, IfThenElse) == 1
    inner = func.body.body.body
    assert isinstance(inner, IfThenElse) and isinstance(inner.then_case, For), (
        "the guard stands outside the loop over j"
    )
    assert inner.condition.op == "likely"


def test_a_factor_larger_than_the_extent_needs_no_guard():
    A = te.placeholder((3,), name="A")
    C = te.compute(A.shape, lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C)
    s[C].split(C.op.axis[0], factor=16)
    assert count(te.schedule_to_tir(s, [A, C]), IfThenElse) == 0


def test_symbolic_sizes_become_parameters():
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] * 2.0, name="C")
    for given in ([A, C], [A, C, n]):
        s = te.create_schedule(C)
        s[C].split(C.op.axis[0], factor=4)
        func = te.schedule_to_tir(s, given)
        assert func.params[2] is n
        a, c = np.arange(10, dtype="float32"), np.zeros(10, "float32")
        run(func, a, c, 10)
        np.testing.assert_array_equal(c, a * 2)


def test_a_vectorized_axis_needs_a_constant_extent():
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] * 2.0, name="C")
    s = te.create_schedule(C)
    s[C].vectorize(C.op.axis[0])
    with pytest.raises(ScheduleError, match="axis i in stage C is vectorized, but its extent n is not a constant"):
        te.schedule_to_tir(s, [A, C])


def test_several_outputs_of_a_reduction_update_together():
    argmax = te.comm_reducer(
        lambda x, y: (tir.select(x[1] >= y[1], x[0], y[0]), tir.maximum(x[1], y[1])),
        lambda i, v: (tir.const(-1, i), tir.const(-1000, v)),
        name="argmax",
    )
    A = te.placeholder((4, 9), "int32", name="A")
    k = te.reduce_axis((0, 9), "k")
    index, value = te.compute((4,), lambda i: argmax((k.as_expr(), A[i, k]), axis=k), name="best")
    s = te.create_schedule(index)
    ii, _vv = s.cache_write([index, value], "local")
    s[index].split(index.op.axis[0], factor=3)
    s[ii].compute_at(s[index], s[index].leaf_iter_vars[0])
    s[ii].split(k, factor=2)
    a = np.random.default_rng(1).integers(-9, 9, (4, 9)).astype("int32")
    got = [np.zeros(4, "int32"), np.zeros(4, "int32")]
    run(te.schedule_to_tir(s, [A, index, value]), a, *got)
    np.testing.assert_array_equal(got[0], a.argmax(1))
    np.testing.assert_array_equal(got[1], a.max(1))


def test_inlining_reaches_into_reductions_and_through_caches():
    A = te.placeholder((6, 8), "int32", name="A")
    P = te.compute(A.shape, lambda i, j: A[i, j] + 1, name="P")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((6,), lambda i: te.sum(P[i, k] * P[i, 7 - k], axis=k), name="C")
    s = te.create_schedule(C)
    s[P].compute_inline()
    s.cache_write(C, "local")
    s.cache_read(A, "local", [P])
    a, c = np.arange(48, dtype="int32").reshape(6, 8), np.zeros(6, "int32")
    func = te.schedule_to_tir(s, [A, C])
    run(func, a, c)
    np.testing.assert_array_equal(c, evaluate([C], {A: a})[0])
    names = set()
    post_order(func.body, lambda n: names.add(n.buffer.name) if isinstance(n, Allocate) else None)
    assert names == {"A.local", "C.local"}


def test_the_graph_is_untouched_and_schedules_are_independent():
    s, args = gemm()
    C = args[2]
    body, axis = C.op.body, C.op.axis
    te.schedule_to_tir(s, args)
    te.schedule_to_tir(s, args)
    assert C.op.body is body and C.op.axis is axis and C.op.is_reduction
    assert len(te.create_schedule(C).stages) == 3 and len(s.stages) == 4


def test_inlining_is_linear_in_the_size_of_the_graph():
    A = te.placeholder((4,), name="A")
    T = A
    s_of = []
    for n in range(40):
        T = te.compute((4,), lambda i, T=T: T[i] * T[i] + T[i], name=f"T{n}")
        s_of.append(T)
    s = te.create_schedule(T)
    for tensor in s_of[:-1]:
        s[tensor].compute_inline()
    func = te.schedule_to_tir(s, [A, T])
    nodes = []
    post_order(func.body, nodes.append)
    assert len(nodes) < 120, "2**40 as a tree"


def test_storage_align_sets_strides():
    A = te.placeholder((4, 30), name="A")
    P = te.compute(A.shape, lambda i, j: A[i, j] + 1.0, name="P")
    C = te.compute(A.shape, lambda i, j: P[i, j] * 2.0, name="C")
    s = te.create_schedule(C)
    s[P].storage_align(P.op.axis[0], 32, 1)
    func = te.schedule_to_tir(s, [A, C])
    assert [x.value for x in func.body.buffer.strides] == [33, 1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (lambda A, P, C: [A], "the output C is not among the arguments"),
        (lambda A, P, C: [C], "A is read but is not among the arguments"),
        (lambda A, P, C: [A, C, A], "A is given twice"),
        (lambda A, P, C: [A, C, 3], "must be a tensor, a buffer or a variable"),
    ],
)
def test_arguments_are_checked(args, message):
    A = te.placeholder((4,), name="A")
    P = te.compute(A.shape, lambda i: A[i] + 1.0, name="P")
    C = te.compute(A.shape, lambda i: P[i] * 2.0, name="C")
    with pytest.raises(ScheduleError, match=message):
        te.schedule_to_tir(te.create_schedule(C), args(A, P, C))


def test_an_intermediate_result_may_be_passed_out():
    A = te.placeholder((4,), "int32", name="A")
    P = te.compute(A.shape, lambda i: A[i] + 1, name="P")
    C = te.compute(A.shape, lambda i: P[i] * 2, name="C")
    a, p, c = np.arange(4, dtype="int32"), np.zeros(4, "int32"), np.zeros(4, "int32")
    run(te.schedule_to_tir(te.create_schedule(C), [A, P, C]), a, p, c)
    np.testing.assert_array_equal(p, a + 1)
    s = te.create_schedule(C)
    s[P].compute_at(s[C], C.op.axis[0])
    p[:], c[:] = 0, 0
    run(te.schedule_to_tir(s, [A, P, C]), a, p, c)
    np.testing.assert_array_equal(p, a + 1)
    np.testing.assert_array_equal(c, p * 2)


def test_binds_give_a_tensor_its_buffer():
    A = te.placeholder((4, 4), "int32", name="A")
    C = te.compute((4, 4), lambda i, j: A[j, i], name="C")
    strided = te.decl_buffer((4, 4), "int32", "strided", strides=[8, 1])
    func = te.schedule_to_tir(te.create_schedule(C), [A, C], binds={A: strided})
    assert func.params[0] is strided
