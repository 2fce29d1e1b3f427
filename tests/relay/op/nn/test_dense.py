"""Matrix products against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type_of import type_of
from tilewright.topi.reference.layout import layout_transform

RNG = np.random.default_rng(11)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lead", [(1,), (3,), (2, 3)])
def test_dense_layers_agree_with_numpy(check, dtype, lead):
    data, weight = normal(*lead, 5, dtype=dtype), normal(8, 5, dtype=dtype)
    expected = data @ weight.T
    check(op.nn.dense(const(data), const(weight), units=8), expected, rtol=1e-5, atol=1e-5)
    packed = layout_transform(weight, "NC", "NC4n")
    assert packed.shape == (2, 5, 4)
    check(op.nn.dense(const(data), const(packed), weight_layout="NC4n"), expected, rtol=1e-5, atol=1e-5)


def test_integer_products_sum_in_int32(check):
    data, weight = np.full((2, 300), 100, "int8"), np.full((3, 300), 100, "int8")
    check(op.nn.dense(const(data), const(weight), out_dtype="int32"), np.full((2, 3), 3_000_000))


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("batches", [(3, 3), (1, 3), (3, 1)])
def test_batches_of_products_agree_with_numpy(check, transpose_a, transpose_b, batches):
    a, b = normal(batches[0], 4, 5), normal(batches[1], 5, 6)
    left = const(np.ascontiguousarray(a.swapaxes(1, 2)) if transpose_a else a)
    right = const(np.ascontiguousarray(b.swapaxes(1, 2)) if transpose_b else b)
    call = op.nn.batch_matmul(left, right, transpose_a=transpose_a, transpose_b=transpose_b)
    check(call, a @ b, rtol=1e-5, atol=1e-5)
    if batches == (3, 3):
        left, right = (const(t.data[0]) for t in (left, right))
        call = op.nn.matmul(left, right, transpose_a=transpose_a, transpose_b=transpose_b)
        check(call, a[0] @ b[0], rtol=1e-5, atol=1e-5)


def test_operands_that_do_not_fit_are_refused():
    a, b = const(normal(2, 3, 4)), const(normal(2, 5, 6))
    with pytest.raises(TypeMismatchError, match="the products run over 4 and 6 elements"):
        type_of(op.nn.batch_matmul(a, b))
    with pytest.raises(TypeMismatchError, match="the data has 4 columns"):
        type_of(op.nn.dense(a, const(normal(5, 6))))
    with pytest.raises(TypeMismatchError, match="units=4, but the weight makes 5"):
        type_of(op.nn.dense(a, const(normal(5, 4)), units=4))
    with pytest.raises(TypeMismatchError, match="two matrices are needed"):
        type_of(op.nn.matmul(a, b))
