"""Operators on whole tensors: computed element by element with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.errors import TypeMismatchError
from tilewright.te.tag import BROADCAST, ELEMWISE

A = te.placeholder((3, 4), name="A")
B = te.placeholder((4,), name="B")
C = te.placeholder((3, 4), "int32", name="C")


def _run(out: te.Tensor, *inputs: te.Tensor) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    values = [(rng.uniform(-9, 9, [int(d) for d in x.shape]) + 0.5).astype(x.dtype) for x in inputs]
    result = np.empty([int(d) for d in out.shape], out.dtype.numpy)
    tw.build(te.lower(te.create_schedule(out.op), [*inputs, out]))["main"](*values, result)
    return result, values


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda a, b: a + b, (A, B)),
        (lambda a, b: b - a, (A, B)),
        (lambda a: 2 - a * 3, (A,)),
        (lambda a, b: a / b, (A, B)),
        (lambda a: 1.5 / a, (A,)),
        (lambda a: -a, (A,)),
        (lambda a: a < 0.5, (A,)),
        (lambda a: a.astype("int32"), (A,)),
        (lambda c: c // 4 + c % 4, (C,)),
        (lambda c: (c << 2) ^ (c & 5) | ~c, (C,)),
        (lambda c: 100 >> (c & 3), (C,)),
        (lambda c, b: c * b, (C, B)),
    ],
)
def test_operators_on_tensors(function: Callable[..., Any], inputs: tuple[te.Tensor, ...]) -> None:
    made = function(*inputs)
    result, values = _run(made, *inputs)
    np.testing.assert_allclose(result, function(*values).astype(result.dtype), rtol=1e-6)


def test_integers_are_divided_towards_zero() -> None:
    result, (c,) = _run(C / 4, C)
    np.testing.assert_array_equal(result, np.trunc(c / 4).astype("int32"))


def test_tags_tell_the_schedules() -> None:
    assert (A + 1).op.tag == (-A).op.tag == ELEMWISE and (A + A).op.tag == (A + B).op.tag == BROADCAST


def test_identity_and_iteration() -> None:
    assert A == A and A != B and {A: 1, B: 2}[B] == 2
    for one in (A, A[0]):
        with pytest.raises(TypeError, match="not iterable"):
            iter(one)
    with pytest.raises(TypeMismatchError, match="do not broadcast"):
        _ = A + te.placeholder((5,))
    with pytest.raises(TypeMismatchError, match="is no number; read an element of it"):
        te.compute((3,), lambda i: te.var("n") + i if False else te.sum(A, te.reduce_axis((0, 3))))


def test_sizes_that_are_whole_floats() -> None:
    assert te.compute((32 / 4, 2), lambda i, j: i + j).shape == (8, 2)
    with pytest.raises(TypeError, match=r"8\.5 cannot be an index or a size"):
        te.placeholder((8.5,))
