"""loop_partition: no guard in the main part, the same elements written, in all the ways axes are split and fused."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, PrimFunc, seq
from tilewright.tir.transform.loop_partition import loop_partition
from tilewright.tir.transform.statements import walk
from tilewright.tir.transform.unroll_loop import unroll_loop
from tilewright.tir.transform.vectorize_loop import vectorize_loop

I, J, K = Var("i"), Var("j"), Var("k")
V, S, P = ForKind.VECTORIZED, ForKind.SERIAL, ForKind.PARALLEL


def loop(var, extent, body, kind=S):
    return For(var, const(0), const(extent), kind, body)


def guarded(index, size):
    c = Buffer("c", [size])
    store = BufferStore(c, BufferLoad(c, [index]) + 1.0, (index,))
    return c, IfThenElse(op.likely(index < size), store)


def check(interpret, c, body):
    """The partitioned function, after checking that each element is written once."""
    func = loop_partition(PrimFunc("f", [c], body))
    x = np.zeros(c.constant_shape(), np.float32)
    interpret(func, x)
    np.testing.assert_array_equal(x, 1)
    return func


def guards(func):
    return [t for t in walk(func.body) if isinstance(t, IfThenElse)]


def shape(func):
    return [(t.var.name, t.extent.value) for t in walk(func.body) if isinstance(t, For)]


def test_split_that_does_not_divide(interpret):
    c, body = guarded(I * 16 + J, 100)
    func = check(interpret, c, loop(I, 7, loop(J, 16, body, V)))
    assert not guards(func)
    assert shape(func) == [("i", 6), ("j", 16), ("j", 4)]


def test_split_by_number_of_parts_leaves_whole_parts_out(interpret):
    c, body = guarded(I * 16 + J, 20)
    func = check(interpret, c, loop(I, 7, loop(J, 16, body)))
    assert not guards(func)
    assert shape(func) == [("j", 16), ("j", 4)]


def test_two_splits_of_one_axis(interpret):
    c, body = guarded(I * 64 + J * 16 + K, 100)
    func = check(interpret, c, loop(I, 2, loop(J, 4, loop(K, 16, body, V))))
    assert not guards(func)


def test_reordered_loops_lose_their_guards(interpret):
    c, body = guarded(I * 16 + J, 100)
    func = check(interpret, c, loop(J, 16, loop(I, 7, body), S))
    assert not guards(func)


def test_two_guarded_axes_lose_their_guards(interpret):
    c = Buffer("c", [10, 10])
    i, j, y, x = Var("i"), Var("j"), Var("y"), Var("x")
    at = (i * 4 + y, j * 4 + x)
    store = BufferStore(c, BufferLoad(c, at) + 1.0, at)
    body = IfThenElse(op.all(op.likely(at[0] < 10), op.likely(at[1] < 10)), store)
    func = check(interpret, c, loop(i, 3, loop(j, 3, loop(y, 4, loop(x, 4, body)))))
    assert not guards(func)


def test_parallel_loop_stays_one_loop(interpret):
    c, body = guarded(I * 16 + J, 100)
    func = check(interpret, c, loop(I, 7, loop(J, 16, body, V), P))
    assert sum(t.kind is P for t in walk(func.body) if isinstance(t, For)) == 1
    assert len(guards(func)) == 1
    assert shape(func) == [("i", 7), ("j", 16), ("j", 4)]


@pytest.mark.parametrize("kind", [S, P])
def test_fused_loop_is_decided_by_its_quotient(interpret, kind):
    f = Var("f")
    c = Buffer("c", [3, 100])
    at = (f // 7, f % 7 * 16 + J)
    store = BufferStore(c, BufferLoad(c, at) + 1.0, at)
    func = check(interpret, c, loop(f, 21, loop(J, 16, IfThenElse(op.likely(at[1] < 100), store), V), kind))
    assert [t.condition.dtype for t in guards(func)] == ["bool"]
    assert shape(func) == [("f", 21), ("j", 16), ("j", 4)]


def test_quotient_of_two_loops_is_decided_inside_both(interpret):
    f, g = Var("f"), Var("g")
    c = Buffer("c", [4, 18])
    fused = f * 2 + g
    at = (fused // 4, fused % 4 * 5 + J)
    store = BufferStore(c, BufferLoad(c, at) + 1.0, at)
    body = loop(J, 5, IfThenElse(op.likely(at[1] < 18), store), V)
    func = check(interpret, c, loop(g, 2, loop(f, 8, body), P))
    assert shape(func) == [("g", 2), ("f", 8), ("j", 5), ("j", 3)]


def test_a_guard_from_below_is_partitioned_off(interpret):
    c = Buffer("c", [60])
    index = I * 16 + J - 4
    body = IfThenElse(op.likely(index >= 0), BufferStore(c, BufferLoad(c, [index]) + 1.0, (index,)))
    func = check(interpret, c, loop(I, 4, loop(J, 16, body)))
    assert not guards(func)


@pytest.mark.parametrize("kind", [S, P])
def test_padding_of_lanes_is_decided(interpret, kind):
    a, c = Buffer("a", [3, 100]), Buffer("c", [3, 106])
    at = J * 16 + K
    value = op.if_then_else(op.all(I >= 1, at >= 3, at < 103), BufferLoad(a, [I - 1, at - 3]), 0.5)
    body = IfThenElse(op.likely(at < 106), BufferStore(c, value, (I, at)))
    func = PrimFunc("f", [a, c], loop(I, 3, loop(J, 7, loop(K, 16, body, V), kind)))
    x = np.arange(300, dtype=np.float32) + 1
    y, want = np.zeros(318, np.float32), np.zeros(318, np.float32)
    interpret(func, x, want)
    lowered = vectorize_loop(loop_partition(func))
    interpret(lowered, x, y)
    np.testing.assert_array_equal(y, want)
    stores = [t for t in walk(lowered.body) if isinstance(t, BufferStore)]
    # Three columns of padding are a vector of two and one of one; nothing is left of the loop over lanes.
    assert sorted({t.indices[1].dtype.lanes for t in stores}) == [1, 2, 4, 8, 16]
    assert not any(isinstance(t, For) and t.var is K for t in walk(lowered.body))


def test_other_conditions_are_left_alone():
    c = Buffer("c", [100])
    body = loop(I, 7, loop(J, 16, IfThenElse(I * 16 + J < 100, BufferStore(c, const(0.0), (I * 16 + J,)))))
    assert loop_partition(PrimFunc("f", [c], body)).body is body


def test_symbolic_extent_keeps_its_guard():
    n = Var("n")
    c = Buffer("c", [100])
    guard = IfThenElse(op.likely(n > I * 16 + J), BufferStore(c, const(0.0), (I * 16 + J,)))
    func = loop_partition(PrimFunc("f", [n, c], loop(I, 7, loop(J, 16, guard))))
    assert len(guards(func)) == 1


def window(rows=7, tiles=3):
    """A sum over 3 x 3 taps by tiles of 4 columns, of an image whose rim has no padding."""
    a, c, held = Buffer("a", [rows, 4 * tiles]), Buffer("c", [rows, 4 * tiles]), Buffer("held", [4], scope="local")
    tap_row, tap, tile = Var("tap_row"), Var("tap"), Var("tile")
    row, column = I + tap_row - 1, tile * 4 + J + tap - 1
    inside = [row >= 0, row < rows, column >= 0, column < 4 * tiles]
    total = BufferStore(held, BufferLoad(held, [J]) + BufferLoad(a, [row, column]), (J,))
    taps = loop(J, 4, IfThenElse(op.all(*map(op.likely, inside)), total), ForKind.UNROLLED)
    taps = loop(tap_row, 3, loop(tap, 3, taps, ForKind.UNROLLED), ForKind.UNROLLED)
    start = loop(J, 4, BufferStore(held, const(0.0), (J,)), ForKind.UNROLLED)
    end = loop(J, 4, BufferStore(c, BufferLoad(held, [J]), (I, tile * 4 + J)), ForKind.UNROLLED)
    body = loop(tile, tiles, Allocate(held, seq(start, taps, end)))
    return PrimFunc("f", [a, c], loop(I, rows, body, P))


def test_a_tile_at_the_rim_of_an_image_has_no_copy(interpret):
    func = window()
    x = np.random.default_rng(0).integers(0, 9, 7 * 12).astype(np.float32)
    got, want = np.zeros(84, np.float32), np.zeros(84, np.float32)
    interpret(func, x, want)
    made = loop_partition(func, tests_taps=True)
    interpret(made, x, got)
    np.testing.assert_array_equal(got, want)
    assert [name for name, _ in shape(made) if name in ("i", "tile")] == ["i", "tile"]
    tiles = [sum(isinstance(t, Allocate) for t in walk(f.body)) for f in (made, loop_partition(func))]
    assert tiles == [1, 9]  # else each corner and side of an image has its own
    # above and below, one for the taps of a row; left and right, one for each row of taps
    assert len(guards(made)) == 2 + 2 * 3
    sums = [t for t in walk(unroll_loop(made).body) if isinstance(t, BufferStore) and t.buffer.name == "held"]
    assert len(sums) == 4 + 3 * 3 * 4


def test_a_tail_is_cut_off_whether_or_not_taps_are_tested(interpret):
    c, body = guarded(I * 16 + J, 100)
    func = PrimFunc("f", [c], loop(I, 7, loop(J, 16, body, ForKind.UNROLLED)))
    made = loop_partition(func, tests_taps=True)
    x = np.zeros(100, np.float32)
    interpret(made, x)
    np.testing.assert_array_equal(x, 1)
    assert not guards(made)


def test_positions_of_a_tile_are_never_tested_one_by_one(interpret):
    tile = Var("tile")
    c, body = guarded(I * 26 + tile * 13 + J, 37)
    func = PrimFunc("f", [c], loop(I, 2, loop(tile, 2, loop(J, 13, body, ForKind.UNROLLED)), P))
    made = loop_partition(func, tests_taps=True)
    x = np.zeros(37, np.float32)
    interpret(made, x)
    np.testing.assert_array_equal(x, 1)
    assert shape(made) == shape(loop_partition(func))
