"""Control flow of compiled code: loops, branches, assertions, shares of workers."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.backend import build
from tilewright.codegen.llvm import assembly, emit
from tilewright.errors import InputError, InternalError, UnsupportedError
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Broadcast, BufferLoad, Call, StringImm, Var
from tilewright.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    While,
    seq,
)

X, Y = Buffer("x", (64,), "int32"), Buffer("y", (64,), "int32")
I, J, N = Var("i"), Var("j"), Var("n")


def run(body, *args, params=(Y,)):
    build(PrimFunc("f", list(params), body), threads=1)["f"](*args)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loops_with_symbolic_bounds(loop, count):
    y = np.zeros(64, "i4")
    run(loop(I, N, BufferStore(Y, I + 1, (I,)), low=N + 2), y, count, params=(Y, N))
    expected = np.zeros(64, "i4")
    expected[count + 2 : 2 * count + 2] = np.arange(count + 3, 2 * count + 3)
    np.testing.assert_array_equal(y, expected)


def test_nested_loops_reusing_one_variable(loop):
    y = np.zeros(64, "i4")
    body = seq(loop(I, 4, BufferStore(Y, I * 7, (I,))), loop(I, 8, BufferStore(Y, I * 7 + 1, (I,)), low=4))
    run(loop(J, 2, body), y)
    np.testing.assert_array_equal(y[:12], [0, 7, 14, 21, *(7 * np.arange(4, 12) + 1)])


def test_a_loop_of_no_iterations_is_left_out(loop):
    y = np.zeros(64, "i4")
    run(loop(I, 0, BufferStore(Y, I + 1, (I,))), y)
    assert not y.any()


def test_nested_branches_store_what_numpy_selects(loop):
    y = np.zeros(64, "i4")
    other = BufferStore(Y, I * 2, (I,))
    inner = IfThenElse(op.eq(I % 5, 0), BufferStore(Y, op.const(-1), (I,)))
    body = IfThenElse(I < 20, seq(other, inner), BufferStore(Y, I, (I,)))
    run(loop(I, 64, body), y)
    i = np.arange(64)
    np.testing.assert_array_equal(y, np.where(i < 20, np.where(i % 5 == 0, -1, 2 * i), i))


def test_while_sees_what_its_body_writes():
    y = np.array([1] + [0] * 63, "i4")
    first, count = BufferLoad(Y, (op.const(0),)), BufferLoad(Y, (op.const(1),))
    body = seq(BufferStore(Y, first * 3, (op.const(0),)), BufferStore(Y, count + 1, (op.const(1),)))
    run(While(first < 1000, body), y)
    assert list(y[:2]) == [2187, 7]


def test_let_rebinding_one_variable(loop):
    """Unrolling may repeat a let statement, with the same variable standing for another value."""
    y, v = np.zeros(64, "i4"), Var("v")
    steps = [LetStmt(v, op.const(3) * I + k, BufferStore(Y, v * v + I, (op.const(8) * I + k,))) for k in range(8)]
    run(loop(I, 8, seq(*steps)), y)
    i, k = np.divmod(np.arange(64), 8)
    np.testing.assert_array_equal(y, (3 * i + k) ** 2 + i)


def test_let_keeps_the_value_from_before_a_store():
    y, v = np.arange(64, dtype="i4"), Var("v")
    load = BufferLoad(Y, (op.const(5),))
    body = LetStmt(v, load, seq(BufferStore(Y, v + 1, (op.const(5),)), BufferStore(Y, v * 100 + load, (op.const(6),))))
    run(body, y)
    assert list(y[5:7]) == [6, 506]


def test_assertions_report_their_message(loop):
    body = AssertStmt(N < 10, "n must be below 10", AssertStmt(N > 0, "n must be positive", BufferStore(Y, N, (N,))))
    module = build(PrimFunc("f", [Y, N], body), threads=1)
    y = np.zeros(64, "i4")
    module["f"](y, 3)
    assert y[3] == 3
    with pytest.raises(InputError, match="n must be below 10"):
        module["f"](y, 10)
    with pytest.raises(InputError, match="n must be positive"):
        module["f"](y, 0)


def test_attributes_are_transparent():
    y = np.zeros(64, "i4")
    run(AttrStmt("anything", None, op.const(1), BufferStore(Y, op.const(4), (op.const(0),))), y)
    assert y[0] == 4


@pytest.mark.parametrize("threads", [1, 2])
def test_workers_take_shares_and_meet_at_barriers(loop, threads):
    size = 1000
    x, y = Buffer("x", (size,), "int32"), Buffer("y", (size,), "int32")
    worker, workers = Call("int32", "worker_id", ()), Call("int32", "num_workers", ())
    low, high = size * worker // workers, size * (worker + 1) // workers

    def share(body):
        return For(I, low, high - low, ForKind.SERIAL, body)

    meet = Evaluate(Call("int32", "barrier", ()))
    back = BufferStore(y, BufferLoad(x, (size - 1 - I,)) + 1, (I,))
    func = PrimFunc("f", [x, y], seq(share(BufferStore(x, I * 3, (I,))), meet, share(back)), {"spmd": True})
    module = build(func, threads=threads)
    for _ in range(20):
        a, b = np.zeros(size, "i4"), np.zeros(size, "i4")
        module["f"](a, b)
        np.testing.assert_array_equal(b, 3 * np.arange(size)[::-1] + 1)


def test_calling_another_function_passes_pointers_and_codes():
    base = Var("base", "handle")
    step = PrimFunc("step", [Y, N], AssertStmt(N < 5, "too big", BufferStore(Y, N + 1, (op.const(0),))))
    calls = []
    for k in range(3):
        pointer = Call("handle", "pointer_add", (base, op.const(4 * k, "int64")))
        calls.append(Evaluate(Call("int32", "call_function", (StringImm("step"), pointer, N + k))))
    main = PrimFunc("main", [base, N], seq(*calls))
    module = build([step, PrimFunc("run", [Y, N], Evaluate(call_with_address("main"))), main], threads=1)
    y = np.zeros(64, "i4")
    module["run"](y, 1)
    np.testing.assert_array_equal(y[:4], [2, 3, 4, 0])
    with pytest.raises(InputError, match="too big"):
        module["run"](y, 4)


def call_with_address(name):
    address = Call("handle", "address_of", (BufferLoad(Y, (op.const(0),)),))
    return Call("int32", "call_function", (StringImm(name), address, N))


def test_loop_annotations_reach_llvm(loop):
    x, y = Buffer("x", (4096,)), Buffer("y", (4096,))
    body = BufferStore(y, op.sqrt(BufferLoad(x, (I,))), (I,))
    target = Target("llvm -mcpu=x86-64-v3") if Target.host().architecture == "x86_64" else Target.host()
    plain = assembly(emit([PrimFunc("f", [x, y], loop(I, 4096, body))], target), target)
    unrolled = assembly(emit([PrimFunc("f", [x, y], loop(I, 4096, body, unroll=4))], target), target)
    assert plain.count("sqrt") == 1
    assert unrolled.count("sqrt") == 4


def test_unlowered_loops_and_bad_symbols_are_refused(loop):
    target = Target.host()
    store = BufferStore(Y, I, (I,))
    with pytest.raises(InternalError, match="parallel loop"):
        emit([PrimFunc("f", [Y], For(I, op.const(0), op.const(4), ForKind.PARALLEL, store))], target)
    with pytest.raises(InternalError, match="variable 'i'"):
        emit([PrimFunc("f", [Y], store)], target)
    with pytest.raises(InternalError, match="'x' is used outside"):
        emit([PrimFunc("f", [Y], BufferStore(X, op.const(0), (op.const(0),)))], target)
    local = Buffer("big", (1 << 20,), "float64", "local")
    with pytest.raises(UnsupportedError, match="stack"):
        emit([PrimFunc("f", [Y], Allocate(local, BufferStore(Y, op.const(0), (op.const(0),))))], target)
    with pytest.raises(InternalError, match="symbol"):
        emit([PrimFunc("conv 1", [Y], loop(I, 4, store))], target)
    with pytest.raises(InternalError, match="two functions"):
        emit([PrimFunc("f", [Y], loop(I, 4, store))] * 2, target)


def test_vectors_are_no_elements_of_a_buffer():
    buffer = Buffer("v", (4,), "float32x2")
    store = BufferStore(buffer, Broadcast(op.const(1.0), 2), [op.const(0)])
    with pytest.raises(UnsupportedError, match="store of float32x2 to v: the value has 2 lanes, the index 1"):
        run(store, params=(buffer,))
