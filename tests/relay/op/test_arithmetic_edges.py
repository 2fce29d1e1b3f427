"""Element-wise operators and reductions at the ends of every type, compiled and by reference, against exact results."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.relay import op
from tilewright.relay.interpreter.interpreter import interpret

INTS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def results(function: Callable[..., relay.Expr], *inputs: np.ndarray) -> list[np.ndarray]:
    """The results of `function` on `inputs`: folded by reference, and compiled."""
    variables = [relay.var(f"x{i}", shape=x.shape, dtype=str(x.dtype)) for i, x in enumerate(inputs)]
    module = relay.IRModule.from_expr(relay.Function(variables, function(*variables)))
    feeds = {f"x{i}": x for i, x in enumerate(inputs)}
    return [np.asarray(interpret(module, feeds)[0]), np.asarray(tw.compile(module, threads=1)(*inputs))]


def ends(dtype: str) -> np.ndarray:
    """The numbers at the ends of an integer type and around zero: 33 of them, for vectors and a rest."""
    info = np.iinfo(dtype)
    chosen = [info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 3, 7, info.max // 2, info.max // 2 + 1]
    return np.array([np.dtype(dtype).type(n) for n in chosen * 3])


def wrapped(values: list[int], dtype: str) -> np.ndarray:
    """Python's integers modulo the size of `dtype`."""
    kind = np.dtype(dtype)
    return np.array([v % 2 ** (8 * kind.itemsize) for v in values], f"u{kind.itemsize}").view(kind)


@pytest.mark.parametrize("dtype", INTS)
def test_magnitude_and_sign_of_integers(dtype: str) -> None:
    x = ends(dtype)
    for got in results(op.abs, x):
        np.testing.assert_array_equal(got, wrapped([abs(v) for v in x.tolist()], dtype))
    for got in results(op.sign, x):
        np.testing.assert_array_equal(got, np.sign(x))
    for got in results(lambda v: op.sum(op.abs(v), axis=0), x):
        np.testing.assert_array_equal(got, wrapped([sum(abs(v) for v in x.tolist())], dtype)[0])


@pytest.mark.parametrize("dtype", INTS)
def test_mean_of_integers_is_their_sum_divided_towards_zero(dtype: str) -> None:
    x = np.stack([ends(dtype), np.roll(ends(dtype), 5)])
    wide = dtype if np.dtype(dtype).itemsize == 8 else "int64"
    total = [int(v) for v in wrapped([sum(row.tolist()) for row in x], wide)]
    exact = [abs(v) // x.shape[1] * (1 if v >= 0 else -1) for v in total]
    for got in results(lambda v: op.mean(v, axis=1), x):
        assert got.tolist() == exact


@pytest.mark.parametrize("dtype", INTS)
def test_division_never_faults(dtype: str) -> None:
    x, y = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(ends(dtype), ends(dtype)))
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    down = [a // b if b else 0 for a, b in pairs]
    short = [q + 1 if b and q * b != a and (a < 0) != (b < 0) else q for (a, b), q in zip(pairs, down, strict=True)]
    for function, quotients in ((op.floor_divide, down), (op.divide, short)):
        for got in results(function, x, y):
            np.testing.assert_array_equal(got, wrapped(quotients, dtype))
    for function, quotients in ((op.floor_mod, down), (op.mod, short)):
        remainders = [a - q * b if b else 0 for (a, b), q in zip(pairs, quotients, strict=True)]
        for got in results(function, x, y):
            np.testing.assert_array_equal(got, wrapped(remainders, dtype))


def numbers(dtype: str, size: int = 120) -> np.ndarray:
    """Random numbers with NaN, infinities and both zeros in all positions of a vector."""
    x = np.random.default_rng(5).standard_normal(size)
    for step, value in ((7, np.nan), (11, np.inf), (13, -np.inf), (17, 0.0), (19, -0.0)):
        x[::step] = value
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "function", "exact"),
    [
        ("relu", op.nn.relu, lambda x: np.maximum(x, 0)),
        ("clip", lambda x: op.clip(x, -0.5, 1.0), lambda x: np.clip(x, -0.5, 1.0)),
        ("leaky_relu", lambda x: op.nn.leaky_relu(x, 0.25), lambda x: np.where(x > 0, x, x * 0.25)),
        ("max with a constant", lambda x: op.maximum(relay.const(0.5, x.type_annotation.dtype), x),
         lambda x: np.maximum(0.5, x)),
        ("abs", op.abs, np.abs),
        ("sign", op.sign, np.sign),
    ],
)  # fmt: skip
def test_nan_passes_through(dtype: str, name: str, function: Callable[..., relay.Expr], exact: Callable) -> None:
    x = numbers(dtype)
    with np.errstate(invalid="ignore"):
        expected = exact(x.astype("float64")).astype(x.dtype).astype("float64")
    for got in results(function, x):
        np.testing.assert_array_equal(got.astype("float64"), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_are_nan_where_one_is(dtype: str) -> None:
    x, y = numbers(dtype), np.roll(numbers(dtype), 3)
    wide = [v.astype("float64") for v in (x, y)]
    for function, exact in ((op.maximum, np.maximum), (op.minimum, np.minimum)):
        for got in results(function, x, y):
            np.testing.assert_array_equal(got.astype("float64"), exact(*wide))


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_are_nan_where_an_element_is(dtype: str, axis: int) -> None:
    """A NaN in each position of a row, and rows without."""
    x = np.random.default_rng(6).standard_normal((37, 40)).astype(numbers(dtype).dtype)
    x[np.arange(35), np.arange(35)] = np.nan
    wide = x.astype("float64")
    for function, exact in ((op.max, np.max), (op.min, np.min)):
        for got in results(lambda v, f=function: f(v, axis=axis), x):
            np.testing.assert_array_equal(got.astype("float64"), exact(wide, axis=axis))
    for function, exact in ((op.argmax, np.argmax), (op.argmin, np.argmin)):
        for got in results(lambda v, f=function: f(v, axis=axis), x):
            np.testing.assert_array_equal(got, exact(wide, axis=axis))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_max_pooling_is_nan_where_a_tap_is(layout: str) -> None:
    x = np.random.default_rng(8).standard_normal((1, 16, 15, 15)).astype("float32")
    x[0, ::3, 7, 4], x[0, 1, 0, 0], x[0, 2, 14, 14] = np.nan, np.nan, np.nan
    windows = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    exact = np.lib.stride_tricks.sliding_window_view(windows, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max(axis=(4, 5))
    order = (0, 1, 2, 3) if layout == "NCHW" else (0, 2, 3, 1)
    pool = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "layout": layout}
    for got in results(lambda v: op.nn.max_pool2d(v, **pool), np.ascontiguousarray(x.transpose(order))):
        np.testing.assert_array_equal(got, exact.transpose(order))
