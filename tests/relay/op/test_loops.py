"""Operators whose kernels are loops written by hand: sorting, searching, running sums and scatters, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay, te
from tilewright.errors import InputError
from tilewright.relay import op
from tilewright.topi.reference import scatter as scatter_reference
from tilewright.topi.reference import sort as sort_reference

RNG = np.random.default_rng(5)
TYPES = ["float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool"]
#: Shape and axis: few elements, more than are sorted by insertion, rows along each axis.
ROWS = [((7,), 0), ((300,), -1), ((20, 50), 1), ((50, 20), -2), ((3, 40, 5), 1)]


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Many equal elements; of floats also both zeros, NaN and infinity."""
    found = np.round(RNG.standard_normal(shape) * 20)
    if dtype.startswith("float"):
        found.flat[1:6] = [np.nan, -0.0, -np.inf, 0.0, -np.nan]
    return found > 0 if dtype == "bool" else found.astype(dtype)


def compiled(build: Any, *arrays: np.ndarray, shapes: Any = None, threads: int = 1) -> Any:
    """The operator that `build` makes of parameters like `arrays`, of `shapes` where they are given."""
    shapes = shapes or [array.shape for array in arrays]
    params = [relay.var(f"x{i}", shape=s, dtype=str(a.dtype)) for i, (s, a) in enumerate(zip(shapes, arrays))]
    mod = relay.IRModule.from_expr(relay.Function(params, build(*params)))
    return tw.compile(mod, threads=threads, cache=False)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", TYPES)
def test_argsort_is_stable_and_puts_nan_last(dtype: str) -> None:
    for shape, axis in ROWS if dtype == "float32" else ROWS[1:3]:
        x = values(shape, dtype)
        for ascending in (True, False):
            found = compiled(lambda v, a=axis, up=ascending: op.argsort(v, axis=a, is_ascend=up), x)(x)
            np.testing.assert_array_equal(found, sort_reference.argsort(x, axis, ascending))


@pytest.mark.sample(2)
@pytest.mark.parametrize("count", [1, 5, 40, 200])
def test_the_first_of_an_order(count: int) -> None:
    """Few are inserted, more are collected and sorted; blocks are passed over in vectors where rows are long."""
    for shape, axis in (((4000,), 0), ((3, 900), 1), ((900, 3), 0)):
        x = values(shape, "float32")
        both = compiled(lambda v, a=axis: op.topk(v, count, a, "both", False, "int64"), x)(x)
        order = np.take(sort_reference.argsort(x, axis, False), np.arange(count), axis)
        np.testing.assert_array_equal(both[1], order)
        np.testing.assert_array_equal(both[0], np.take_along_axis(x, order, axis))


def test_orders_of_what_is_already_in_order_or_all_equal() -> None:
    for x in (np.arange(1000, dtype="int32"), np.arange(1000, dtype="int32")[::-1].copy(), np.ones(1000, "int32")):
        np.testing.assert_array_equal(compiled(lambda v: op.argsort(v), x)(x), np.argsort(x, kind="stable"))
        found = compiled(lambda v: op.argsort(v, is_ascend=False, count=50), x)(x)
        np.testing.assert_array_equal(found, sort_reference.argsort(x, 0, False)[:50])


def test_kernels_of_loops_take_symbolic_sizes() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    x, rows = values((6, 4), "float32"), np.sort(values((3, 8), "int32"))
    order = compiled(lambda v: op.argsort(v, axis=0), x, shapes=[(n, m)])
    best = compiled(lambda v: op.topk(v, 3, 1, "indices"), x, shapes=[(n, m)])
    total = compiled(lambda v: op.cumsum(v, axis=0), x, shapes=[(n, m)])
    found = compiled(lambda r, v: op.searchsorted(r, v), rows, rows, shapes=[(3, n), (3, m)])
    for size in ((6, 4), (100, 3), (1, 700)):
        x = values(size, "int32").astype("float32")
        np.testing.assert_array_equal(order(x), np.argsort(x, axis=0, kind="stable"))
        np.testing.assert_array_equal(best(x), sort_reference.argsort(x, 1, False)[:, :3])
        np.testing.assert_array_equal(total(x), np.cumsum(x, 0))
        rows, wanted = np.sort(values((3, size[0]), "int32")), values((3, size[1]), "int32")
        np.testing.assert_array_equal(found(rows, wanted), sort_reference.searchsorted(rows, wanted, False))
    with pytest.raises(InputError, match=r"min\(m, 3\) = 2 and 3 must be equal"):
        best(np.zeros((4, 2), np.float32))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_searchsorted_agrees_with_numpy_at_any_length(right: bool, dtype: str) -> None:
    for size in (0, 1, 2, 1000):
        row, wanted = (
            np.sort(values((max(size, 8),), "int32"))[:size].astype(dtype),
            values((7, 9), "int32").astype(dtype),
        )
        found = compiled(lambda r, v: op.searchsorted(r, v, right), row, wanted)(row, wanted)
        np.testing.assert_array_equal(found, np.searchsorted(row, wanted, "right" if right else "left"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.sample(4)
def test_running_sums_agree_with_numpy(dtype: str, exclusive: bool, reverse: bool) -> None:
    for shape, axis in (((300,), -1), ((33, 2, 17), -3), ((3, 40, 5), 1)):
        x = (RNG.standard_normal(shape) * 3).astype(dtype)
        source = np.flip(x, axis) if reverse else x
        expected = np.cumsum(source, axis, dtype="float64" if dtype == "float16" else dtype)
        expected = expected - source if exclusive else expected
        found = compiled(lambda v, a=axis: op.cumsum(v, a, exclusive, reverse), x)(x)
        bound = {"float16": 2e-3, "float32": 1e-5}.get(dtype, 0)
        np.testing.assert_allclose(found, np.flip(expected, axis) if reverse else expected, bound, 30 * bound)


@pytest.mark.parametrize("exclusive", [False, True])
def test_running_products_agree_with_numpy(exclusive: bool) -> None:
    for shape, axis in (((30,), 0), ((4, 20), 1), ((20, 4), 0)):
        x = RNG.uniform(0.5, 1.5, shape).astype("float32")
        expected = np.cumprod(x, axis) / (x if exclusive else 1)
        found = compiled(lambda v, a=axis: op.cumprod(v, a, "", exclusive), x)(x)
        np.testing.assert_allclose(found, expected, 1e-5)


@pytest.mark.parametrize("mode", ["update", "add", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
@pytest.mark.sample(5)
def test_scatters_are_the_same_for_any_number_of_workers(mode: str, dtype: str) -> None:
    """Several updates of one element, negative indices, indices of a smaller extent beside the axis."""
    for shape, some, axis in (((200,), (500,), 0), ((30, 40), (30, 90), 1), ((30, 40), (70, 20), 0)):
        x, updates = ((RNG.random(s) * 2).round(1).astype(dtype) for s in (shape, some))
        indices = RNG.integers(-shape[axis], shape[axis], some)
        call = compiled(lambda a, i, u, at=axis: op.scatter_elements(a, i, u, at, mode), x, indices, updates, threads=2)
        found = call(x, indices, updates)
        expected = scatter_reference.scatter_elements(x, indices, updates, axis, mode)
        np.testing.assert_allclose(
            found, expected, rtol=0 if dtype == "int64" else 1e-2 if dtype == "float16" else 1e-6
        )
        call.set_threads(1)
        np.testing.assert_array_equal(call(x, indices, updates), found)


@pytest.mark.parametrize("mode", ["update", "add", "max"])
def test_scatters_of_slices(mode: str) -> None:
    for shape, depth, some in (
        ((50, 150), 1, (90,)),
        ((9, 8, 7), 3, (5, 60)),
        ((6, 5, 33), 2, (40,)),
        ((300,), 1, (9,)),
    ):
        x = RNG.standard_normal(shape).astype("float32")
        indices = np.stack([RNG.integers(-size, size, some) for size in shape[:depth]]).astype("int32")
        updates = RNG.standard_normal((*some, *shape[depth:])).astype("float32")
        call = compiled(lambda a, i, u: op.scatter_nd(a, i, u, mode), x, indices, updates, threads=2)
        found = call(x, indices, updates)
        np.testing.assert_allclose(found, scatter_reference.scatter_nd(x, indices, updates, mode), 1e-5, 1e-6)
        call.set_threads(1)
        np.testing.assert_array_equal(call(x, indices, updates), found)


def test_an_index_out_of_range_names_nothing() -> None:
    x, updates = np.zeros(4, np.float32), np.ones(3, np.float32)
    indices = np.array([1, 2**32 + 2, -9], np.int64)
    found = compiled(lambda a, i, u: op.scatter_elements(a, i, u, 0), x, indices, updates)(x, indices, updates)
    np.testing.assert_array_equal(found, [0, 1, 0, 0])


def test_a_scatter_of_symbolic_size() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    call = compiled(
        lambda a, i, u: op.scatter_nd(a, i, u, "add"),
        np.zeros((1, 1), np.float32), np.zeros((1, 1), np.int64), np.zeros((1, 1), np.float32),
        shapes=[(n, 40), (1, m), (m, 40)],
    )  # fmt: skip
    for rows, count in ((5, 9), (100, 3)):
        x, updates = (RNG.standard_normal((size, 40)).astype("float32") for size in (rows, count))
        indices = RNG.integers(0, rows, (1, count))
        np.testing.assert_allclose(
            call(x, indices, updates), scatter_reference.scatter_nd(x, indices, updates, "add"), 1e-5
        )
