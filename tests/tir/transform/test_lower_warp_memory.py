"""Buffers of scope "warp": what becomes of them, and what is refused.

That results are right is shown by running kernels (tests/codegen/source/test_warp_memory.py).
"""

from __future__ import annotations

import pytest

from tilewright.errors import ScheduleError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Let, Var
from tilewright.tir.op import const, if_then_else, less
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc, While, seq
from tilewright.tir.transform.lower_warp_memory import lower_warp_memory
from tilewright.tir.verify import verify

A, B = Buffer("A", [256]), Buffer("B", [256])
T, K, N = Var("t"), Var("k"), Var("n")


def load(buffer, index):
    return BufferLoad(buffer, (index if not isinstance(index, int) else const(index),))


def store(buffer, index, value):
    return BufferStore(buffer, value, (index if not isinstance(index, int) else const(index),))


def warp(size):
    return Buffer("W", [size], scope="warp")


def kernel(w, *stmts, threads=32, tag="threadIdx.x"):
    body = For(T, const(0), const(threads), ForKind.THREAD_BINDING, Allocate(w, seq(*stmts)), tag)
    return PrimFunc("f", [A, B], body, {"thread_warp_size": 32})


def lowered(w, *stmts, **options):
    func = lower_warp_memory(kernel(w, *stmts, **options))
    verify(func)
    return str(func.body)


def refused(match, w, *stmts, **options):
    with pytest.raises(ScheduleError, match=match):
        lower_warp_memory(kernel(w, *stmts, **options))


def test_before_and_after():
    w = warp(32)
    assert lowered(w, store(w, T, load(A, T)), store(B, T, load(w, 31 - T))) == (
        'for t in thread("threadIdx.x", 32):\n'
        '    W = allocate(float32[1], scope="local")\n'
        "    W[0] = A[t]\n"
        '    W_0 = allocate(float32[1], scope="local")\n'
        "    W_0[0] = warp_shuffle(W[0], 31 - t, 32)\n"
        "    B[t] = W_0[0]\n"
    ).rstrip("\n")


def test_a_thread_reads_its_own_elements_without_a_shuffle():
    w = warp(128)
    text = lowered(w, store(w, T * 2, load(A, T)), store(w, T * 2 + 65, load(A, T)), store(B, T, load(w, T * 2 + 1)))
    assert "warp_shuffle" not in text
    assert 'allocate(float32[4], scope="local")' in text and "W[3] = A[t]" in text and "B[t] = W[1]" in text


def test_equal_reads_are_one_shuffle_and_a_choice_of_registers_is_one_each():
    w = warp(64)
    filled = (store(w, T, load(A, T)), store(w, T + 32, load(A, T + 32)))
    once = lowered(w, *filled, store(B, T, load(w, 31 - T) * load(w, 31 - T)))
    assert once.count("warp_shuffle(") == 1
    both = lowered(w, *filled, store(B, T, load(w, T + 1)))
    assert both.count("warp_shuffle(") == 2 and "select((t + 1) // 32 == 0" in both


def test_a_shuffle_for_a_store_under_a_condition_stands_before_it():
    w = warp(32)
    text = lowered(w, store(w, T, load(A, T)), IfThenElse(less(T, 5), store(B, T, load(w, 31 - T))))
    assert text.index("warp_shuffle(") < text.index("if t < 5")


def test_all_threads_run_a_loop_they_agree_on():
    w = warp(32)
    loop = For(K, const(0), const(4), ForKind.SERIAL, store(B, T * 4 + K, load(w, K)))
    text = lowered(w, store(w, T, load(A, T)), loop)
    assert text.index("for k") < text.index("warp_shuffle(W[0], k, 32)")


def test_groups_of_half_a_warp_and_blocks_of_two():
    w = warp(16)
    assert ", 16)" in lowered(w, store(w, T, load(A, T)), store(B, T, load(w, 15 - T)), threads=16)
    w = warp(64)
    text = lowered(w, store(w, T, load(A, T)), store(B, T, load(w, T // 32 * 32 + (31 - T % 32))), threads=64)
    assert "warp_shuffle(W[0], " in text


def test_refuses_other_extents_than_parts_or_multiples_of_a_warp():
    w = warp(24)
    refused(r"W: threadIdx.x has the extent 24; for the scope warp it must divide the 32", w,
            store(w, T, load(A, T)), threads=24)  # fmt: skip


def test_refuses_kernels_without_threads_in_x():
    w = warp(32)
    refused("W: the scope warp is spread over threadIdx.x, to which no loop is bound", w, store(w, T, load(A, T)),
            tag="threadIdx.y")  # fmt: skip


def test_refuses_targets_without_shuffles():
    w = warp(32)
    func = kernel(w, store(w, T, load(A, T)))
    with pytest.raises(ScheduleError, match=r'W: the scope warp needs a target whose threads shuffle.*target="cuda"'):
        lower_warp_memory(PrimFunc("f", func.params, func.body))


def test_refuses_stores_to_what_is_not_the_threads_own():
    w = warp(32)
    refused("the index 7 of a store to the scope warp is no multiple", w, store(w, 7, load(A, T)))
    refused("a thread stores to t \\+ 1 in the scope warp", w, store(w, T + 1, load(A, T)))
    refused("several factors of threadIdx.x: 1, 2", w, store(w, T, load(A, T)), store(w, T * 2, load(A, T)))


def test_refuses_symbolic_shapes():
    w = warp(N)
    refused("W: its shape in the scope warp is symbolic", w, store(w, T, load(A, T)))


def test_refuses_reads_where_not_all_threads_come():
    w = warp(32)
    fill, use = store(w, T, load(A, T)), store(B, T, load(w, 31 - T))
    refused("stands under t, on which threads disagree", w, fill, For(K, const(0), T, ForKind.SERIAL, use))
    named = LetStmt(N, T * 2, While(less(N, load(A, 0).astype("int32")), use))
    refused("on which threads disagree", w, fill, named)


def test_refuses_reads_of_other_warps():
    w = warp(64)
    refused("may be of another warp's element: threadIdx.x has 64 threads, a warp 32", w, store(w, T, load(A, T)),
            store(B, T, load(w, 63 - T)), threads=64)  # fmt: skip


def test_refuses_choices_among_many_registers():
    w = warp(1024)
    loop = For(K, const(0), const(32), ForKind.SERIAL, store(w, K * 32 + T, load(A, T)))
    refused("may be of any of many registers", w, loop, store(B, T, load(w, T * 32)))


def test_refuses_reads_that_cannot_be_made_ahead():
    w, index = warp(32), Buffer("I", [32], "int32")
    fill = store(w, T, load(A, T))
    guarded = if_then_else(less(T, 5), load(w, load(index, T)), const(0.0))
    refused("is evaluated on a condition only", w, fill, store(B, T, guarded))
    refused("is evaluated on a condition only", w, fill, store(B, T, Let(N, T * 2, load(w, N))))
    refused("W in the scope warp decides a loop or condition", w, fill, While(less(load(w, 0), 1.0), fill))
