"""Element-wise operators of ONNX on the host, for tensors whose number of dimensions only a run can tell.

16-bit floats are computed in float32 and rounded once; integers wrap, and what is divided by 0 is 0, as in kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tilewright.runtime.host_ops.onnx_op import onnx_op
from tilewright.runtime.host_ops.registry import host_op
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    safe = np.where(b == 0, 1, b)
    quotient = (a - np.fmod(a, safe)) // safe  # toward zero, without the absolute value, which the least one lacks
    return np.asarray(np.where(b == 0, 0, quotient), a.dtype)


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * np.tanh(0.5 * x) + 0.5)


def _is_half(x: Array) -> bool:
    return DType(x.dtype).is_half


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide, "Pow": np.power,
    "Neg": np.negative, "Abs": np.abs, "Sign": np.sign, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint,
    "Sqrt": np.sqrt, "Reciprocal": np.reciprocal, "Exp": np.exp, "Log": np.log,
    "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan,
    "Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh,
    "Relu": lambda x: np.maximum(x, 0), "Sigmoid": _sigmoid, "Softplus": lambda x: np.logaddexp(x, 0),
    "Softsign": lambda x: x / (1 + np.abs(x)), "IsNaN": np.isnan,
    "Not": np.logical_not, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
    "BitwiseNot": np.invert, "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
    "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal,
}  # fmt: skip
#: Operators of any number of inputs, by what joins two of them.
_JOINED: dict[str, Callable[..., Any]] = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}


def _register(name: str, function: Callable[..., Any]) -> None:
    @onnx_op(name)
    def elementwise(attrs: Attrs, *values: Array) -> Array:
        if not any(map(_is_half, values)):
            return np.asarray(function(*values))
        result = np.asarray(function(*[v.astype(np.float32) if _is_half(v) else v for v in values]))
        return result.astype(values[0].dtype) if result.dtype == np.float32 else result


for _name, _function in _FUNCTIONS.items():
    _register(_name, _function)
for _name, _function in _JOINED.items():
    _register(_name, lambda *values, _join=_function: reduce(_join, values))


@host_op("gcd")
def gcd(attrs: Attrs, a: Array, b: Array) -> Array:
    """The greatest common divisors."""
    return np.gcd(a, b)


@onnx_op("Mod")
def mod(attrs: Attrs, a: Array, b: Array) -> Array:
    """The remainder with the sign of the divisor, or with `fmod` of the dividend; 0 of a division of integers by 0."""
    function = np.fmod if attrs.get("fmod", 0) else np.mod
    if a.dtype.kind not in "iu":
        return np.asarray(function(a, b))
    return np.asarray(np.where(b == 0, 0, function(a, np.where(b == 0, 1, b))), a.dtype)


@onnx_op("Clip")
def clip(attrs: Attrs, data: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """Elements between two bounds, each of which may be missing."""
    low, high = attrs.get("min", low), attrs.get("max", high)
    data = data if low is None else np.maximum(data, np.asarray(low, data.dtype).reshape(()))
    return data if high is None else np.minimum(data, np.asarray(high, data.dtype).reshape(()))
