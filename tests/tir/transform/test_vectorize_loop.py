"""vectorize_loop: the form of the result for each case, and the same values."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Ramp, Select, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc, SeqStmt, seq
from tilewright.tir.transform.statements import walk
from tilewright.tir.transform.vectorize_loop import vectorize_loop
from tilewright.tir.visitor import collect

A, B, C = Buffer("a", [64]), Buffer("b", [4]), Buffer("c", [64])
I, J = Var("i"), Var("j")


def nest(body, lanes=16, outer=4):
    inner = For(I, const(0), const(lanes), ForKind.VECTORIZED, body)
    return PrimFunc("f", [A, B, C], For(J, const(0), const(outer), ForKind.SERIAL, inner))


def check(interpret, body, lanes=16, outer=4):
    """The vectorized function, after checking that it computes what the loops do."""
    func = nest(body, lanes, outer)
    result = vectorize_loop(func)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-8, 8, n).astype(np.float32) for n in (64, 4, 64)]
    expected = [a.copy() for a in arrays]
    interpret(func, *expected)
    interpret(result, *arrays)
    for got, want in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(got, want)
    assert all(t.kind is ForKind.SERIAL for t in walk(result.body) if isinstance(t, For))
    return result


def stores(func):
    return [t for t in walk(func.body) if isinstance(t, BufferStore)]


def loops(func):
    return [t.var for t in walk(func.body) if isinstance(t, For)]


def test_contiguous_and_broadcast(interpret):
    func = check(interpret, BufferStore(C, BufferLoad(A, [J * 16 + I]) + BufferLoad(B, [J]), (J * 16 + I,)))
    (store,) = stores(func)
    assert loops(func) == [J]
    assert store.indices[0] is Ramp(J * 16, const(1), 16)
    assert store.value is BufferLoad(A, [Ramp(J * 16, const(1), 16)]) + e.Broadcast(BufferLoad(B, [J]), 16)


def test_strided_and_reversed_access(interpret):
    func = check(interpret, BufferStore(C, BufferLoad(A, [I * 4 + J]), (63 - (J * 16 + I),)))
    (store,) = stores(func)
    assert store.value.indices[0] is Ramp(J, const(4), 16)
    assert store.indices[0].stride is const(-1)


def test_division_within_a_block_stays_scalar(interpret):
    flat = J * 16 + I
    func = check(interpret, BufferStore(C, BufferLoad(B, [flat // 16]) + BufferLoad(A, [flat % 16]), (flat,)))
    (store,) = stores(func)
    assert loops(func) == [J]
    assert store.value.a.value.indices[0] is J
    assert store.value.b.indices[0] is Ramp(const(0), const(1), 16)


def test_a_call_of_what_all_lanes_share_stays_scalar(interpret):
    shared = Call("float32", "sqrt", (op.cast("float32", (I + 32) // 6) - const(1.0),))
    func = check(interpret, BufferStore(C, BufferLoad(A, [J * 4 + I]) * shared, (J * 4 + I,)), lanes=4)
    (store,) = stores(func)
    (call,) = [x for x in collect(store.value, Call) if x.op == "sqrt"]
    assert call.dtype.lanes == 1


def test_division_across_blocks_is_a_gather(interpret):
    flat = J * 16 + I
    func = check(interpret, BufferStore(C, BufferLoad(A, [flat // 3]), (flat,)))
    assert loops(func) == [J]
    assert stores(func)[0].value.indices[0].dtype == "int32x16"


@pytest.mark.parametrize("lanes", [1, 3, 64])
def test_any_lane_count(interpret, lanes):
    func = check(interpret, BufferStore(C, BufferLoad(A, [I]) * 2.0, (I,)), lanes, 1)
    assert loops(func) == [J]


@pytest.mark.parametrize(("extent", "pieces"), [(3, [2, 1]), (7, [4, 2, 1]), (12, [8, 4]), (14, [8, 4, 2]), (32, [32])])
def test_vectors_have_powers_of_two(extent, pieces):
    lowered = vectorize_loop(nest(BufferStore(C, BufferLoad(A, [I]) * 2.0, (I,)), extent, 1))
    assert [t.indices[0].dtype.lanes for t in walk(lowered.body) if isinstance(t, BufferStore)] == pieces


def test_value_that_all_lanes_share_is_stored_to_each(interpret):
    func = check(interpret, BufferStore(C, const(3.0), (J * 16 + I,)))
    assert stores(func)[0].value is const(3.0, "float32x16")


def test_padding_keeps_its_scalar_condition(interpret):
    value = op.if_then_else(J >= 1, BufferLoad(A, [J * 16 + I - 16]), 0.0)
    func = check(interpret, BufferStore(C, value, (J * 16 + I,)))
    (store,) = stores(func)
    assert loops(func) == [J]
    assert isinstance(store.value, Call) and store.value.op == "if_then_else"
    assert store.value.args[0].dtype == "bool" and store.value.dtype == "float32x16"


def test_condition_of_lanes_becomes_a_select_where_the_load_is_safe(interpret):
    value = op.if_then_else(I < 5, BufferLoad(A, [J * 16 + I]), 0.0)
    func = check(interpret, BufferStore(C, value, (J * 16 + I,)))
    assert loops(func) == [J]
    assert isinstance(stores(func)[0].value, Select)


def test_condition_of_lanes_that_guards_a_load_stays_serial(interpret):
    value = op.if_then_else(J * 16 + I >= 1, BufferLoad(A, [J * 16 + I - 1]), 0.0)
    func = check(interpret, BufferStore(C, value, (J * 16 + I,)))
    assert loops(func) == [J, I]


def test_only_the_statement_without_a_vector_form_is_serial(interpret):
    body = seq(
        BufferStore(C, const(1.0), (J * 16 + I,)),
        IfThenElse(I < J, BufferStore(C, const(2.0), (J * 16 + I,))),
    )
    func = check(interpret, body)
    assert loops(func) == [J, I]
    assert isinstance(func.body.body, SeqStmt) and isinstance(func.body.body.stmts[0].indices[0], Ramp)


@pytest.mark.parametrize(("build", "name"), [(op.add, "add"), (op.maximum, "max"), (op.minimum, "min")])
def test_reduction_across_lanes(interpret, build, name):
    func = check(interpret, BufferStore(B, build(BufferLoad(B, [J]), BufferLoad(A, [J * 16 + I])), (J,)))
    assert loops(func) == [J]
    assert stores(func)[0].value.b.op == f"vector_reduce_{name}"


def test_other_accumulation_stays_serial(interpret):
    assert loops(check(interpret, BufferStore(B, BufferLoad(B, [J]) * 0.5 + BufferLoad(A, [I]), (J,)))) == [J, I]
    assert loops(check(interpret, BufferStore(B, BufferLoad(B, [J]) + 1.0, (J,)))) == [J, I]


def test_let_of_a_vector(interpret):
    t = Var("t", "float32")
    body = LetStmt(t, BufferLoad(A, [J * 16 + I]), BufferStore(C, t * t, (J * 16 + I,)))
    func = check(interpret, body)
    assert loops(func) == [J]
    assert isinstance(func.body.body, LetStmt) and func.body.body.var.dtype == "float32x16"


def test_inner_serial_loop_is_kept(interpret):
    k = Var("k")
    add = BufferStore(C, BufferLoad(C, [J * 16 + I]) + BufferLoad(B, [k]), (J * 16 + I,))
    func = check(interpret, For(k, const(0), const(4), ForKind.SERIAL, add))
    assert loops(func) == [J, k]
    assert isinstance(stores(func)[0].indices[0], Ramp)


def test_allocation_per_lane_stays_serial(interpret):
    t = Buffer("t", [1], scope="local")
    body = Allocate(
        t, seq(BufferStore(t, BufferLoad(A, [I]), (const(0),)), BufferStore(C, BufferLoad(t, [const(0)]), (I,)))
    )
    assert loops(check(interpret, body)) == [J, I]


def test_outer_of_two_vector_loops_is_serial(interpret):
    inner = For(I, const(0), const(4), ForKind.VECTORIZED, BufferStore(C, BufferLoad(A, [J * 4 + I]), (J * 4 + I,)))
    func = PrimFunc("f", [A, B, C], For(J, const(0), const(16), ForKind.VECTORIZED, inner))
    result = vectorize_loop(func)
    a, c = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    interpret(result, a, np.zeros(4, np.float32), c)
    np.testing.assert_array_equal(c, a)


def test_symbolic_extent_is_serial():
    n = Var("n")
    func = vectorize_loop(
        PrimFunc("f", [n, C], For(I, const(0), n, ForKind.VECTORIZED, BufferStore(C, const(0.0), (I,))))
    )
    assert isinstance(func.body, For) and func.body.kind is ForKind.SERIAL


def test_statements_around_a_store_by_all_lanes_stay_in_the_same_loop(interpret):
    body = seq(
        BufferStore(B, op.maximum(BufferLoad(B, [J]) * 0.5, BufferLoad(A, [I])), (J,)),
        BufferStore(C, BufferLoad(B, [J]), (J * 16 + I,)),
    )
    assert loops(check(interpret, body)) == [J, I]


@pytest.mark.parametrize("extent", [1024, 2048, 5000])
def test_loops_longer_than_any_vector(interpret, extent):
    a, c = Buffer("a", [extent]), Buffer("c", [extent])
    body = BufferStore(c, op.add(BufferLoad(a, (I,)), const(1.0, "float32")), (I,))
    func = PrimFunc("f", [a, c], For(I, const(0), const(extent), ForKind.VECTORIZED, body))
    result = vectorize_loop(func)
    values, out = np.arange(extent, dtype=np.float32), np.zeros(extent, np.float32)
    interpret(result, values, out)
    np.testing.assert_array_equal(out, values + 1)
    assert max(x.dtype.lanes for x in collect(result.body, e.Ramp)) == 1024
    assert sum(isinstance(t, For) for t in walk(result.body)) == (extent > 2047)
