"""Element-wise operators against NumPy, over dtypes and broadcast shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import Var, const
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of

FLOATS = ("float32", "float64", "float16")
INTS = ("int32", "int64", "uint8", "int8")


def draw(shape, dtype="float32", seed=0, low=-4, high=4):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if np.dtype(dtype).kind == "u":
        low = max(low, 0)
    return (
        rng.uniform(low, high, shape) if np.dtype(dtype).kind == "f" else rng.integers(low, high + 1, shape)
    ).astype(dtype)


UNARY = {
    "exp": np.exp,
    "log": lambda x: np.log(x),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", FLOATS)
def test_unary_functions_of_floats_agree_with_numpy(check, name, dtype):
    positive = name in ("log", "sqrt", "rsqrt")
    x = draw((3, 5), dtype, low=0.1 if positive else -1.4, high=4 if positive else 1.4)
    tolerance = 4e-3 if dtype == "float16" else 1e-6
    check(getattr(op, name)(const(x)), UNARY[name](x.astype(np.float64)), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64", "int8"])
def test_signs_and_magnitudes_agree_with_numpy(check, dtype):
    x = draw((4, 4), dtype)
    check(op.abs(const(x)), np.abs(x))
    check(op.negative(const(x)), -x)
    check(op.sign(const(x)), np.sign(x))
    check(op.copy(const(x)), x)


def test_nan_and_infinities_are_classified(check):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0], np.float32)
    check(op.isnan(const(x)), np.isnan(x))
    check(op.isinf(const(x)), np.isinf(x))
    check(op.isfinite(const(x)), np.isfinite(x))
    assert check(op.sigmoid(const(x[1:]))).tolist()[:3] == [1.0, 0.0, 0.5]


def test_clip_and_cast(check):
    x = draw((20,), high=9, low=-9)
    check(op.clip(const(x), -1.5, 2.5), np.clip(x, -1.5, 2.5))
    check(op.clip(const(x.astype("int32")), -2.0, float("inf")), np.clip(x.astype("int32"), -2, None))
    check(op.clip(const(x.astype("uint8")), -5, 3), np.minimum(x.astype("uint8"), 3))
    for dtype in ("int32", "int64", "float64", "bool", "int8"):
        check(op.cast(const(x), dtype), x.astype(dtype))
    check(op.cast(const(x > 0), "float32"), (x > 0).astype("float32"))


ARITHMETIC = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
}
SHAPES = [((3, 4), (3, 4)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((), (2, 2)), ((1, 1), (5,))]


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8"])
def test_arithmetic_agrees_with_numpy_over_broadcasts(check, name, dtype):
    for seed, (left, right) in enumerate(SHAPES):
        a, b = draw(left, dtype, seed), draw(right, dtype, seed + 50)
        check(getattr(op, name)(const(a), const(b)), ARITHMETIC[name](a, b))


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_truncates_and_floors(check, dtype):
    a, b = draw((40,), dtype, 1, -9, 9), draw((40,), dtype, 2, 1, 5)
    b = np.where(np.arange(40) % 2, b, b if dtype == "uint8" else -b).astype(dtype)
    wide = a.astype(np.int64), b.astype(np.int64)
    check(op.divide(const(a), const(b)), np.trunc(wide[0] / wide[1]).astype(dtype))
    check(op.mod(const(a), const(b)), np.fmod(*wide).astype(dtype))
    check(op.floor_divide(const(a), const(b)), (wide[0] // wide[1]).astype(dtype))
    check(op.floor_mod(const(a), const(b)), (wide[0] % wide[1]).astype(dtype))


def test_division_of_floats_agrees_with_numpy(check):
    a, b = draw((30,), seed=1), draw((30,), seed=2)
    check(op.divide(const(a), const(b)), a / b)
    check(op.mod(const(a), const(b)), np.fmod(a, b), atol=1e-5)
    check(op.floor_mod(const(a), const(b)), np.mod(a, b), atol=1e-5)
    check(op.power(const(np.abs(a)), const(b)), np.power(np.abs(a), b))
    check(op.power(const(np.arange(5)), const(np.full(5, 2))), np.arange(5) ** 2)


def test_logic_and_bits(check):
    a, b = draw((4, 5), "bool", 1), draw((5,), "bool", 2)
    check(op.logical_and(const(a), const(b)), a & b)
    check(op.logical_or(const(a), const(b)), a | b)
    check(op.logical_xor(const(a), const(b)), a ^ b)
    check(op.logical_not(const(a)), ~a)
    check(op.equal(const(a), const(b)), a == b)
    x, y = draw((9,), "int32", 3, 0, 99), draw((9,), "int32", 4, 0, 6)
    check(op.bitwise_and(const(x), const(y)), x & y)
    check(op.bitwise_or(const(x), const(y)), x | y)
    check(op.bitwise_xor(const(x), const(y)), x ^ y)
    check(op.bitwise_not(const(x)), ~x)
    check(op.left_shift(const(x), const(y)), x << y)
    check(op.right_shift(const(x), const(y)), x >> y)


def test_where_broadcasts_its_three_operands(check):
    condition, x, y = draw((3, 1), "bool"), draw((4,)), draw((2, 1, 1))
    check(op.where(const(condition), const(x), const(y)), np.where(condition, x, y))
    check(op.where(const(condition), 0.5, const(x)), np.where(condition, np.float32(0.5), x))


def test_constructors_agree_with_numpy(check):
    check(op.full(2.5, (2, 3)), np.full((2, 3), 2.5))
    check(op.full(const(np.int64(7)), (2,), "int32"), np.full(2, 7, "int32"))
    check(op.zeros((2, 2), "int64"), np.zeros((2, 2)))
    check(op.ones((3,)), np.ones(3))
    check(op.zeros_like(const(np.ones((2, 1), "int8"))), np.zeros((2, 1)))
    check(op.ones_like(const(np.ones((2, 1), "float64"))), np.ones((2, 1)))
    check(op.arange(5), np.arange(5, dtype="float32"))
    check(op.arange(3, -7, -2, "int64"), np.arange(3, -7, -2))
    check(op.arange(0.5, 3, 0.25), np.arange(0.5, 3, 0.25, "float32"))


def test_python_numbers_take_the_dtype_of_the_other_operand():
    x = Var("x", TensorType((2,), "float64"))
    assert type_of(op.add(x, 1)) == type_of(op.multiply(2.0, x)) == TensorType((2,), "float64")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, i, b: op.add(x, i), "dtypes float32, int32 differ"),
        (lambda x, i, b: op.add(b, b), "numeric tensors, not bool"),
        (lambda x, i, b: op.add(x, op.zeros((3,))), "do not broadcast"),
        (lambda x, i, b: op.exp(i), "floating point tensor, not int32"),
        (lambda x, i, b: op.logical_and(x, x), "bool tensors, not float32"),
        (lambda x, i, b: op.bitwise_and(x, x), "integer tensors, not float32"),
        (lambda x, i, b: op.where(x, x, x), "condition must be bool"),
    ],
)
def test_type_errors_say_what_does_not_fit(build, message):
    x, i, b = (Var(n, TensorType((2, 2), d)) for n, d in (("x", "float32"), ("i", "int32"), ("b", "bool")))
    with pytest.raises(TypeMismatchError, match=message):
        type_of(build(x, i, b))
