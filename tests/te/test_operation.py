"""Placeholders, computes, axes and reducers, and the errors they give."""

import numpy as np
import pytest

from tests.te.python_backend import evaluate
from tilewright import te, tir


def test_placeholder_has_shape_dtype_and_a_stable_tensor():
    A = te.placeholder((4, 8), "float16", name="A")
    assert (A.ndim, A.dtype, A.name, [d.value for d in A.shape]) == (2, "float16", "A", [4, 8])
    assert A.op.output(0) is A and A.op.input_tensors == ()


def test_compute_names_axes_after_the_function_and_lists_inputs():
    A, B = te.placeholder((3, 5), name="A"), te.placeholder((5,), name="B")
    C = te.compute((3, 5), lambda row, col: A[row, col] + B[col] * A(row, 0), name="C", tag="t", attrs={"k": 1})
    assert [iv.name for iv in C.op.axis] == ["row", "col"]
    assert C.op.input_tensors == (A, B)
    assert (C.op.tag, C.op.attrs, C.op.reduce_axis) == ("t", {"k": 1}, ())


def test_compute_takes_open_ended_functions_and_zero_dimensions():
    A = te.placeholder((2, 3), name="A")
    assert [iv.name for iv in te.compute(A.shape, lambda *i: A(*i)).op.axis] == ["i0", "i1"]
    scalar = te.compute((), lambda: A[0, 1], name="scalar")
    assert scalar.shape == () and scalar.op.axis == ()


def test_several_outputs_share_one_operation():
    A = te.placeholder((4,), "int32", name="A")
    first, second = te.compute((4,), lambda i: (A[i] + 1, A[i] * 2), name="two")
    assert first.op is second.op and (first.value_index, second.value_index) == (0, 1)
    values = np.arange(4, dtype="int32")
    for got, want in zip(evaluate([first, second], {A: values}), (values + 1, values * 2), strict=True):
        np.testing.assert_array_equal(got, want)


def test_reductions_have_their_identities():
    A = te.placeholder((3, 4), "int32", name="A")
    values = np.array([[-5, -2, -9, -4], [1, 2, 3, 4], [0, 7, 0, -7]], "int32")
    for kind, want in ((te.sum, np.sum), (te.max, np.max), (te.min, np.min), (te.prod, np.prod)):
        k = te.reduce_axis((0, 4), "k")
        B = te.compute((3,), lambda i, kind=kind, k=k: kind(A[i, k], axis=k), name="B")
        assert B.op.reduce_axis == (k,)
        np.testing.assert_array_equal(evaluate([B], {A: values})[0], want(values, axis=1))


def test_a_reducer_of_tuples():
    argmax = te.comm_reducer(
        lambda x, y: (tir.select(x[1] >= y[1], x[0], y[0]), tir.maximum(x[1], y[1])),
        lambda i, v: (tir.const(-1, i), tir.const(-1000, v)),
        name="argmax",
    )
    A = te.placeholder((5,), "int32", name="A")
    k = te.reduce_axis((0, 5), "k")
    index, value = te.compute((1,), lambda i: argmax((k.as_expr(), A[k]), axis=k), name="best")
    got = evaluate([index, value], {A: np.array([3, 9, 4, 9, 1], "int32")})
    assert [int(x[0]) for x in got] == [1, 9]


def test_where_and_init_of_a_reduction():
    A = te.placeholder((6,), "int32", name="A")
    k = te.reduce_axis((0, 6), "k")
    B = te.compute((1,), lambda i: te.sum(A[k], axis=k, where=tir.eq(k % 2, 0), init=100))
    assert evaluate([B], {A: np.arange(6, dtype="int32")})[0][0] == 106


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda A: A[0, 1, 2], "2 dimensions and is read with 3"),
        (lambda A: A[0, 1.5], "cannot be an index"),
        (lambda A: A[0, tir.const(1.0)], "must be an integer"),
        (lambda A: te.compute((4,), lambda i, j: A[i, j]), "takes 2 indices"),
        (lambda A: te.compute((4, 4), lambda i: A[i, i]), "takes 1 indices"),
        (lambda A: te.compute((-1,), lambda i: A[i, 0]), "negative size"),
        (lambda A: te.compute((4,), lambda i: None), "cannot use NoneType"),
        (lambda A: te.sum(A[0, 0], axis=te.var("i")), "reduces over te.reduce_axis"),
        (lambda A: te.reduce_axis(4), "pair"),
        (lambda A: te.thread_axis(), "hardware axis"),
    ],
)
def test_misuse_is_explained(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(te.placeholder((4, 8), name="A"))


def test_a_reduction_must_be_the_whole_body():
    A = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    with pytest.raises(TypeError, match="must be the whole body"):
        te.compute((4,), lambda i: te.sum(A[i, k], axis=k) + 1.0, name="B")
    with pytest.raises(TypeError, match="either all outputs are reductions or none"):
        te.compute((4,), lambda i: (te.sum(A[i, k], axis=k), A[i, 0]), name="B")


def test_a_reducer_must_keep_the_dtype():
    bad = te.comm_reducer(lambda x, y: (x + y).astype("float32"), lambda t: tir.const(0, t), name="bad")
    A = te.placeholder((4,), "int32", name="A")
    k = te.reduce_axis((0, 4), "k")
    with pytest.raises(TypeError, match="reducer bad combines int32 values to float32"):
        te.compute((1,), lambda i: bad(A[k], axis=k))
