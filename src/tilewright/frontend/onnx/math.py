"""Elementwise arithmetic: unary functions, broadcasting binary operators, and variadic sums and extrema."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from onnx import TensorProto

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import cast, constant, like
from tilewright.frontend.onnx.in_float32 import in_float32
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.quantize import cast_to
from tilewright.frontend.onnx.registry import converts
from tilewright.frontend.onnx.tensors import dtype_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

converts.unary({
    "Abs": op.abs, "Neg": op.negative, "Sign": op.sign, "BitwiseNot": op.bitwise_not, "Exp": op.exp, "Log": op.log,
    "Sqrt": op.sqrt, "Tanh": op.tanh, "Sigmoid": op.sigmoid, "Floor": op.floor, "Ceil": op.ceil, "Round": op.round,
    "Sin": op.sin, "Cos": op.cos, "Tan": op.tan, "Relu": op.nn.relu, "Asin": op.asin, "Acos": op.acos,
    "Atan": op.atan, "Sinh": op.sinh, "Cosh": op.cosh, "Asinh": op.asinh, "Acosh": op.acosh, "Atanh": op.atanh,
    "Not": op.logical_not, "Identity": lambda x: x, "Reciprocal": lambda x: 1 / x,
})  # fmt: skip


@converts("Erf", since=9)
def convert_erf(node: OnnxNode) -> Expr:
    """The error function; of integers, which ONNX allows, in float32 and cut off."""
    dtype = node.dtype()
    data = node[0] if dtype.is_float else cast(node[0], "float32")
    return cast(op.erf(data), dtype)


# Binary operators. Before opset 7 broadcasting was requested by attributes and aligned at `axis`.

_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": op.add, "Sub": op.subtract, "Mul": op.multiply, "Div": op.divide, "BitwiseAnd": op.bitwise_and,
    "BitwiseOr": op.bitwise_or, "BitwiseXor": op.bitwise_xor, "Equal": op.equal, "Less": op.less,
    "LessOrEqual": op.less_equal, "Greater": op.greater, "GreaterOrEqual": op.greater_equal, "And": op.logical_and,
    "Or": op.logical_or, "Xor": op.logical_xor,
}  # fmt: skip


def operands(node: OnnxNode) -> tuple[Expr, Expr]:
    """The two inputs of a binary operator, the second one aligned as opsets before 7 prescribe."""
    left, right = node[0], node[1]
    if node.opset < 7:
        axis = node.attr("axis")
        if node.attr("broadcast", 0) and axis is not None:
            trailing = node.rank(left) - node.axis(axis, node.rank(left)) - node.rank(right)
            if trailing > 0:
                right = op.expand_dims(right, axis=node.rank(right), num_newaxis=trailing)
    return left, right


# Integers divide toward zero.
converts.functions({" ".join(_BINARY): lambda node: _BINARY[node.op_type](*operands(node))})


@converts("BitShift", since=11)
def convert_bit_shift(node: OnnxNode) -> Expr:
    """Bits moved left or right; by the width or more, or by less than nothing, all of them out."""
    left = node.choice("direction", None, ("LEFT", "RIGHT")) == "LEFT"
    return functions.shifted_bits(node[0], node[1], left)


@converts("Pow")
@in_float32
def convert_pow(node: OnnxNode) -> Expr:
    """base ** exponent, of the base's type and computed in the wider; small constant ones become multiplications."""
    base, exponent = operands(node)
    dtype = node.dtype(base)
    known = node.array(1)
    if known is not None and known.size == 1 and node.rank(exponent) <= node.rank(base):
        value = float(known.reshape(-1)[0])
        if value in (1.0, 2.0, 3.0):
            return reduce(op.multiply, [base] * int(value))
        if value == 0.5 and dtype.is_float:
            return op.sqrt(base)
    if dtype.is_float:
        whole = node.dtype(exponent).is_int and node.dtype(exponent).bits > 16
        if whole and (known is None or np.abs(known.astype(np.float64)).max(initial=0) > 1 << 24):
            return _power_of_integers(node, base, exponent)
        if node.dtype(exponent).is_int or node.dtype(exponent).bits <= dtype.bits:
            return op.power(base, cast(exponent, dtype))
    elif node.dtype(exponent).is_int:
        return op.power(base, cast(exponent, dtype))
    wide = "float64" if dtype.bits > 16 or node.dtype(exponent) == "float64" else "float32"
    return cast(op.power(cast(base, wide), cast(exponent, wide)), dtype)


def _power_of_integers(node: OnnxNode, base: Expr, exponent: Expr) -> Expr:
    """base ** exponent with the sign by the exponent itself: as a float, a large odd one becomes even."""
    dtype, bits = node.dtype(base), node.dtype(exponent)
    size = op.power(op.abs(base), cast(exponent, dtype))
    odd = op.not_equal(op.bitwise_and(exponent, constant(1, bits)), constant(0, bits))
    sign = op.reinterpret(base, dtype=f"int{dtype.bits}")
    negative = op.logical_and(odd, sign < constant(0, f"int{dtype.bits}"))
    return op.where(negative, -size, size)


@converts("Mod", since=10)
def convert_mod(node: OnnxNode) -> Expr:
    """Remainder with the divisor's sign, or with the dividend's sign when fmod is set."""
    if node.choice("fmod", 0, (0, 1)):
        return op.mod(node[0], node[1])
    return (functions.remainder if node.dtype().is_float else op.floor_mod)(node[0], node[1])


_VARIADIC: dict[str, Callable[[Expr, Expr], Expr]] = {"Max": op.maximum, "Min": op.minimum, "Sum": op.add}
converts.functions({
    " ".join(_VARIADIC): in_float32(lambda node: reduce(_VARIADIC[node.op_type], node.given())),
    "Mean": in_float32(lambda node: reduce(op.add, node.given()) * (1.0 / len(node.given()))),
})  # fmt: skip


@converts("Clip")
def convert_clip_1(node: OnnxNode) -> Expr:
    """Bounds as attributes (opsets 1 to 10)."""
    return _clip(node, node.attr("min"), node.attr("max"))


@converts("Clip", since=11)
def convert_clip_11(node: OnnxNode) -> Expr:
    """Bounds as optional scalar inputs, which need not be constant."""
    bounds: list[float | None] = []
    for index in (1, 2):
        value = node.array(index)
        if node.has(index) and value is None:
            return _clip_computed(node)
        bounds.append(None if value is None else value.reshape(-1)[0])
    return _clip(node, *bounds)


def _clip(node: OnnxNode, low: float | None, high: float | None) -> Expr:
    data, dtype = node[0], node.dtype()
    if low is not None and high is not None and dtype.is_float:
        return op.clip(data, a_min=float(low), a_max=float(high))
    if low is not None:
        data = op.maximum(data, constant(low, dtype))
    return data if high is None else op.minimum(data, constant(high, dtype))


def _clip_computed(node: OnnxNode) -> Expr:
    data = node[0]
    if node.has(1):
        data = op.maximum(data, node[1])
    return op.minimum(data, node[2]) if node.has(2) else data


@converts("Cast", since=1)
def convert_cast_1(node: OnnxNode) -> Expr:
    """The target type spelled out (opsets 1 to 5)."""
    target = dtype_of(TensorProto.DataType.Value(node.require("to")), node.label)
    return cast(node[0], target)


@converts("BitCast", since=26)
def convert_bit_cast(node: OnnxNode) -> Expr:
    """The same bits as another type of the same width."""
    target = dtype_of(node.require("to"), node.label)
    data = op.cast(node[0], dtype="uint8") if node.dtype().is_bool else node[0]
    if target.is_bool:
        return op.cast(op.reinterpret(data, dtype="uint8"), dtype="bool")
    return data if node.dtype(data) == target else op.reinterpret(data, dtype=str(target))


def _computable(node: OnnxNode) -> Expr:
    """The input; float8, which is moved and cast only, as float32."""
    return cast(node[0], "float32") if node.dtype().is_narrow else node[0]


converts.functions({"Cast": lambda node: cast_to(node, node[0], dtype_of(node.require("to"), node.label))}, since=6)
converts.functions({"CastLike": lambda node: cast_to(node, node[0], node.dtype(1))}, since=15)
converts.functions({
    "Where": lambda node: op.where(node[0], node[1], node[2]), "IsNaN": lambda node: op.isnan(_computable(node)),
}, since=9)  # fmt: skip


@converts("IsInf", since=10)
def convert_isinf(node: OnnxNode, detect_negative: int = 1, detect_positive: int = 1) -> Expr:
    """Either infinity, or one of the two as the attributes select; with neither, nothing."""
    data = _computable(node)
    zero = like(0, data)
    found = op.isinf(data)
    if not detect_positive:
        found = op.logical_and(found, data < zero)
    return found if detect_negative else op.logical_and(found, data > zero)
