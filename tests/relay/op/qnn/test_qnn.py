"""Quantized Relay operators against the arithmetic written out in NumPy, interpreted and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TypeMismatchError
from tilewright.relay import Function, op, var
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op import qnn
from tilewright.relay.op.qnn.arithmetic import rounded_each
from tilewright.relay.op.qnn.quantize import annotation_simulated_quantize

RNG = np.random.default_rng(0)


def check(body: Expr, params: list[Any], values: list[np.ndarray], expected: np.ndarray, atol: float = 0.0) -> None:
    """The interpreter and the compiled function both give `expected`."""
    module = infer_type(IRModule.from_expr(Function(params, body)))
    for got in (interpret(module, values)[0], tw.compile(module, cache=False)(*values)):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=0, atol=atol)


def parameter(value: np.ndarray, name: str = "x") -> Any:
    return var(name, shape=value.shape, dtype=str(value.dtype))


def quantized(real: np.ndarray, scale: Any, zero: Any, dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.clip(np.rint(real / np.float32(scale)) + zero, limits.min, limits.max).astype(dtype)


INT8 = RNG.integers(-128, 128, (2, 6)).astype(np.int8)
REAL = (4 * RNG.standard_normal((2, 6))).astype(np.float32)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_quantization_rounds_and_saturates(dtype: str) -> None:
    x = parameter(REAL)
    expected = quantized(REAL, 0.05, 3, dtype)
    check(qnn.quantize(x, 0.05, 3, out_dtype=dtype), [x], [REAL], expected)


def test_quantize_along_an_axis() -> None:
    scales, x = np.linspace(0.02, 0.1, 6).astype(np.float32), parameter(REAL)
    expected = quantized(REAL, scales, np.arange(6), "int8")
    check(qnn.quantize(x, scales, np.arange(6), axis=1), [x], [REAL], expected)


def test_dequantization_is_exact() -> None:
    x = parameter(INT8)
    check(qnn.dequantize(x, 0.25, -3), [x], [INT8], ((INT8.astype(np.int32) + 3) * 0.25).astype(np.float32))


@pytest.mark.parametrize(
    ("rounding", "function"),
    [
        ("HALF_EVEN", np.rint),
        ("UPWARD", lambda v: np.floor(v + 0.5)),
        ("TONEAREST", lambda v: np.sign(v) * np.floor(np.abs(v) + 0.5)),
    ],
)
def test_requantization_rounds_as_asked(rounding: str, function: Any) -> None:
    data = RNG.integers(-2000, 2000, (3, 7)).astype(np.int32)
    x = parameter(data)
    expected = np.clip(function((data - 2) * 0.125) + 5, -128, 127).astype(np.int8)
    check(qnn.requantize(x, 0.5, 2, 4.0, 5, rounding=rounding), [x], [data], expected)


def test_convolution_and_product_sum_in_int32() -> None:
    data = RNG.integers(-128, 128, (1, 3, 6, 6)).astype(np.int8)
    weight = RNG.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8)
    x, w = parameter(data), parameter(weight, "w")
    padded = np.pad(data.astype(np.int64) - 3, ((0, 0), (0, 0), (1, 1), (1, 1)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = np.einsum("nchwij,ocij->nohw", patches, weight.astype(np.int64) + 2).astype(np.int32)
    body = qnn.conv2d(x, w, 3, -2, 0.1, 0.2, padding=(1, 1, 1, 1), kernel_size=(3, 3), channels=4)
    check(body, [x, w], [data, weight], expected)
    rows, columns = INT8, RNG.integers(-128, 128, (5, 6)).astype(np.int8)
    a, b = parameter(rows, "a"), parameter(columns, "b")
    product = ((rows.astype(np.int64) - 1) @ (columns.astype(np.int64) - 4).T).astype(np.int32)
    check(qnn.dense(a, b, 1, 4, 0.1, 0.1, units=5), [a, b], [rows, columns], product)


@pytest.mark.parametrize(
    ("build", "function"), [(qnn.add, np.add), (qnn.subtract, np.subtract), (qnn.mul, np.multiply)]
)
def test_arithmetic_agrees_with_real_numbers_within_a_unit(build: Any, function: Any) -> None:
    other = RNG.integers(-128, 128, (2, 6)).astype(np.int8)
    a, b = parameter(INT8, "a"), parameter(other, "b")
    left, right = (INT8.astype(np.float32) - 1) * np.float32(0.1), (other.astype(np.float32) + 2) * np.float32(0.2)
    expected = quantized(function(left, right), 0.5, 4, "int8")
    check(build(a, b, 0.1, 1, 0.2, -2, 0.5, 4), [a, b], [INT8, other], expected, atol=1)


def test_concatenate_brings_all_to_one_scale() -> None:
    other = RNG.integers(-128, 128, (1, 6)).astype(np.int8)
    a, b = parameter(INT8, "a"), parameter(other, "b")
    expected = np.concatenate(
        [quantized(INT8 * np.float32(0.5), 1.0, 2, "int8"), quantized(other * 1.0, 1.0, 2, "int8")]
    )
    check(qnn.concatenate([a, b], [0.5, 1.0], [0, 0], 1.0, 2, axis=0), [a, b], [INT8, other], expected)


@pytest.mark.parametrize(
    ("build", "function"), [(qnn.add, np.add), (qnn.subtract, np.subtract), (qnn.mul, np.multiply)]
)
def test_arithmetic_rounded_step_by_step(build: Any, function: Any) -> None:
    """With a rounding, operands of a sum are brought to the output's scale one by one; products once."""
    lhs, rhs = np.meshgrid(np.arange(0, 256, 5, dtype="uint8"), np.arange(0, 256, 7, dtype="uint8"))
    left, right = (lhs.astype("float64") - 127) * 0.25, (rhs.astype("float64") - 85) * 0.5
    if function is not np.multiply:
        left, right = np.floor(left + 0.5), np.floor(right + 0.5)
    want = np.clip(np.floor(function(left, right) + 0.5) + 128, 0, 255).astype("uint8")
    x, y = parameter(lhs, "x"), parameter(rhs, "y")
    check(rounded_each(build(x, y, 0.25, 127, 0.5, 85, 1.0, 128), "UPWARD"), [x, y], [lhs, rhs], want)


def test_concatenate_rounded_step_by_step() -> None:
    values = np.arange(-8, 8, dtype="int8")
    x, y = parameter(values, "x"), parameter(values, "y")
    parts = [np.floor(values / 2 + 0.5) + 3, np.floor((values.astype(float) - 1) / 4 + 0.5) + 3]
    joined = rounded_each(qnn.concatenate([x, y], [1.0, 0.5], [0, 1], 2.0, 3), "UPWARD")
    check(joined, [x, y], [values, values], np.concatenate(parts).astype("int8"))


def test_simulated_quantization_stays_real() -> None:
    x = parameter(REAL)
    rounded = np.clip(np.rint(REAL / np.float32(0.05)) + 3, -128, 127).astype(np.float32)
    check(qnn.simulated_quantize(x, 0.05, 3, out_dtype="int8"), [x], [REAL], rounded)
    observed = np.clip(np.rint(REAL / np.float32(0.5)), -3, 3).astype(np.float32) * np.float32(0.5)
    check(annotation_simulated_quantize(x, 0.5, -3.0, 3.0), [x], [REAL], observed)


def test_scales_that_do_not_fit_are_refused() -> None:
    x = parameter(REAL)
    with pytest.raises(TypeMismatchError, match=r"shape \(4,\) does not fit axis 1"):
        type_of(qnn.quantize(x, np.ones(4, np.float32), 0, axis=1))


def test_a_quantized_graph_runs_end_to_end() -> None:
    x = parameter(REAL)
    q = qnn.quantize(x, 0.1, 0, axis=-1)
    body = qnn.dequantize(op.nn.relu(op.cast(q, dtype="int32")), 0.1, 0)
    expected = (np.maximum(quantized(REAL, 0.1, 0, "int8"), 0).astype(np.float32) * np.float32(0.1)).astype(np.float32)
    check(body, [x], [REAL], expected, atol=1e-6)
