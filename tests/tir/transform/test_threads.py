"""The passes for functions with hardware threads: what stands where in the result.

That results are right is shown by running kernels (tests/codegen/source/test_device.py).
"""

from __future__ import annotations

import pytest

from tests.codegen.source.programs import tiled_gemm
from tilewright import te
from tilewright.errors import ScheduleError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Broadcast, BufferLoad, Call, Ramp, Var
from tilewright.tir.op import const, convert, less
from tilewright.tir.stmt import Allocate, BufferStore, Evaluate, For, ForKind, IfThenElse, PrimFunc, seq
from tilewright.tir.transform.bind_threads import bind_threads
from tilewright.tir.transform.inject_virtual_thread import inject_virtual_thread
from tilewright.tir.transform.split_host_device import split_host_device
from tilewright.tir.transform.statements import walk
from tilewright.tir.transform.thread_sync import thread_sync

A, B = Buffer("A", [64]), Buffer("B", [64])
S = Buffer("S", [64], scope="shared")
T, U, K, V = Var("t"), Var("u"), Var("k"), Var("v")


def threads(var, extent, body, tag="threadIdx.x"):
    return For(var, const(0), const(extent), ForKind.THREAD_BINDING, body, tag)


def serial(var, extent, body):
    return For(var, const(0), const(extent), ForKind.SERIAL, body)


def load(buffer, index):
    return BufferLoad(buffer, (index,))


def store(buffer, index, value):
    return BufferStore(buffer, convert(value), (index,))


def barriers(stmt):
    return sum(
        isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.op == "storage_sync" for s in walk(stmt)
    )


def synchronized(*stmts):
    return thread_sync(PrimFunc("f", [A, B], threads(T, 8, Allocate(S, seq(*stmts)))))


def test_a_barrier_between_a_store_and_a_load_of_another_thread():
    func = synchronized(store(S, T, load(A, T)), store(B, T, load(S, 7 - T)))
    body = func.body.body.body
    assert barriers(func.body) == 1 and isinstance(body.stmts[1], Evaluate)


def test_no_barrier_for_what_a_thread_wrote_itself():
    assert barriers(synchronized(store(S, T, load(A, T)), store(B, T, load(S, T))).body) == 0


def test_no_barrier_between_reads():
    assert barriers(synchronized(store(A, T, load(S, T)), store(B, T, load(S, 7 - T))).body) == 0


def test_a_loop_that_refills_needs_two():
    fill, use = store(S, T, load(A, K * 8 + T)), store(B, K * 8 + T, load(S, 7 - T))
    func = synchronized(serial(K, 4, seq(fill, use)))
    assert barriers(func.body) == 2


def test_a_loop_of_distinct_stores_needs_none():
    assert barriers(synchronized(serial(K, 8, store(S, K * 8 + T, load(A, T)))).body) == 0
    assert barriers(synchronized(serial(K, 8, store(S, K + T, load(A, T)))).body) == 1


@pytest.mark.parametrize(("step", "stride", "expected"), [(4, 1, 0), (3, 1, 1), (4, 2, 1), (8, 2, 0), (4, -1, 0)])
def test_vectors_of_a_loop_that_do_not_overlap_need_none(step: int, stride: int, expected: int) -> None:
    """Each thread stores 4 lanes an iteration; threads are further apart than what a thread stores in all."""
    positions = Ramp(T * step * 2 + K * step, const(stride), 4)
    value = Broadcast(load(A, T), 4)
    body = serial(K, 2, BufferStore(S, value, (positions,)))
    assert barriers(synchronized(body).body) == expected


def test_the_barrier_stands_before_the_loop_that_reads():
    func = synchronized(store(S, T, load(A, T)), serial(K, 8, store(B, T * 8 + K, load(S, K))))
    assert barriers(func.body) == 1
    assert isinstance(func.body.body.body.stmts[1], Evaluate)


def test_no_barrier_may_stand_where_threads_disagree():
    inner = IfThenElse(less(T, const(3)), seq(store(S, T, load(A, T)), store(B, T, load(S, 7 - T))))
    with pytest.raises(ScheduleError, match="under a condition that they disagree on"):
        synchronized(inner)


def test_two_sides_of_a_condition_may_store_but_not_read_each_other():
    one = store(S, T, load(A, T))
    both = IfThenElse(less(T, const(3)), one, store(S, 7 - T, load(A, T + 8)))
    assert barriers(synchronized(both, store(B, T, load(S, T + 1))).body) == 1
    for sides in ((one, store(B, T, load(S, 7 - T))), (store(B, T, load(S, 7 - T)), one)):
        with pytest.raises(ScheduleError, match="under a condition that they disagree on"):
            synchronized(IfThenElse(less(T, const(3)), *sides))


def test_tiled_gemm_has_exactly_two_barriers():
    s, args = tiled_gemm(64, 64, 64)
    func = te.lower(s, args)
    assert barriers(func.body) == 2


def test_thread_loops_are_pulled_out_and_shorter_ones_guarded():
    body = threads(
        U, 4, seq(threads(T, 8, store(A, U * 8 + T, 1.0)), threads(V, 4, store(B, U * 4 + V, 2.0))), "blockIdx.x"
    )
    func = bind_threads(PrimFunc("f", [A, B], body))
    assert [s.thread for s in walk(func.body) if isinstance(s, For)] == ["blockIdx.x", "threadIdx.x"]
    (guard,) = [s for s in walk(func.body) if isinstance(s, IfThenElse)]
    assert guard.then_case.buffer is B


def test_one_thread_stores_what_does_not_depend_on_the_thread():
    body = threads(T, 8, seq(store(A, T, 1.0), store(B, const(0), 2.0)))
    func = bind_threads(PrimFunc("f", [A, B], body))
    (guard,) = [s for s in walk(func.body) if isinstance(s, IfThenElse)]
    assert guard.then_case.buffer is B


def test_errors_of_thread_axes():
    twice = threads(
        T, 4, seq(threads(U, 8, store(A, U, 1.0), "blockIdx.x"), threads(V, 2, store(B, V, 1.0), "blockIdx.x"))
    )
    with pytest.raises(ScheduleError, match=r"blockIdx.x has the extents 8 and 2 in one kernel"):
        bind_threads(PrimFunc("f", [A, B], twice))
    with pytest.raises(ScheduleError, match=r"unknown thread axis 'warp'; there are: blockIdx.z"):
        bind_threads(PrimFunc("f", [A], threads(T, 4, store(A, T, 1.0), "warp")))
    n = Var("n")
    symbolic = For(T, const(0), n, ForKind.THREAD_BINDING, store(A, T, 1.0), "threadIdx.x")
    with pytest.raises(ScheduleError, match=r"threadIdx.x has the extent n; split the axis"):
        bind_threads(PrimFunc("f", [A, n], symbolic))


def test_virtual_threads_interleave_and_get_buffers_of_their_own():
    local = Buffer("L", [8], scope="local")
    body = serial(K, 8, seq(store(local, K, load(A, V * 8 + K)), store(B, V * 8 + K, load(local, K) * 2.0)))
    func = inject_virtual_thread(PrimFunc("f", [A, B], threads(V, 2, Allocate(local, body), "vthread")))
    (made,) = [s.buffer for s in walk(func.body) if isinstance(s, Allocate)]
    assert made.constant_shape() == (2, 8)
    loops = [s.var.name for s in walk(func.body) if isinstance(s, For)]
    assert loops == ["k", "v", "v"]


def test_what_no_virtual_thread_changes_is_done_once():
    body = seq(serial(K, 8, store(S, K, load(A, K))), store(B, V, load(S, V)))
    func = inject_virtual_thread(PrimFunc("f", [A, B], threads(V, 2, Allocate(S, body), "vthread")))
    (made,) = [s.buffer for s in walk(func.body) if isinstance(s, Allocate)]
    assert made is S
    assert [s.var.name for s in walk(func.body) if isinstance(s, For)] == ["k", "v"]


def test_virtual_threads_need_a_constant_extent():
    loop = For(V, const(0), Var("n"), ForKind.THREAD_BINDING, store(B, V, 1.0), "vthread")
    with pytest.raises(ScheduleError, match="the virtual thread axis v has the extent n"):
        inject_virtual_thread(PrimFunc("f", [B], loop))


def test_kernels_and_their_parameters():
    made, n = Buffer("T", [64]), Var("n")
    first = threads(T, 8, store(made, T, load(A, T)))
    second = threads(U, 8, IfThenElse(less(U, n), store(B, U, load(made, U))))
    program = split_host_device(PrimFunc("f", [A, B, n], Allocate(made, seq(first, second))))
    assert program.temporaries == (made,)
    assert [tuple(launch.kernel.params) for launch in program.launches] == [(A, made), (made, B, n)]
    assert [launch.kernel.attrs["written"] for launch in program.launches] == [(False, True), (False, True, False)]
    assert [launch.block for launch in program.launches] == [(8, 1, 1), (8, 1, 1)]
