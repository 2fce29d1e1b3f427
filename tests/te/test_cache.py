"""`cache_write` of a stage whose loops were split, fused and reordered: the cache lies in the order of the loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.errors import ScheduleError

_X = np.random.default_rng(3).integers(-9, 9, (10, 12)).astype("float32")
A = te.placeholder(_X.shape, name="A")


def _product() -> te.Tensor:
    return te.compute(A.shape, lambda i, j: A[i, j] * 2 + 1, name="C")


def _sums() -> te.Tensor:
    k = te.reduce_axis((0, 12), "k")
    return te.compute((10, 12), lambda i, j: te.sum(A[i, k] * A[i, j], axis=k), name="C")


def _least() -> te.Tensor:
    k = te.reduce_axis((2, 12), "k")
    return te.compute((10, 3), lambda i, j: te.min(A[i, k] - j, axis=k), name="C")


def _scheduled(made: te.Tensor, how: str) -> tuple[te.Schedule, list[Any]]:
    s = te.create_schedule(made)
    stage, (i, j) = s[made], made.op.axis
    if how == "reorder":
        order = [j, i]
        stage.reorder(*order)
    elif how == "split":
        order = [*stage.split(i, factor=5), j]
    elif how == "uneven":
        outer, inner = stage.split(i, factor=4)
        order = [outer, j, inner]
        stage.reorder(*order)
    elif how == "nparts":
        outer, inner = stage.split(j, nparts=2)
        order = [outer, i, inner]
        stage.reorder(*order)
    else:
        order = [*stage.split(stage.fuse(i, j), factor=7)]
    return s, order


@pytest.mark.parametrize("how", ["reorder", "split", "uneven", "nparts", "fuse"])
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (_product, _X * 2 + 1),
        (_sums, _X.sum(1, keepdims=True) * _X),
        (_least, _X[:, 2:].min(1, keepdims=True) - np.arange(3, dtype="float32")),
    ],
)
def test_the_cache_lies_in_the_order_of_the_loops(make: Any, expected: np.ndarray, how: str) -> None:
    made = make()
    s, order = _scheduled(made, how)
    cached = s.cache_write(made, "global")
    assert [iv.name for iv in cached.op.axis] == [f"{iv.name}.c" for iv in order]
    assert s[made].leaf_iter_vars == list(made.op.axis)
    assert not s[made].relations
    result = np.zeros(expected.shape, "float32")
    tw.build(te.lower(s, [A, made], check_bounds=True))["main"](_X, result)
    np.testing.assert_array_equal(result, expected)


def test_the_size_of_the_cache_is_that_of_the_loops() -> None:
    made = _product()
    s, _ = _scheduled(made, "uneven")
    assert [int(d) for d in s.cache_write(made, "global").shape] == [3, 12, 4]


def test_the_size_is_symbolic_where_the_loops_are() -> None:
    m = te.size_var("m")
    x = te.placeholder((m * 4, 6), name="x")
    made = te.compute(x.shape, lambda i, j: x[i, j] - 3, name="C")
    s = te.create_schedule(made)
    outer, inner = s[made].split(made.op.axis[0], factor=4)
    s[made].reorder(outer, made.op.axis[1], inner)
    s.cache_write(made, "global")
    data, result = _X[:8, :6].copy(), np.zeros((8, 6), "float32")
    tw.build(te.lower(s, [x, made, m]))["main"](data, result, 2)
    np.testing.assert_array_equal(result, data - 3)


def test_all_outputs_of_an_operation_are_laid_out_alike() -> None:
    first, second = te.compute(A.shape, lambda i, j: (A[i, j] + 1, A[i, j] * A[i, j]), name="two")
    s = te.create_schedule(first.op)
    outer, _ = s[first].split(first.op.axis[1], factor=5)
    s[first].reorder(outer, first.op.axis[0])
    s.cache_write([first, second], "local")
    results = np.zeros_like(_X), np.zeros_like(_X)
    tw.build(te.lower(s, [A, first, second]))["main"](_X, *results)
    np.testing.assert_array_equal(results[0], _X + 1)
    np.testing.assert_array_equal(results[1], _X * _X)


def test_loops_that_say_more_than_an_order_are_refused() -> None:
    made = _sums()
    s = te.create_schedule(made)
    s[made].vectorize(made.op.axis[1])
    with pytest.raises(ScheduleError, match="cache_write of C: j is marked already; mark it after cache_write"):
        s.cache_write(made, "local")
    s = te.create_schedule(made)
    s[made].split(made.op.reduce_axis[0], factor=4)
    with pytest.raises(ScheduleError, match="its reduction is split or fused; do that on the tensor it returns"):
        s.cache_write(made, "local")
    before = te.compute(A.shape, lambda i, j: A[i, j] + 1, name="B")
    after = te.compute(A.shape, lambda i, j: before[i, j] * 2, name="D")
    s = te.create_schedule(after)
    outer, _ = s[after].split(after.op.axis[0], factor=2)
    s[before].compute_at(s[after], outer)
    with pytest.raises(ScheduleError, match=r"B is computed at its loop i_outer; call compute_at after cache_write"):
        s.cache_write(after, "local")
