"""Long sums, compiled: within the bound of docs/numerics.md, and the same bits for any number of threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module
from tilewright import relay, te
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.tir.transform.block_sums import PRODUCT, SUM

UNIT = 2.0**-24


def bound(terms: int, longest: int = SUM.longest) -> float:
    """The bound of docs/numerics.md, relative to the sum of the terms' sizes."""
    return (longest + 64 * (math.ceil(math.log(terms, 32)) + 2)) * UNIT


def run(body: relay.Expr, *arrays: np.ndarray, threads: int = 1) -> Any:
    names = "xyzw"
    feeds = dict(zip(names, arrays, strict=False))
    (got,) = tw.compile(module(body), cache=False, threads=threads).run(feeds)
    return np.asarray(got)


def tenths(*shape: int) -> np.ndarray:
    return np.full(shape, 0.1, np.float32)


def variables(*arrays: np.ndarray) -> list[relay.Expr]:
    return [relay.var(name, shape=array.shape) for name, array in zip("xyzw", arrays, strict=False)]


@pytest.mark.parametrize("length", [10**3, 10**5, 10**7])
def test_sums_of_equal_numbers_stay_within_the_bound(length: int) -> None:
    """All of one size, so that no rounding errors cancel: 10⁷ of them were off by 1.5·10⁻³."""
    values = tenths(length)
    (x,) = variables(values)
    exact = length * float(values[0])
    assert abs(run(relay.sum(x), values) - exact) <= 2e-6 * exact <= bound(length) * exact


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((70001,), 0), ((70001, 3), 0), ((3, 70001), 1), ((2, 9001, 5), 1), ((41, 43, 47), (0, 2)), ((300, 301), None)],
    ids=str,
)
def test_sums_over_any_axes_stay_within_the_bound(shape: tuple[int, ...], axis: Any) -> None:
    values = np.random.default_rng(0).uniform(0, 1, shape).astype(np.float32)
    (x,) = variables(values)
    wide = values.astype(np.float64)
    terms = wide.size // wide.sum(axis).size
    for got, exact in (
        (run(relay.sum(x, axis=axis), values), wide.sum(axis)),
        (run(relay.mean(x, axis=axis), values), wide.mean(axis)),
        (run(relay.sum(relay.multiply(x, x), axis=axis), values), np.square(wide).sum(axis)),
    ):
        assert np.max(np.abs(got - exact) / exact) <= min(2e-6, bound(terms))


def test_the_exact_sum_is_that_of_fsum() -> None:
    """Numbers of both signs and many sizes, of which NumPy's sum in float64 is not exact either."""
    rng = np.random.default_rng(1)
    values = (rng.standard_normal(200_000) * 10.0 ** rng.uniform(-6, 6, 200_000)).astype(np.float32)
    (x,) = variables(values)
    error = abs(float(run(relay.sum(x), values)) - math.fsum(map(float, values)))
    assert error <= bound(values.size) * math.fsum(map(abs, map(float, values)))


@pytest.mark.parametrize("length", [5000, 10**5])
def test_what_is_made_of_sums(length: int) -> None:
    values = np.random.default_rng(2).uniform(0.5, 1.5, (2, length)).astype(np.float32)
    (x,) = variables(values)
    wide = values.astype(np.float64)
    exponentials = np.exp(wide - wide.max(1, keepdims=True))
    softmax = run(relay.nn.softmax(x, axis=1), values)
    np.testing.assert_allclose(softmax, exponentials / exponentials.sum(1, keepdims=True), rtol=2e-6)
    variance = run(relay.variance(x, axis=1), values)
    np.testing.assert_allclose(variance, wide.var(1), rtol=3e-6)


def _dense(rows: int, columns: int, depth: int) -> tuple[relay.Expr, list[np.ndarray]]:
    arrays = [tenths(rows, depth), tenths(columns, depth)]
    return relay.nn.dense(*variables(*arrays)), arrays


def _stack(depth: int) -> tuple[relay.Expr, list[np.ndarray]]:
    arrays = [tenths(2, 5, depth), tenths(2, 9, depth)]
    return relay.nn.batch_matmul(*variables(*arrays)), arrays


def _convolution(depth: int) -> tuple[relay.Expr, list[np.ndarray]]:
    arrays = [tenths(1, depth, 2, 3)]
    weight = relay.const(np.full((16, depth, 1, 1), 0.1, np.float32))
    return relay.nn.conv2d(*variables(*arrays), weight), arrays


@pytest.mark.parametrize(
    ("make", "depth"),
    [
        (lambda k: _dense(1, 3, k), 10**6),
        (lambda k: _dense(1, 32, k), 40_000),
        (lambda k: _dense(8, 32, k), 40_000),
        (lambda k: _dense(7, 5, k), 3001),
        (_stack, 40_000),
        (_convolution, 20_000),
    ],
)
def test_long_products_stay_within_the_bound(make: Any, depth: int) -> None:
    """All terms of one size; a chain of 40,000 is off by 1·10⁻⁴, of 10⁶ by 1 %."""
    body, arrays = make(depth)
    exact = depth * float(np.float32(0.1)) ** 2
    assert np.max(np.abs(run(body, *arrays) - exact)) <= min(2e-5, bound(depth, PRODUCT.longest)) * exact


@pytest.mark.parametrize("size", [0, 1, 64, 65, 5000, 2**20 + 3])
def test_sums_of_symbolic_length_stay_within_the_bound(size: int) -> None:
    x = relay.var("x", shape=(te.size_var("n"),))
    across = relay.var("y", shape=(te.size_var("m"), 3))
    both = tw.compile(module(relay.Tuple([relay.sum(x), relay.sum(across, axis=0)])), cache=False, threads=1)
    along, beside = both.run({"x": tenths(size), "y": tenths(size // 2, 3)})
    tenth = float(np.float32(0.1))
    assert abs(along - size * tenth) <= 2e-6 * size
    assert np.max(np.abs(beside - size // 2 * tenth)) <= 2e-6 * size


def test_a_symbolic_depth() -> None:
    k = te.size_var("k")
    x, y = relay.var("x", shape=(3, k)), relay.var("y", shape=(5, k))
    executable = tw.compile(module(relay.nn.dense(x, y)), cache=False, threads=1)
    for depth in (7, 1024, 30_000):
        (got,) = executable.run({"x": tenths(3, depth), "y": tenths(5, depth)})
        exact = depth * float(np.float32(0.1)) ** 2
        assert np.max(np.abs(got - exact)) <= min(2e-5, bound(depth, PRODUCT.longest)) * exact


@pytest.mark.parametrize(("shape", "axis"), [((60_000,), 0), ((6000, 37), 0), ((2, 6000, 3), 1)])
def test_running_sums_stay_within_the_bound(shape: tuple[int, ...], axis: int) -> None:
    values = tenths(*shape)
    (x,) = variables(values)
    exact = np.cumsum(values.astype(np.float64), axis)
    for body, wanted in (
        (relay.cumsum(x, axis=axis), exact),
        (relay.cumsum(x, axis=axis, reverse=True), np.flip(exact, axis)),
    ):
        assert np.max(np.abs(run(body, values) / wanted - 1)) <= 2e-6
    before = run(relay.cumsum(x, axis=axis, exclusive=True), values)
    np.testing.assert_allclose(before, exact - values, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("symbolic", [False, True])
def test_updates_of_one_element(symbolic: bool) -> None:
    """One after the other, 50,000 tenths come to 0.1 % too much."""
    count: Any = te.size_var("n") if symbolic else 50_000
    x, y = relay.var("x", shape=(count, 19)), relay.var("y", shape=(1, count), dtype="int64")
    updates, rows = tenths(50_000, 19), np.ones((1, 50_000), np.int64)
    updates[7, 2] = np.inf
    got = run(relay.scatter_nd(relay.const(np.ones((3, 19), np.float32)), y, x, mode="add"), updates, rows)
    exact = np.full(19, 1 + 50_000 * float(np.float32(0.1)))
    exact[2] = np.inf
    np.testing.assert_allclose(got[1], exact, rtol=2e-7)
    np.testing.assert_array_equal(got[[0, 2]], 1)


def test_updates_along_an_axis() -> None:
    updates, rows = tenths(5, 3000), np.zeros((5, 3000), np.int64)
    x, y = relay.var("x", shape=updates.shape), relay.var("y", shape=rows.shape, dtype="int64")
    body = relay.scatter_add(relay.const(np.zeros((5, 2), np.float32)), y, x, axis=1)
    np.testing.assert_allclose(run(body, updates, rows)[:, 0], 3000 * float(np.float32(0.1)), rtol=2e-7)


def test_bits_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((64, 5000)).astype(np.float32), rng.standard_normal((48, 5000)).astype(np.float32)]
    x, y = variables(*arrays)
    bodies = [relay.sum(x), relay.sum(x, axis=0), relay.sum(x, axis=1), relay.nn.dense(x, y), relay.cumsum(x, axis=0)]
    executable = tw.compile(module(relay.Tuple(bodies)), cache=False, threads=1)
    feeds = dict(zip("xy", arrays, strict=True))
    first = [np.array(value) for value in executable.run(feeds)]
    for threads in (2, 3):
        executable.set_threads(threads)
        for one, other in zip(first, executable.run(feeds), strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_reference_is_exact() -> None:
    """NumPy adds up in one chain across an axis that is not the last: the yardstick must not."""
    values = tenths(200_000, 2)
    (x,) = variables(values)
    rows = relay.const(np.zeros((1, 200_000), np.int64))
    updates = relay.const(tenths(200_000))
    for body in (
        relay.sum(x, axis=0),
        relay.take(relay.cumsum(x, axis=0), relay.const(199_999), axis=0),
        relay.scatter_nd(relay.const(np.zeros(1, np.float32)), rows, updates, mode="add"),
    ):
        (got,) = interpret(module(body), [values])
        np.testing.assert_allclose(got, 200_000 * float(np.float32(0.1)), rtol=1e-7)
