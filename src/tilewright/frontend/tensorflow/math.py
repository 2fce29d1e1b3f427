"""Arithmetic, comparisons, bits and functions element by element; on shapes too, which stay known."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend import functions
from tilewright.frontend.idioms import cast, constant, dtype_of, is_float, like
from tilewright.frontend.tensorflow.node import TfNode
from tilewright.frontend.tensorflow.registry import converts
from tilewright.frontend.tensorflow.values import Dims, dims_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

_ON_SIZES: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "AddV2": operator.add, "Sub": operator.sub, "Mul": operator.mul, "FloorDiv": operator.floordiv,
    "Maximum": max, "Minimum": min, "FloorMod": operator.mod,
}  # fmt: skip


def _inside(places: Expr) -> Expr:
    """Places to shift by, as TensorFlow's kernels bound them: 0 … one less than there are bits."""
    bits = np.dtype(dtype_of(places)).itemsize * 8
    return op.clip(places, 0, bits - 1)


_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": op.add, "AddV2": op.add, "Sub": op.subtract, "Mul": op.multiply, "FloorDiv": op.floor_divide,
    "FloorMod": op.floor_mod, "Maximum": op.maximum, "Minimum": op.minimum, "Pow": op.power, "RealDiv": op.divide,
    "TruncateDiv": op.divide, "TruncateMod": op.mod, "Mod": op.mod, "Equal": op.equal, "NotEqual": op.not_equal,
    "Greater": op.greater, "GreaterEqual": op.greater_equal, "Less": op.less, "LessEqual": op.less_equal,
    "LogicalAnd": op.logical_and, "LogicalOr": op.logical_or, "BitwiseAnd": op.bitwise_and, "BitwiseOr": op.bitwise_or,
    "BitwiseXor": op.bitwise_xor, "LeftShift": lambda x, y: op.left_shift(x, _inside(y)),
    "RightShift": lambda x, y: op.right_shift(x, _inside(y)), "Div": op.divide, "Atan2": functions.atan2,
}  # fmt: skip


@converts(*_BINARY)
def convert_binary(node: TfNode) -> Any:
    """On two shapes, extents stay known where no open one would have to be compared."""
    if node.operator in _ON_SIZES and node.all_dims():
        found = _on_sizes(node)
        if found is not None:
            return found
    return _BINARY[node.operator](node[0], node[1])


def _on_sizes(node: TfNode) -> Dims | None:
    left, right = (dims_of(value) or () for value in node.values[:2])
    scalars = [_is_scalar(value) for value in node.values[:2]]
    count = max(len(left), len(right))
    if {len(left), len(right)} - {1, count}:
        return None
    if node.operator in ("Maximum", "Minimum") and not all(isinstance(one, int) for one in (*left, *right)):
        return None
    pairs = zip(left * (count if len(left) == 1 else 1), right * (count if len(right) == 1 else 1))
    kind = next((value.dtype for value in node.values if isinstance(value, Dims)), "int32")
    return Dims([_ON_SIZES[node.operator](a, b) for a, b in pairs], kind, all(scalars))


def _is_scalar(value: Any) -> bool:
    return value.scalar if isinstance(value, Dims) else value.data.ndim == 0


_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "Abs": op.abs, "Acos": op.acos, "Acosh": op.acosh, "Asin": op.asin, "Asinh": op.asinh, "Atan": op.atan,
    "Atanh": op.atanh, "Ceil": op.ceil, "Cos": op.cos, "Cosh": op.cosh, "Erf": op.erf, "Exp": op.exp, "Expm1": op.expm1,
    "Floor": op.floor, "Log": op.log, "Log1p": op.log1p, "LogicalNot": op.logical_not, "Neg": op.negative,
    "Rint": op.round, "Rsqrt": op.rsqrt, "Sigmoid": op.sigmoid, "Sign": op.sign, "Sin": op.sin, "Sinh": op.sinh,
    "Sqrt": op.sqrt, "Tan": op.tan, "Tanh": op.tanh, "IsNan": op.isnan, "IsInf": op.isinf, "IsFinite": op.isfinite,
    "Invert": op.bitwise_not, "Elu": functions.elu, "Selu": functions.selu, "Softplus": functions.softplus,
    "Softsign": functions.softsign, "Relu6": functions.relu6, "Relu": op.nn.relu, "Erfinv": functions.erfinv,
    "Ndtri": lambda x: op.multiply(functions.erfinv(op.subtract(op.multiply(x, like(2, x)), like(1, x))),
                                   like(math.sqrt(2), x)),
    "Erfc": lambda x: op.subtract(like(1, x), op.erf(x)),
    "Square": lambda x: op.multiply(x, x), "Reciprocal": lambda x: op.divide(like(1, x), x),
    "Inv": lambda x: op.divide(like(1, x), x), "ZerosLike": op.zeros_like, "OnesLike": op.ones_like,
}  # fmt: skip


@converts(*_UNARY)
def convert_unary(node: TfNode) -> Expr:
    return _UNARY[node.operator](node[0])


@converts("Round")
def convert_round(node: TfNode) -> Expr:
    return op.round(node[0]) if is_float(node.dtype()) else node[0]


@converts("LeakyRelu")
def convert_leaky_relu(node: TfNode) -> Expr:
    return op.nn.leaky_relu(node[0], alpha=node.f("alpha", 0.2))


@converts("ClipByValue")
def convert_clip(node: TfNode) -> Expr:
    """Where the ends are crossed, the lower one counts."""
    return op.maximum(op.minimum(node[0], node[2]), node[1])


@converts("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py")
def convert_without_nan(node: TfNode) -> Expr:
    """0 where the divisor (the factor in front) is 0, whatever the other operand."""
    left, right = node[0], node[1]
    zero = like(0, left)
    if node.operator == "DivNoNan":
        none = op.equal(right, zero)
        return op.where(none, zero, op.divide(left, op.where(none, like(1, right), right)))
    if node.operator == "MulNoNan":
        return op.where(op.equal(right, zero), zero, op.multiply(left, right))
    if node.operator == "Xdivy":
        made: Expr = op.divide(left, right)
    else:
        made = op.multiply(left, (op.log if node.operator == "Xlogy" else op.log1p)(right))
    return op.where(op.equal(left, zero), zero, made)


@converts("SquaredDifference")
def convert_squared_difference(node: TfNode) -> Expr:
    apart = op.subtract(node[0], node[1])
    return op.multiply(apart, apart)


@converts("ApproximateEqual")
def convert_approximate_equal(node: TfNode) -> Expr:
    return op.less(op.abs(op.subtract(node[0], node[1])), like(node.f("tolerance", 1e-5), node[0]))


@converts("AddN", "AccumulateNV2")
def convert_add_n(node: TfNode) -> Expr:
    made, *rest = node.given()
    for one in rest:
        made = op.add(made, one)
    return made


@converts("BiasAdd", "BiasAddV1")
def convert_bias_add(node: TfNode) -> Expr:
    return op.nn.bias_add(node[0], node[1], axis=node.rank() - 1 if node.last else 1)


@converts("Cast")
def convert_cast(node: TfNode) -> Any:
    kind = node.type("DstT")
    value = node.values[0]
    if isinstance(value, Dims) and kind in ("int32", "int64"):
        return Dims(value.extents, kind, value.scalar, value.shape)
    data = node[0]
    if is_float(node.dtype()) and kind == "bool":
        return op.not_equal(data, like(0, data))
    return cast(data, kind)


@converts("Bucketize")
def convert_bucketize(node: TfNode) -> Expr:
    """How many boundaries are not greater, for each number."""
    edges = Constant(np.asarray(node.f_list("boundaries"), np.float32))
    return op.searchsorted(edges, cast(node[0], "float32"), right=True, dtype="int32")


@converts("Bitcast")
def convert_bitcast(node: TfNode) -> Expr:
    return op.reinterpret(node[0], dtype=node.type("type"))


@converts("Select", "SelectV2")
def convert_select(node: TfNode) -> Expr:
    condition = node[0]
    missing = node.rank(1) - node.rank()
    if node.operator == "Select" and node.rank() == 1 and missing > 0:  # of rows
        condition = op.expand_dims(condition, axis=1, num_newaxis=missing)
    return op.where(condition, node[1], node[2])


@converts("Const", "HostConst")
def convert_const(node: TfNode) -> Any:
    data = node.tensor("value")
    if data.dtype == object:
        return Text(data)
    return constant(data, str(data.dtype))


class Text:
    """Texts, which nothing but other operators on texts reads."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data


@converts("SigmoidGrad", "TanhGrad", "ReluGrad")
def convert_gradients(node: TfNode) -> Expr:
    """Gradients by what the function gave: y' = y (1 - y), 1 - y², 1 where y is positive."""
    first, second = node[0], node[1]
    one = like(1, first)
    if node.operator == "ReluGrad":
        return op.where(op.greater(second, like(0, second)), first, like(0, first))
    if node.operator == "TanhGrad":
        return op.multiply(second, op.subtract(one, op.multiply(first, first)))
    return op.multiply(second, op.multiply(first, op.subtract(one, first)))
