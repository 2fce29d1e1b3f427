"""Loads and stores of compiled code: every form of vector index, address arithmetic, and what a store invalidates."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.backend import build
from tilewright.codegen.llvm import emit
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Broadcast, BufferLoad, Call, Cast, Ramp, Select, Shuffle, Var
from tilewright.tir.stmt import Allocate, BufferStore, DeclBuffer, PrimFunc, seq

ONE = op.const(1)


def run(body, *pairs):
    """Run `body` on (buffer, array) pairs."""
    func = PrimFunc("f", [buffer for buffer, _ in pairs], body)
    build(func, threads=1)["f"](*(array for _, array in pairs))


def buffers(dtype="float32", size=256):
    x, y = Buffer("x", (size,), dtype), Buffer("y", (size,), dtype)
    return x, y, (np.random.default_rng(0).standard_normal(size) * 50).astype(dtype), np.zeros(size, dtype)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16", "float64"])
@pytest.mark.parametrize("lanes", [2, 3, 8, 16, 64])
@pytest.mark.parametrize("stride", [1, 2, 3, -1, -2])
def test_strided_loads_and_stores(dtype, lanes, stride):
    x, y, a, b = buffers(dtype)
    low = 5 if stride > 0 else 5 - stride * (lanes - 1)
    index = Ramp(op.const(low), op.const(stride), lanes)
    positions = low + stride * np.arange(lanes)
    run(BufferStore(y, BufferLoad(x, (index,)), (Ramp(op.const(0), ONE, lanes),)), (x, a), (y, b))
    np.testing.assert_array_equal(b[:lanes], a[positions])
    b[:] = 0
    run(BufferStore(y, BufferLoad(x, (Ramp(op.const(0), ONE, lanes),)), (index,)), (x, a), (y, b))
    expected = np.zeros_like(b)
    expected[positions] = a[:lanes]
    np.testing.assert_array_equal(b, expected)


def test_gather_scatter_and_broadcast_index(loop):
    x, y, a, b = buffers()
    where = Buffer("where", (16,), "int32")
    w = np.random.default_rng(1).permutation(16).astype("i4") * 3
    index = BufferLoad(where, (Ramp(op.const(0), ONE, 16),))
    run(BufferStore(y, BufferLoad(x, (index + 1,)), (index,)), (x, a), (y, b), (where, w))
    expected = np.zeros(256, "f4")
    expected[w] = a[w + 1]
    np.testing.assert_array_equal(b, expected)
    run(BufferStore(y, BufferLoad(x, (Broadcast(op.const(7), 4),)), (Ramp(op.const(0), ONE, 4),)), (x, a), (y, b))
    np.testing.assert_array_equal(b[:4], a[[7, 7, 7, 7]])


def test_ramp_with_a_symbolic_stride(loop):
    x, y, a, b = buffers()
    n, i = Var("n", "int32"), Var("i")
    body = loop(i, 4, BufferStore(y, BufferLoad(x, (Ramp(i, n, 8),)), (Ramp(i * 8, ONE, 8),)))
    build(PrimFunc("f", [x, y, n], body), threads=1)["f"](a, b, 5)
    np.testing.assert_array_equal(b[:32].reshape(4, 8), a[np.arange(4)[:, None] + 5 * np.arange(8)])


def test_ramps_and_shuffles_as_values(loop):
    y = Buffer("y", (64,), "int32")
    b = np.zeros(64, "i4")
    i, ramp = Var("i"), Ramp(op.const(3), op.const(-2), 8)
    low, high = Shuffle((ramp,), (0, 1, 2, 3)), Shuffle((ramp,), (4, 5, 6, 7))
    mixed = Shuffle((high, low, op.const(9)), (8, 0, 7, 4, 1, 1, 2, 3))
    body = seq(
        BufferStore(y, ramp, (Ramp(op.const(0), ONE, 8),)),
        BufferStore(y, Shuffle((low, high), (7, 0, 6, 1)), (Ramp(op.const(8), ONE, 4),)),
        BufferStore(y, mixed, (Ramp(op.const(16), ONE, 8),)),
        loop(i, 4, BufferStore(y, Shuffle((Ramp(i, i, 4),), (3,)), (i + 32,))),
    )
    run(body, (y, b))
    np.testing.assert_array_equal(b[:8], 3 - 2 * np.arange(8))
    np.testing.assert_array_equal(b[8:12], [-11, 3, -9, 1])
    np.testing.assert_array_equal(b[16:24], [9, -5, -3, 3, -7, -7, -9, -11])
    np.testing.assert_array_equal(b[32:36], 4 * np.arange(4))


def test_index_arithmetic_of_every_kind(loop):
    x, y, a, b = buffers(size=1024)
    i, j = Var("i"), Var("j")
    index = (i * 16 + j) // 3 * 2 + (i - j + 16) % 5 + op.select(i < j, i, j) - (j // 8) + op.minimum(i * 3, j) % 8
    body = loop(i, 16, loop(j, 16, BufferStore(y, BufferLoad(x, (index,)), (j * 16 + i,))))
    run(body, (x, a), (y, b))
    I, J = np.meshgrid(np.arange(16), np.arange(16), indexing="ij")
    where = (I * 16 + J) // 3 * 2 + (I - J + 16) % 5 + np.where(I < J, I, J) - J // 8 + np.minimum(I * 3, J) % 8
    np.testing.assert_array_equal(b[:256].reshape(16, 16), a[where].T)


def test_int64_and_unsigned_indices(loop):
    x, y, a, b = buffers()
    i, k, u = Var("i"), Var("k", "int64"), Var("u", "uint8")
    wide = BufferStore(y, BufferLoad(x, (k + Cast("int64", i) * 2,)), (i,))
    narrow = BufferStore(y, BufferLoad(x, (u,)), (i + 100,))
    func = PrimFunc("f", [x, y, k, u], loop(i, 10, seq(wide, narrow)))
    build(func, threads=1)["f"](a, b, 30, 200)
    np.testing.assert_array_equal(b[:10], a[30:50:2])
    np.testing.assert_array_equal(b[100:110], a[200])


def test_a_store_is_seen_by_later_loads_and_iterations(loop):
    x, y, a, b = buffers()
    i = Var("i")
    first = BufferLoad(x, (op.const(0),))
    total = BufferLoad(y, (op.const(0),))
    body = seq(
        BufferStore(y, first + 1.0, (op.const(1),)),
        BufferStore(x, first * 2.0, (op.const(0),)),
        BufferStore(y, first + 1.0, (op.const(2),)),
        loop(i, 10, BufferStore(y, total + first, (op.const(0),))),
        loop(i, 3, seq(BufferStore(x, first * 2.0, (op.const(0),)), BufferStore(y, first, (i + 3,)))),
    )
    start = float(a[0])
    run(body, (x, a), (y, b))
    np.testing.assert_allclose(
        b[:6], [20 * start, start + 1, 2 * start + 1, 4 * start, 8 * start, 16 * start], rtol=1e-6
    )


def test_buffers_that_may_overlap_are_reloaded(loop):
    x, y = Buffer("x", (8,)), Buffer("y", (8,))
    load = BufferLoad(x, (op.const(0),))
    body = seq(BufferStore(y, load + 1.0, (op.const(0),)), BufferStore(y, load + 1.0, (op.const(1),)))
    same = np.zeros(8, "f4")
    build(PrimFunc("f", [x, y], body, {"noalias": False}), threads=1)["f"](same, same)
    np.testing.assert_array_equal(same[:2], [1, 2])


def test_local_buffers_and_typed_views(loop):
    x, y, a, b = buffers()
    i = Var("i")
    space = Buffer("workspace", (2048,), "uint8")
    view, local = Buffer("view", (256,), "float32"), Buffer("local", (256,), "float32", "local")
    address = Call("handle", "address_of", (BufferLoad(space, (op.const(1024),)),))
    copy = loop(i, 256, BufferStore(view, BufferLoad(local, (i,)) * 3.0, (i,)))
    fill = loop(i, 256, BufferStore(local, BufferLoad(x, (i,)) + 1.0, (i,)))
    back = loop(i, 256, BufferStore(y, BufferLoad(view, (i,)), (255 - i,)))
    run(
        DeclBuffer(view, address, Allocate(local, seq(fill, copy, back))), (x, a), (y, b), (space, np.zeros(2048, "u1"))
    )
    np.testing.assert_array_equal(b, ((a + 1) * 3)[::-1])


def test_views_that_take_turns_at_one_position(loop):
    space, y = Buffer("space", (64,), "float32"), Buffer("y", (8,))
    first, second = Buffer("first", (4,)), Buffer("second", (4,))
    address = Call("handle", "address_of", (BufferLoad(space, (op.const(0),)),))
    zero = (op.const(0),)

    def use(view, value, out):
        return DeclBuffer(view, address, seq(BufferStore(view, op.const(value), zero),
                                             BufferStore(y, BufferLoad(view, zero), (op.const(out),))))  # fmt: skip

    b = np.zeros(8, "f4")
    run(seq(use(first, 1.0, 0), use(second, 2.0, 1)), (space, np.zeros(64, "f4")), (y, b))
    np.testing.assert_array_equal(b[:2], [1, 2])


def test_addresses_in_a_view_follow_it():
    """A second view of the same name lies elsewhere: so does what an address within it points to."""
    space, y = Buffer("space", (64,), "float32"), Buffer("y", (8,))
    outer, inner = Buffer("outer", (4,)), Buffer("inner", (4,))
    zero = (op.const(0),)

    def address(buffer, at):
        return Call("handle", "address_of", (BufferLoad(buffer, (op.const(at),)),))

    def use(at, value, out):
        written = BufferStore(inner, op.const(value), zero)
        read = BufferStore(y, BufferLoad(outer, zero), (op.const(out),))
        return DeclBuffer(outer, address(space, at), seq(DeclBuffer(inner, address(outer, 0), written), read))

    b = np.zeros(8, "f4")
    run(seq(use(0, 1.0, 0), use(16, 2.0, 1)), (space, np.zeros(64, "f4")), (y, b))
    np.testing.assert_array_equal(b[:2], [1, 2])


def test_loads_leave_loops_that_do_not_write_them(loop):
    x, y = Buffer("x", (16,)), Buffer("y", (16,))
    i = Var("i")
    text = emit(
        [PrimFunc("f", [x, y], loop(i, 16, BufferStore(y, BufferLoad(x, (op.const(3),)), (i,))))], Target("cpu")
    )
    assert text.index("load float") < text.index("loop1:")
    text = emit(
        [PrimFunc("f", [x, y], loop(i, 16, BufferStore(y, BufferLoad(y, (op.const(3),)), (i,))))], Target("cpu")
    )
    assert text.index("load float") > text.index("loop1:")
    unknown = Var("n")
    text = emit(
        [PrimFunc("f", [x, y, unknown], loop(i, unknown, BufferStore(y, BufferLoad(x, (unknown,)), (i,))))],
        Target("cpu"),
    )
    assert text.index("some1:") < text.index("load float") < text.index("loop3:")


def test_each_expression_is_emitted_once():
    x, y = Buffer("x", (64,)), Buffer("y", (64,))
    value = BufferLoad(x, (op.const(0),))
    for _ in range(40):  # 2**40 paths through a graph of 41 nodes
        value = value + value
    text = emit(
        [PrimFunc("f", [x, y], BufferStore(y, Select(value < 0.0, value, value), (op.const(0),)))], Target("cpu")
    )
    assert text.count("fadd") == 40
