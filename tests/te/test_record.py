"""Schedules written down: axes are named by the stage that has them at the time."""

from tilewright import te, tir
from tilewright.te.record import graph_names


def _rebuilt(output, s):
    """The schedule rebuilt from its JSON, after its text was run and gave the same."""
    again = te.load_schedule(output, s.to_json())
    fresh = te.create_schedule(output)
    exec(s.to_text(), {"s": fresh, "te": te, "tir": tir, **graph_names(fresh)})
    assert fresh.to_text() == again.to_text() == s.to_text()
    return again


def _sum():
    A = te.placeholder((4, 16), name="A")
    k = te.reduce_axis((0, 16), "k")
    return A, k, te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")


def test_a_reduction_axis_that_moved_to_a_cache():
    A, k, C = _sum()
    s = te.create_schedule(C)
    cached = s.cache_write(C, "local")
    s[cached].split(k, factor=4)
    s[cached].compute_at(s[C], C.op.axis[0])
    assert "s[C_local].split(s[C_local].op.reduce_axis[0], factor=4)" in s.to_text()
    again = _rebuilt(C, s)
    assert str(te.schedule_to_tir(again, [A, C])) == str(te.schedule_to_tir(s, [A, C]))


def test_an_axis_that_came_and_went():
    A, k, C = _sum()
    s = te.create_schedule(C)
    s.rfactor(C, s[C].split(k, factor=8)[1])
    (between,) = s[C].op.reduce_axis
    s.rfactor(C, s[C].split(between, factor=2)[0])
    assert s.to_text().count("s[C].op.reduce_axis[0]") == 2
    again = _rebuilt(C, s)
    assert str(te.schedule_to_tir(again, [A, C])) == str(te.schedule_to_tir(s, [A, C]))


def test_thread_axes_and_names_that_are_no_python():
    A = te.placeholder((8, 8), name="A-1")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="1.B")
    s = te.create_schedule(B)
    thread = te.thread_axis("threadIdx.x")
    s[B].bind(B.op.axis[0], thread)
    s[B].env_threads([te.thread_axis((0, 4), "blockIdx.x")])
    s[B].set_store_predicate(tir.eq(B.op.axis[1].var % 2, 0))
    assert s.to_text().splitlines() == [
        "threadIdx_x = te.thread_axis('threadIdx.x', name='threadIdx.x')",
        "s[t1_B].bind(s[t1_B].op.axis[0], threadIdx_x)",
        "blockIdx_x = te.thread_axis((0, 4), 'blockIdx.x', name='blockIdx.x')",
        "s[t1_B].env_threads([blockIdx_x])",
        "s[t1_B].set_store_predicate(tir.EQ(tir.FloorMod(s[t1_B].op.axis[1].var, tir.const(2, 'int32')), "
        "tir.const(0, 'int32')))",
    ]
    _rebuilt(B, s)
