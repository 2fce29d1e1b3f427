"""vectorize_reduction: one reduction across lanes at the end, the same result, and nothing else touched."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, PrimFunc
from tilewright.tir.transform.statements import walk
from tilewright.tir.transform.vectorize_loop import vectorize_loop
from tilewright.tir.transform.vectorize_reduction import vectorize_reduction

A, C = Buffer("a", [4, 64]), Buffer("c", [4])
R, I, J = Var("r"), Var("i"), Var("j")
V, S = ForKind.VECTORIZED, ForKind.SERIAL


def rows(body, at=J, lanes=16, outer=4):
    inner = For(J, const(0), const(lanes), V, body)
    reduce = For(I, const(0), const(outer), S, inner)
    return PrimFunc("f", [A, C], For(R, const(0), const(4), S, reduce))


def allocations(func):
    return [t for t in walk(func.body) if isinstance(t, Allocate)]


@pytest.mark.parametrize("build", [op.add, op.multiply, op.maximum, op.minimum])
def test_each_operation_reduces_in_lanes(interpret, build):
    update = BufferStore(C, build(BufferLoad(C, [R]), BufferLoad(A, [R, I * 16 + J])), (R,))
    func = rows(update)
    result = vectorize_loop(vectorize_reduction(func))
    assert [t.buffer.constant_shape() for t in allocations(result)] == [(16,)]
    rng = np.random.default_rng(0)
    a = rng.choice([1.0, -1.0, 2.0], 256).astype(np.float32)
    got, want = np.full(4, 0.5, np.float32), np.full(4, 0.5, np.float32)
    interpret(func, a, want)
    interpret(result, a, got)
    np.testing.assert_array_equal(got, want)
    inner = [t for t in walk(result.body) if isinstance(t, For)][-1]
    assert inner.var is I and isinstance(inner.body, BufferStore) and inner.body.value.dtype.lanes == 16


def test_guard_between_the_loops(interpret):
    update = BufferStore(C, BufferLoad(C, [R]) + BufferLoad(A, [R, I * 16 + J]), (R,))
    inner = IfThenElse(I < 3, For(J, const(0), const(16), V, update))
    func = PrimFunc("f", [A, C], For(R, const(0), const(4), S, For(I, const(0), const(4), S, inner)))
    result = vectorize_loop(vectorize_reduction(func))
    a, c = np.arange(256, dtype=np.float32), np.zeros(4, np.float32)
    interpret(result, a, c)
    np.testing.assert_array_equal(c, a.reshape(4, 64)[:, :48].sum(1))
    assert len(allocations(result)) == 1


def test_maxima_of_integers_begin_at_the_stored_value(interpret):
    a, c = Buffer("a", [64], "int32"), Buffer("c", [1], "int32")
    update = BufferStore(c, op.maximum(BufferLoad(c, [const(0)]), BufferLoad(a, [I * 16 + J])), (const(0),))
    loops = For(I, const(0), const(4), S, For(J, const(0), const(16), V, update))
    x, y = np.arange(-70, -6, dtype=np.int32), np.full(1, -1000, np.int32)
    interpret(vectorize_loop(vectorize_reduction(PrimFunc("f", [a, c], loops))), x, y)
    assert y[0] == -7


@pytest.mark.parametrize(
    "store",
    [
        BufferStore(C, BufferLoad(C, [I]) + BufferLoad(A, [R, I * 16 + J]), (I,)),
        BufferStore(C, BufferLoad(C, [R]) * 0.5 + BufferLoad(A, [R, J]), (R,)),
        BufferStore(C, BufferLoad(C, [R]) + BufferLoad(C, [R]) * BufferLoad(A, [R, J]), (R,)),
        BufferStore(A, BufferLoad(A, [R, J]) + 1.0, (R, J)),
    ],
)
def test_what_is_no_such_reduction_is_left_alone(store):
    func = rows(store)
    assert vectorize_reduction(func).body is func.body
