"""Extern operations: loop IR written by hand and C functions in a graph of computes."""

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend.build import build
from tilewright.errors import ScheduleError


def _prefix_sum(ins, outs):
    """out[i] = out[i - 1] + in[i], as loop IR."""
    source, target = ins[0], outs[0]
    i = tir.Var("i")
    body = tir.BufferStore(target, target[i - 1] + source[i], (i,))
    loop = tir.For(i, tir.const(1), source.shape[0] - 1, tir.ForKind.SERIAL, body)
    return tir.seq(tir.BufferStore(target, source[0], (tir.const(0),)), loop)


@pytest.mark.parametrize("size", [1, 9, 100])
def test_hand_written_loops_between_computes_of_any_size(size):
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2, name="B")
    C = te.extern((n,), [B], _prefix_sum, name="C")
    D = te.compute((n,), lambda i: C[n - 1 - i] + 1, name="D")
    s = te.create_schedule(D)
    s[B].parallel(B.op.axis[0])
    a = np.arange(size, dtype="float32")
    d = np.zeros_like(a)
    build(te.lower(s, [A, D]), threads=2)["main"](a, d)
    np.testing.assert_array_equal(d, np.cumsum(a * 2)[::-1] + 1)


def test_a_c_function_on_whole_tensors():
    A = te.placeholder((5, 4), name="A")
    copy = te.extern(
        (5, 4),
        [A],
        lambda ins, outs: tir.call_extern(
            "handle", "memcpy", outs[0].access_ptr("w"), ins[0].access_ptr("r"), tir.const(5 * 4 * 4, "int64")
        ),
        name="copy",
    )
    B = te.compute((5, 4), lambda i, j: copy[i, j] + 1, name="B")
    a = np.random.default_rng(0).standard_normal((5, 4)).astype("float32")
    b = np.zeros_like(a)
    build(te.lower(te.create_schedule(B), [A, B]), threads=1)["main"](a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_several_outputs_of_several_types_and_a_position_inside_a_loop():
    A = te.placeholder((6, 8), name="A")

    def body(ins, outs):
        i = tir.Var("i")
        (source,), (twice, whole) = ins, outs
        stores = tir.seq(
            tir.BufferStore(twice, source[i] * 2.0, (i,)), tir.BufferStore(whole, source[i].astype("int32"), (i,))
        )
        return tir.For(i, tir.const(0), tir.const(8), tir.ForKind.SERIAL, stores)

    k = te.reduce_axis((0, 6), "k")
    column = te.compute((8,), lambda j: te.sum(A[k, j], axis=k), name="column")
    twice, whole = te.extern([(8,), (8,)], [column], body, name="both", dtype=["float32", "int32"])
    C = te.compute((6, 8), lambda i, j: A[i, j] * twice[j] + whole[j].astype("float32"), name="C")
    s = te.create_schedule(C)
    s[twice].compute_at(s[C], C.op.axis[0])
    a = np.random.default_rng(0).integers(-3, 4, (6, 8)).astype("float32")
    c = np.zeros_like(a)
    build(te.lower(s, [A, C]), threads=1)["main"](a, c)
    np.testing.assert_array_equal(c, a * 2 * a.sum(0) + a.sum(0))


def test_what_does_not_fit_is_refused():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    N = te.placeholder((4,), "int32", name="N")
    with pytest.raises(TypeError, match="returns a statement or a call"):
        te.extern((4,), [A], lambda ins, outs: 3)
    with pytest.raises(TypeError, match="so pass te"):
        te.extern((4,), [A, N], _prefix_sum)
    with pytest.raises(TypeError, match="does not fit the input"):
        te.extern((4,), [A], _prefix_sum, in_buffers=[te.decl_buffer((5,), name="wrong")])
    C = te.extern((4,), [B], _prefix_sum, name="C")
    s = te.create_schedule(C)
    s[B].compute_inline()
    with pytest.raises(ScheduleError, match="compute_inline of B: ExternOp C reads it whole"):
        te.lower(s, [A, C])
    with pytest.raises(ScheduleError, match="is no expression"):
        te.create_schedule(te.compute((4,), lambda i: C[i], name="D"))[C].compute_inline()
