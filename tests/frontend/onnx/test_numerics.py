"""Operators of one node at the ends of their types, as docs/numerics.md has it: compiled and by reference."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import tilewright as tw

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
erf = np.vectorize(math.erf, otypes=[np.float64])


@pytest.fixture
def both(make_model, run_model) -> Callable[..., list[np.ndarray]]:
    """both("Op", x, y, consts=[…], **attributes): the first output by reference, and compiled."""

    def run(op_type: str, *inputs: np.ndarray, consts: tuple[np.ndarray, ...] = (), **attributes) -> list[np.ndarray]:
        feeds = {f"x{i}": np.asarray(x) for i, x in enumerate(inputs)}
        fixed = {f"c{i}": np.asarray(x) for i, x in enumerate(consts)}
        node = helper.make_node(op_type, [*feeds, *fixed], ["y"], **attributes)
        model = make_model([node], feeds, ["y"], 24, fixed)
        return [run_model(model, feeds)[0], np.asarray(tw.compile(model, threads=1).run(feeds)[0])]

    return run


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, np.expm1(x), x)


ACTIVATIONS = {
    "Softplus": softplus,
    "Mish": lambda x: x * np.tanh(softplus(x)),
    "Elu": elu,
    "Selu": lambda x: 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * np.expm1(x), x),
    "Celu": elu,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "Swish": lambda x: x * sigmoid(x),
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "LeakyRelu": lambda x: np.where(x < 0, 0.01 * x, x),
}


def grid(dtype: str | np.dtype) -> np.ndarray:
    """Numbers of all sizes and both signs, dense around zero; NaN."""
    sizes = np.concatenate([np.logspace(-7, 4, 200), np.linspace(0, 30, 301)])
    return np.concatenate([sizes, -sizes, [np.nan]]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.dtype("float16"), BFLOAT16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name != "Celu"])  # which ONNX has of float32 alone
def test_activations_of_16_bits_round_once(both, name: str, dtype: np.dtype) -> None:
    x = grid(dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        exact = ACTIVATIONS[name](x.astype(np.float64))
    info = ml_dtypes.finfo(dtype)
    ulp = np.maximum(np.abs(exact) * float(info.eps), float(info.smallest_subnormal))
    # Gelu and Swish vanish far below zero, where float32 has fewer positions of them too.
    near = 1e-6 if name in ("Gelu", "Swish", "HardSwish", "HardSigmoid") else 0.0
    for got in both(name, x):
        assert got.dtype == dtype
        wrong = np.abs(got.astype(np.float64) - exact) > 0.51 * ulp + near
        assert not wrong.any(), (x[wrong][:4], got[wrong][:4], exact[wrong][:4])
        assert np.isnan(got[-1])


@pytest.mark.parametrize("name", ["Softplus", "Mish", "Elu", "Selu", "Celu", "Softsign"])
def test_activations_of_float32_keep_their_digits(both, name: str) -> None:
    x = grid("float32")
    x = x[np.abs(x) < 85]  # beyond, some results are denormal
    exact = ACTIVATIONS[name](x.astype(np.float64))
    for got in both(name, x):
        np.testing.assert_allclose(got, exact, rtol=12 * 2.0**-24, atol=2.0**-140)


@pytest.mark.parametrize("name", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceSum", "ReduceProd", "ReduceLogSum"])
@pytest.mark.parametrize("dtype", [np.dtype("float16"), BFLOAT16], ids=["float16", "bfloat16"])
def test_reductions_of_16_bits_do_not_overflow_on_their_way(both, name: str, dtype: np.dtype) -> None:
    x = np.array([[300.0, 300.0, 300.0, 0.001], [1.5, 2.5, 0.25, 3.0], [200.0, 300.0, 1.0, 0.003]]).astype(dtype)
    wide = x.astype(np.float64)
    exact = {
        "ReduceL1": np.abs(wide).sum(1), "ReduceL2": np.sqrt((wide**2).sum(1)), "ReduceSumSquare": (wide**2).sum(1),
        "ReduceSum": wide.sum(1), "ReduceProd": wide.prod(1), "ReduceLogSum": np.log(wide.sum(1)),
    }[name]  # fmt: skip
    with np.errstate(over="ignore"):
        expected = exact.astype(dtype)
    for got in both(name, x, consts=(np.array([1]),), keepdims=0):
        np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_log_sum_exp_of_infinities(both, dtype: str) -> None:
    inf = np.inf
    x = np.array([[-inf, -inf, -inf], [1, inf, 2], [-inf, 1, 2], [1, np.nan, 2], [inf, -inf, 0]], dtype)
    with np.errstate(invalid="ignore"):
        exact = np.logaddexp.reduce(x.astype(np.float64), axis=1)
    for keep in (0, 1):
        for got in both("ReduceLogSumExp", x, consts=(np.array([1]),), keepdims=keep):
            np.testing.assert_allclose(got.reshape(-1), exact, rtol=1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("name", ["ReduceL2", "ReduceLogSum", "ReduceLogSumExp"])
def test_roots_and_logarithms_of_integers_are_cut_off(both, name: str, dtype: str) -> None:
    x = np.array([[3, 4, 12], [1, 0, 0], [70_000, 80_000, 7]], dtype)
    wide = x.astype(np.float64)
    exact = {
        "ReduceL2": np.sqrt((wide**2).sum(1)), "ReduceLogSum": np.log(wide.sum(1)),
        "ReduceLogSumExp": np.logaddexp.reduce(wide, axis=1),
    }[name]  # fmt: skip
    for got in both(name, x, consts=(np.array([1]),), keepdims=0):
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, exact.astype(dtype))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_powers_of_integers_are_exact_where_they_fit(both, dtype: str) -> None:
    x, y = np.meshgrid([0, 1, -1, 2, -2, 3, -3, 7, 10], [0, 1, 2, 3, -1, -2, 5, 7, 13, 18, 30, 39, 62, 63, 64, -7, 999])
    pairs = [(int(a), int(b)) for a, b in zip(x.ravel(), y.ravel())]
    fits = [(a, b) for a, b in pairs if abs(a) < 2 or abs(a) ** abs(b) < 2 ** (8 * np.dtype(dtype).itemsize - 1)]
    exact = [a**b if b >= 0 else 0 if a == 0 else int(float(a) ** b) for a, b in fits]
    base, exponent = (np.array(column, dtype) for column in zip(*fits, strict=True))
    for got in both("Pow", base, exponent):
        assert got.tolist() == exact


@pytest.mark.parametrize("dtype", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)])
def test_division_by_zero_ends_no_process(both, dtype: str) -> None:
    info = np.iinfo(dtype)
    ends = np.array([np.dtype(dtype).type(n) for n in (info.min, info.max, 0, 1, 7, *([-1] if info.min else [3]))])
    x, y = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(ends, ends))
    with np.errstate(all="ignore"):
        remainder = np.mod(x, y)
    for got in both("Mod", x, y):
        np.testing.assert_array_equal(got, remainder)
    for got in both("Div", x, y):
        np.testing.assert_array_equal(got[y == 0], 0)
        np.testing.assert_array_equal(got[(y == 1)], x[y == 1])
        if info.min:
            assert (got[(x == info.min) & (y == -1)] == info.min).all()
    for got in both("Div", x, consts=(np.zeros(1, dtype),)):
        np.testing.assert_array_equal(got, 0)


@pytest.mark.parametrize("name", ["ScatterElements", "ScatterND"])
def test_a_sum_of_bools_is_whether_one_holds(both, name: str) -> None:
    data, updates = np.array([False, True, False, True]), np.array([True, True, False, True])
    positions = np.array([0, 0, 1, 2])
    positions = positions if name == "ScatterElements" else positions[:, None]
    for got in both(name, data, positions, updates, reduction="add"):
        assert got.tolist() == [True, True, True, True]
    for got in both(name, data, positions, updates, reduction="mul"):
        assert got.tolist() == [False, False, False, True]


def test_the_first_of_the_largest_is_the_maximum(both) -> None:
    x = np.array([[1, np.nan, 3, 2], [-np.inf, 5, np.inf, 0]], np.float32)
    for got in both("TopK", x, consts=(np.array([2]),), axis=1):
        np.testing.assert_array_equal(got, [[np.nan, 3], [np.inf, 5]])
    for got in both("ArgMax", x, axis=1, keepdims=0):
        assert got.tolist() == [1, 2]
