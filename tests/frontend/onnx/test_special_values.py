"""Elementwise operators of ONNX at NaN, infinities, zeros of both signs, subnormal numbers and the ends of types.

The oracle is NumPy in its widest float, rounded once. What IEEE 754 defines is exact, and so is its oracle in float64:
rounded to a narrower type once more, sums, products, quotients and roots are what they are when rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model

Array = np.ndarray[Any, Any]

WIDE = np.longdouble
INF, NAN = math.inf, math.nan
DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in ("float64", "float32", "float16", "bfloat16")}
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def values(dtype: np.dtype) -> Array:
    """Special numbers of a float type, those where functions turn, and some of every size; of both signs."""
    info = ml_dtypes.finfo(dtype)
    small, normal, large = (WIDE(float(end)) for end in (info.smallest_subnormal, info.tiny, info.max))
    sizes = [0, small, small * 3, normal / 2, normal, normal * 2, large, large / 2, math.sqrt(large), INF, NAN,
             1e-30, 1e-10, 1e-4, 0.25, 0.5, 0.75, 1, 1 + 2 * float(info.eps), 1.5, 2, 2.5, 3, 3.5, 5, 6, 10, 20, 50, 88,
             89, 104, 709, 710, 745, 1e3, 1e5, 8388609, 1e20]  # fmt: skip
    with np.errstate(all="ignore"):
        made = np.array(sizes, WIDE).astype(dtype)
    return np.concatenate([made, -made])


@np.vectorize
def erf(x: Any) -> Any:
    return WIDE(math.erf(float(x)))


@np.vectorize
def erfc(x: Any) -> Any:
    return WIDE(math.erfc(float(x)))


def sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(np.isnan(x), x, np.where(x >= 0, 1, small) / (1 + small))


def softplus(x: Array) -> Array:
    return np.where(np.isnan(x), x, np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x < 0, alpha * np.expm1(x), x)


#: Operator, with a number where it is there with several attributes: attributes, oracle, largest error in ulp
UNARY: dict[str, tuple[dict[str, Any], Callable[[Array], Array], float]] = {
    "Abs": ({}, np.abs, 0),
    "Neg": ({}, np.negative, 0),
    "Ceil": ({}, np.ceil, 0),
    "Floor": ({}, np.floor, 0),
    "Round": ({}, np.round, 0),
    "Sign": ({}, np.sign, 0),
    "Reciprocal": ({}, lambda x: 1 / x, 0),
    "Sqrt": ({}, np.sqrt, 0),
    "Identity": ({}, lambda x: x, 0),
    "Exp": ({}, np.exp, 2),
    "Log": ({}, np.log, 2),
    "Sin": ({}, np.sin, 2),
    "Cos": ({}, np.cos, 2),
    "Tan": ({}, np.tan, 2),
    "Asin": ({}, np.arcsin, 2),
    "Acos": ({}, np.arccos, 2),
    "Atan": ({}, np.arctan, 2),
    "Sinh": ({}, np.sinh, 2),
    "Cosh": ({}, np.cosh, 2),
    "Tanh": ({}, np.tanh, 2),
    "Asinh": ({}, np.arcsinh, 2),
    "Acosh": ({}, np.arccosh, 2),
    "Atanh": ({}, np.arctanh, 2),
    "Erf": ({}, erf, 2),
    "Sigmoid": ({}, sigmoid, 2.2),
    "Softplus": ({}, softplus, 2),
    "Softsign": ({}, lambda x: x / (1 + np.abs(x)), 2),
    "Mish": ({}, lambda x: x * np.tanh(softplus(x)), 3.6),
    "Swish": ({}, lambda x: x * sigmoid(x), 3.3),
    "Swish 2": ({"alpha": 2.0}, lambda x: x * sigmoid(2 * x), 5),
    "Gelu": ({}, lambda x: x * erfc(-x * math.sqrt(0.5)) / 2, 8),
    "Relu": ({}, lambda x: np.where(x < 0, 0, x), 0),
    "Elu": ({}, elu, 2),
    "Elu 2": ({"alpha": 2.0}, lambda x: elu(x, 2.0), 2),
    "Selu": ({}, lambda x: np.float32(1.05070102214813232421875) * elu(x, 1.67326319217681884765625), 3),
    "HardSigmoid": ({"alpha": 0.25}, lambda x: np.clip(0.25 * x + 0.5, 0, 1), 1),
    "HardSwish": ({}, lambda x: x * np.clip(x * WIDE(np.float32(1 / 6)) + 0.5, 0, 1), 2),
    "LeakyRelu": ({"alpha": 0.125}, lambda x: np.where(x < 0, x * 0.125, x), 0.51),
    "ThresholdedRelu": ({"alpha": 1.0}, lambda x: np.where(x > 1, x, 0), 0),
    "Shrink": ({"lambd": 0.5, "bias": 0.25}, lambda x: np.where(abs(x) > 0.5, x - np.copysign(0.25, x), 0), 0.51),
    "IsNaN": ({}, np.isnan, 0),
    "IsInf": ({}, np.isinf, 0),
    "IsInf above": ({"detect_negative": 0}, lambda x: x == INF, 0),
    "IsInf below": ({"detect_positive": 0}, lambda x: x == -INF, 0),
}  # fmt: skip

#: The same of two numbers.
BINARY: dict[str, tuple[dict[str, Any], Callable[[Array, Array], Array], float]] = {
    "Add": ({}, np.add, 0),
    "Sub": ({}, np.subtract, 0),
    "Mul": ({}, np.multiply, 0),
    "Div": ({}, np.divide, 0),
    "Mod": ({"fmod": 1}, np.fmod, 0),
    "Pow": ({}, np.power, 2),
    "Max": ({}, np.maximum, 0),
    "Min": ({}, np.minimum, 0),
    "PRelu": ({}, lambda x, slope: np.where(x < 0, x * slope, x), 0.5),
    "Equal": ({}, np.equal, 0),
    "Greater": ({}, np.greater, 0),
    "GreaterOrEqual": ({}, np.greater_equal, 0),
    "Less": ({}, np.less, 0),
    "LessOrEqual": ({}, np.less_equal, 0),
}

#: Of zeros with unlike signs either is the larger.
ANY_ZERO = ("Max", "Min")

_TRUTHS = ("Is", "Equal", "Greater", "Less")


def run(table: dict[str, Any], feeds: dict[str, Array]) -> dict[str, Array]:
    """Results of one model of all operators of a table."""
    kind = helper.np_dtype_to_tensor_dtype(next(iter(feeds.values())).dtype)
    shape = np.broadcast_shapes(*(value.shape for value in feeds.values()))
    names = {f"y{index}": name for index, name in enumerate(table)}
    nodes = [helper.make_node(name.split()[0], list(feeds), [y], **table[name][0]) for y, name in names.items()]
    of = {y: (TensorProto.BOOL if name.startswith(_TRUTHS) else kind, shape) for y, name in names.items()}
    model = make_model(nodes, {x: (kind, value.shape) for x, value in feeds.items()}, of, opset=24)
    found = tw.compile(model, threads=1).run(feeds)
    return {name: np.asarray(one) for name, one in zip(table, found)}


@functools.cache
def functions_of_one(dtype: str) -> dict[str, Array]:
    return run(UNARY, {"x": values(DTYPES[dtype])})


@functools.cache
def functions_of_two(dtype: str) -> dict[str, Array]:
    x = values(DTYPES[dtype])
    return run(BINARY, {"x": x[:, None], "y": x[None, :]})


def compare(got: Array, exact: Array, x: Any, ulps: float, signs: bool = True) -> None:
    """`got` is `exact`, rounded to the type, within `ulps`; NaN, infinities and zeros with their signs alike."""
    if got.dtype == bool:
        np.testing.assert_array_equal(got, exact.astype(bool))
        return
    with np.errstate(all="ignore"):
        wanted = exact.astype(got.dtype)
        info = ml_dtypes.finfo(got.dtype)
        wide, right = got.astype(WIDE), wanted.astype(WIDE)
        step = np.maximum(np.abs(right) * WIDE(float(info.eps)), WIDE(float(info.smallest_subnormal)))
        near = np.abs(wide - exact.astype(WIDE)) <= max(ulps, 0.5) * step if ulps else wide == right
        fine = np.where(
            np.isfinite(right) & np.isfinite(wide), near, (wide == right) | (np.isnan(wide) & np.isnan(right))
        )
        if signs:
            fine &= (right != 0) | (wide != 0) | (np.signbit(wide) == np.signbit(right))
    at = [np.broadcast_to(one, got.shape)[~fine] for one in (x if isinstance(x, tuple) else (x,))]
    assert fine.all(), [*zip(*(one[:8].tolist() for one in (*at, got[~fine], wanted[~fine])))]


@pytest.mark.sample(80)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str, dtype: str) -> None:
    x, (_, oracle, ulps) = values(DTYPES[dtype]), UNARY[name]
    with np.errstate(all="ignore"):
        exact = np.asarray(oracle(x.astype(WIDE if ulps else float)))
    compare(functions_of_one(dtype)[name], exact, x, ulps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name: str, dtype: str) -> None:
    x, (_, oracle, ulps) = values(DTYPES[dtype]), BINARY[name]
    pair = x[:, None], x[None, :]
    with np.errstate(all="ignore"):
        exact = np.asarray(oracle(*(one.astype(WIDE if ulps else float) for one in pair)))
    compare(functions_of_two(dtype)[name], exact, pair, ulps, signs=name not in ANY_ZERO)


# --------------------------------------------------------------------------------------------------------------- rows
def rows(dtype: np.dtype) -> Array:
    """Rows with NaN, infinities and zeros of both signs in all places, equal ones, large and subnormal ones."""
    info = ml_dtypes.finfo(dtype)
    plain = [1, -2, 0.5, 3, -0.25, 2, -1]
    marks: list[Any] = [(NAN,), (INF,), (-INF,), (INF, -INF), (NAN, INF), (-INF, NAN), (0.0, -0.0), (3, 3)]
    made = [plain, [0.0] * 7, [-0.0] * 7, [INF] * 7, [-INF] * 7, [NAN] * 7, [2] * 7, [float(info.max), *plain[1:]],
            [float(info.smallest_subnormal) * n for n in (1, 2, -3, 4, 5, -6, 7)], [-INF] * 6 + [1]]  # fmt: skip
    for mark in marks:
        for first, last in ((0, 6), (2, 3), (6, 1)):
            row = list(plain)
            row[last], row[first] = mark[-1], mark[0]
            made.append(row)
    return np.array(made, WIDE).astype(dtype)


def log_sum_exp(x: Array) -> Array:
    top = np.max(x, -1)
    shifted = x - np.where(np.isfinite(top), top, 0)[:, None]
    return np.where(np.isfinite(top), top + np.log(np.sum(np.exp(shifted), -1)), top)


def log_softmax(x: Array) -> Array:
    shifted = x - np.max(x, -1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), -1, keepdims=True))


def last_largest(x: Array) -> Array:
    """The position of the last of the largest, NaN the largest of all."""
    return x.shape[1] - 1 - np.argmax(x[:, ::-1], -1)


#: Operators over rows: attributes, oracle, largest error in ulp of the sum of magnitudes or of the result
OVER_ROWS: dict[str, tuple[dict[str, Any], Callable[[Array], Array], float]] = {
    "ReduceMax": ({}, lambda x: np.max(x, -1), 0),
    "ReduceMin": ({}, lambda x: np.min(x, -1), 0),
    "ReduceSum": ({}, lambda x: np.sum(x, -1), 2),
    "ReduceMean": ({}, lambda x: np.mean(x, -1), 2),
    "ReduceProd": ({}, lambda x: np.prod(x, -1), 3),
    "ReduceL1": ({}, lambda x: np.sum(abs(x), -1), 2),
    "ReduceLogSumExp": ({}, log_sum_exp, 3),
    "ArgMax": ({"axis": 1}, lambda x: np.argmax(x, -1), 0),
    "ArgMin": ({"axis": 1}, lambda x: np.argmin(x, -1), 0),
    "ArgMax last": ({"axis": 1, "select_last_index": 1}, last_largest, 0),
    "CumSum": ({}, lambda x: np.cumsum(x, -1), 2),
    "Softmax": ({}, lambda x: np.exp(log_softmax(x)), 8),
    "LogSoftmax": ({}, log_softmax, 3),
    "TopK": ({}, lambda x: np.sort(x, -1)[:, ::-1], 0),
    "TopK smallest": ({"largest": 0}, lambda x: np.sort(x, -1), 0),
}  # fmt: skip

#: Those that keep the axis.
WHOLE = ("CumSum", "Softmax", "LogSoftmax", "TopK", "TopK smallest")


@functools.cache
def over_rows(dtype: str) -> dict[str, Array]:
    """Results of one model of all operators of `OVER_ROWS` on `rows`."""
    x = rows(DTYPES[dtype])
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    constants = {"axis": np.array([1], "int64"), "one": np.array(1, "int64"), "seven": np.array([7], "int64")}
    nodes, of = [], {}
    for index, name in enumerate(OVER_ROWS):
        operator, attributes, y = name.split()[0], dict(OVER_ROWS[name][0]), f"y{index}"
        more = {"CumSum": ["one"], "TopK": ["seven"]}.get(operator, ["axis"] if operator.startswith("Reduce") else [])
        if name not in WHOLE:
            attributes["keepdims"] = 0
        nodes.append(
            helper.make_node(operator, ["x", *more], [y, f"at{index}"][: 1 + (operator == "TopK")], **attributes)
        )
        of[y] = (TensorProto.INT64 if operator.startswith("Arg") else kind, x.shape if name in WHOLE else x.shape[:1])
    model = make_model(nodes, {"x": (kind, x.shape)}, of, constants, opset=24)
    return dict(zip(OVER_ROWS, map(np.asarray, tw.compile(model, threads=1).run({"x": x}))))


@pytest.mark.sample(30)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OVER_ROWS)
def test_functions_of_rows(name: str, dtype: str) -> None:
    x, (_, oracle, ulps) = rows(DTYPES[dtype]), OVER_ROWS[name]
    got = over_rows(dtype)[name]
    with np.errstate(all="ignore"):
        exact = np.asarray(oracle(x.astype(WIDE)))
    if got.dtype == np.int64:
        np.testing.assert_array_equal(got, exact)
        return
    compare(got, exact, x if name in WHOLE else np.arange(len(x)), ulps, signs=False)


# ---------------------------------------------------------------------------------------------------------- integers
def ends(dtype: str) -> Array:
    """The ends of an integer type, what lies around zero, and some numbers between."""
    info = np.iinfo(dtype)
    sizes = [
        0,
        1,
        2,
        3,
        7,
        info.max // 2,
        info.max // 2 + 1,
        info.max - 1,
        info.max,
        info.min,
        info.min + 1,
        -1,
        -2,
        -7,
    ]
    return np.array([size for size in sizes if info.min <= size <= info.max], dtype)


def quotient(a: int, b: int) -> int:
    """Rounded towards zero; 0 where the divisor is."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


#: Operators on integers: attributes, oracle on Python's integers, whose low bits are the result
OF_INTEGERS: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
    "Add": ({}, lambda a, b: a + b),
    "Sub": ({}, lambda a, b: a - b),
    "Mul": ({}, lambda a, b: a * b),
    "Div": ({}, quotient),
    "Mod": ({}, lambda a, b: a % b if b else 0),
    "Mod as in C": ({"fmod": 1}, lambda a, b: a - quotient(a, b) * b if b else 0),
    "Max": ({}, max),
    "Min": ({}, min),
    "BitwiseAnd": ({}, lambda a, b: a & b),
    "BitwiseOr": ({}, lambda a, b: a | b),
    "BitwiseXor": ({}, lambda a, b: a ^ b),
    "BitShift left": ({"direction": "LEFT"}, lambda a, b: a << min(b, 64)),
    "BitShift right": ({"direction": "RIGHT"}, lambda a, b: a >> min(b, 64)),
    "Equal": ({}, lambda a, b: a == b),
    "Greater": ({}, lambda a, b: a > b),
    "GreaterOrEqual": ({}, lambda a, b: a >= b),
    "Less": ({}, lambda a, b: a < b),
    "LessOrEqual": ({}, lambda a, b: a <= b),
}

OF_ONE_INTEGER: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
    "Abs": ({}, abs),
    "Neg": ({}, lambda a: -a),
    "Sign": ({}, lambda a: (a > 0) - (a < 0)),
    "BitwiseNot": ({}, lambda a: ~a),
    "Identity": ({}, lambda a: a),
}


def taken(table: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The operators of a table that ONNX has for an integer type: shifts without a sign, signs where there are some."""
    other = ("Neg",) if dtype.startswith("u") else ("BitShift",)
    return {name: entry for name, entry in table.items() if not name.startswith(other)}


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_agree_at_their_ends(dtype: str) -> None:
    x = ends(dtype)
    for table, feeds in ((OF_INTEGERS, {"x": x[:, None], "y": x[None, :]}), (OF_ONE_INTEGER, {"x": x})):
        table = taken(table, dtype)
        for name, got in run(table, feeds).items():
            exact = np.frompyfunc(table[name][1], len(feeds), 1)(*(value.astype(object) for value in feeds.values()))
            low = [int(one) & (2 ** (8 * got.itemsize) - 1) for one in exact.ravel()]
            wanted = exact.astype(bool) if got.dtype == bool else np.array(low, f"u{got.itemsize}").view(got.dtype)
            np.testing.assert_array_equal(got, wanted.reshape(got.shape), err_msg=name)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers_that_fit(dtype: str) -> None:
    x, info = ends(dtype), np.iinfo(dtype)
    pairs = [(int(a), int(b)) for a in x for b in x if b >= 0 and (abs(int(a)) < 2 or b < 64)]
    exact = [a ** (b if abs(a) > 1 else b % 2 + 2 * (b > 1)) for a, b in pairs]
    kept = [(*pair, power) for pair, power in zip(pairs, exact) if info.min <= power <= info.max]
    a, b, wanted = (np.array(column, dtype) for column in zip(*kept))
    np.testing.assert_array_equal(run({"Pow": ({}, None)}, {"x": a, "y": b})["Pow"], wanted)


# ------------------------------------------------------------------------------------------------------------- casts
@functools.cache
def casts(source: str) -> dict[str, Array]:
    """`values`, or the ends of an integer type, in each float type."""
    x = ends(source) if source in INTEGERS else values(DTYPES[source])
    kinds = {name: helper.np_dtype_to_tensor_dtype(dtype) for name, dtype in DTYPES.items()}
    nodes = [helper.make_node("Cast", ["x"], [name], to=kind) for name, kind in kinds.items()]
    given = {"x": (helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)}
    model = make_model(nodes, given, {name: (kind, x.shape) for name, kind in kinds.items()}, opset=24)
    return {"x": x, **dict(zip(kinds, map(np.asarray, tw.compile(model, threads=1).run({"x": x}))))}


@pytest.mark.sample(24)
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", [*DTYPES, *INTEGERS])
def test_casts_to_floats(source: str, target: str) -> None:
    found = casts(source)
    compare(found[target], found["x"].astype(WIDE), found["x"], 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_limits_and_choices(dtype: str) -> None:
    x = values(DTYPES[dtype])
    for low, high in ((-1.0, 1.0), (0.0, INF), (-INF, 0.0), (2.0, -2.0)):
        limits = {"low": np.array(low, x.dtype), "high": np.array(high, x.dtype)}
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        nodes = [
            helper.make_node("Clip", ["x", "low", "high"], ["y"]),
            helper.make_node("Where", ["c", "x", "low"], ["z"]),
        ]
        given = {"x": (kind, x.shape), "c": (TensorProto.BOOL, x.shape), **dict.fromkeys(limits, (kind, ()))}
        model = make_model(nodes, given, {"y": (kind, x.shape), "z": (kind, x.shape)}, opset=24)
        chosen = np.arange(len(x)) % 3 > 0
        clipped, picked = map(np.asarray, tw.compile(model, threads=1).run({"x": x, "c": chosen, **limits}))
        wide = x.astype(float)
        compare(clipped, np.minimum(np.maximum(wide, low), high), x, 0, signs=False)
        compare(picked, np.where(chosen, wide, low), x, 0)
