"""flatten_buffers: row-major and strided indices, vectors, wide indices, parameters and allocations."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Ramp, SizeVar, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, PrimFunc, seq
from tilewright.tir.transform.flatten_buffers import flatten_buffers

I, J = Var("i"), Var("j")


def nest(body, rows=3, columns=8):
    return For(I, const(0), const(rows), ForKind.SERIAL, For(J, const(0), const(columns), ForKind.SERIAL, body))


def test_row_major_through_an_allocation(interpret):
    a, c, t = Buffer("a", [3, 8]), Buffer("c", [8, 3]), Buffer("t", [3, 8])
    copy = nest(BufferStore(t, BufferLoad(a, [I, J]), (I, J)))
    turn = nest(BufferStore(c, BufferLoad(t, [I, J]), (J, I)))
    func = flatten_buffers(PrimFunc("f", [a, c], Allocate(t, seq(copy, turn))))
    assert [p.constant_shape() for p in func.params] == [(24,), (24,)]
    assert func.body.buffer.constant_shape() == (24,)
    x, y = np.arange(24, dtype=np.float32), np.zeros(24, np.float32)
    interpret(func, x, y)
    np.testing.assert_array_equal(y.reshape(8, 3), x.reshape(3, 8).T)


def test_strided_buffers_are_indexed_by_their_strides(interpret):
    a = Buffer("a", [3, 8], strides=[10, 1])
    func = flatten_buffers(PrimFunc("f", [a], nest(BufferStore(a, const(1.0), (I, J)))))
    assert func.params[0].constant_shape() == (28,)
    x = np.zeros(28, np.float32)
    interpret(func, x)
    assert np.flatnonzero(x).tolist() == [r * 10 + k for r in range(3) for k in range(8)]


def test_index_is_simplified():
    a = Buffer("a", [3, 8])
    body = BufferStore(a, const(0.0), (I * 8 // 8, J - I + I))
    store = flatten_buffers(PrimFunc("f", [a], nest(body))).body.body.body
    assert store.indices[0] is I * 8 + J


@pytest.mark.parametrize("stride", [1, 2])
def test_vector_index_stays_a_ramp(stride):
    a = Buffer("a", [3, 8])
    body = BufferStore(a, const(0.0, "float32x4"), (I, Ramp(J, const(stride), 4)))
    store = flatten_buffers(PrimFunc("f", [a], nest(body))).body.body.body
    assert store.indices[0] is Ramp(I * 8 + J, const(stride), 4)


def test_a_scalar_buffer_has_one_element():
    a = Buffer("a", [])
    func = flatten_buffers(PrimFunc("f", [a], BufferStore(a, BufferLoad(a, []) + 1.0, ())))
    assert func.params[0].constant_shape() == (1,)
    assert func.body.indices == (const(0),)


def test_large_buffers_get_int64_indices():
    a = Buffer("a", [70000, 50000], "int8")
    body = BufferStore(a, const(0, "int8"), (I, J))
    func = flatten_buffers(PrimFunc("f", [a], nest(body, 70000, 50000)))
    assert func.body.body.body.indices[0].dtype == "int64"
    assert func.params[0].constant_size() == 3_500_000_000


def test_a_symbolic_shape_is_flattened_to_a_product():
    n = SizeVar("n")
    a = Buffer("a", [3, n])
    func = flatten_buffers(PrimFunc("f", [n, a], BufferStore(a, const(0.0), (const(2), const(1)))))
    assert func.params[1].shape[0] is const(3) * n
    assert func.body.indices[0] is n * 2 + 1


def test_flat_function_is_unchanged():
    a = Buffer("a", [8])
    func = PrimFunc("f", [a], For(I, const(0), const(8), ForKind.SERIAL, BufferStore(a, const(0.0), (I,))))
    assert flatten_buffers(func).body is func.body
