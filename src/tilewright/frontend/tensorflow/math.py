"""Arithmetic, comparisons, bits and functions element by element; on shapes too, which stay known."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.complex_numbers import Complex, angle, conjugate, magnitude
from tilewright.frontend.builders.fourier import complex_transform, real_inverse, real_transform
from tilewright.frontend.idioms import cast, constant, dtype_of, is_float, like, shape_of, swap_axes
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.frontend.tensorflow.values import Dims, dims_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.op import linalg

_ON_SIZES: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "AddV2": operator.add, "Sub": operator.sub, "Mul": operator.mul, "FloorDiv": operator.floordiv,
    "Maximum": max, "Minimum": min, "FloorMod": operator.mod,
}  # fmt: skip


def _inside(positions: Expr) -> Expr:
    """Numbers of bits to shift by, as TensorFlow's kernels bound them: 0 … one less than there are bits."""
    bits = np.dtype(dtype_of(positions)).itemsize * 8
    return op.clip(positions, 0, bits - 1)


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
    """Binary operators; on two shapes the extents stay known unless unknown ones would be compared."""
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


converts.unary({
    "Abs": op.abs, "Acos": op.acos, "Acosh": op.acosh, "Asin": op.asin, "Asinh": op.asinh, "Atan": op.atan,
    "Atanh": op.atanh, "Ceil": op.ceil, "Cos": op.cos, "Cosh": op.cosh, "Erf": op.erf, "Exp": op.exp, "Expm1": op.expm1,
    "Floor": op.floor, "Log": op.log, "Log1p": op.log1p, "LogicalNot": op.logical_not, "Neg": op.negative,
    "Rint": op.round, "Rsqrt": op.rsqrt, "Sigmoid": op.sigmoid, "Sign": op.sign, "Sin": op.sin, "Sinh": op.sinh,
    "Sqrt": op.sqrt, "Tan": op.tan, "Tanh": op.tanh, "IsNan": op.isnan, "IsInf": op.isinf, "IsFinite": op.isfinite,
    "Invert": op.bitwise_not, "Elu": functions.elu, "Selu": functions.selu, "Softplus": functions.softplus,
    "Softsign": functions.softsign, "Relu6": functions.relu6, "Relu": op.nn.relu, "Erfinv": functions.erfinv,
    "Ndtri": lambda x: functions.erfinv(x * 2 - 1) * math.sqrt(2),
    "Erfc": lambda x: 1 - op.erf(x),
    "Square": lambda x: x * x, "Reciprocal": lambda x: 1 / x,
    "Inv": lambda x: 1 / x, "ZerosLike": op.zeros_like, "OnesLike": op.ones_like,
})  # fmt: skip


@converts("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py")
def convert_without_nan(node: TfNode) -> Expr:
    """0 where the divisor (the factor in front) is 0, whatever the other operand."""
    left, right = node[0], node[1]
    zero = like(0, left)
    if node.operator == "DivNoNan":
        none = op.equal(right, zero)
        return op.where(none, zero, left / op.where(none, 1, right))
    if node.operator == "MulNoNan":
        return op.where(op.equal(right, zero), zero, left * right)
    if node.operator == "Xdivy":
        made: Expr = left / right
    else:
        made = left * (op.log if node.operator == "Xlogy" else op.log1p)(right)
    return op.where(op.equal(left, zero), zero, made)


converts.functions({
    "LeakyRelu": lambda node: op.nn.leaky_relu(node[0], alpha=node.attr("alpha", 0.2)),
    # the lower bound counts where the bounds cross
    "ClipByValue": lambda node: op.maximum(op.minimum(node[0], node[2]), node[1]),
    "SquaredDifference": lambda node: (node[0] - node[1]) * (node[0] - node[1]),
    "ApproximateEqual": lambda node: op.abs(node[0] - node[1]) < node.attr("tolerance", 1e-5),
    **dict.fromkeys(("AddN", "AccumulateNV2"), lambda node: reduce(op.add, node.given())),
    "Round": lambda node: op.round(node[0]) if is_float(node.dtype()) else node[0],
    "BiasAdd BiasAddV1": lambda node: op.nn.bias_add(node[0], node[1], axis=node.rank() - 1 if node.last else 1),
    "Bitcast": lambda node: op.reinterpret(node[0], dtype=node.type("type")),
    "MatrixDeterminant": lambda node: linalg.det(node[0]),
    "MatrixSolve": lambda node: linalg.solve(_adjoint(node), node[1])[0],
    "RFFT": lambda node: Complex(*real_transform(node[0], node.ints(1, "length")[0])),
    "Complex": lambda node: Complex(node[0], node[1]),
})  # fmt: skip


@converts("Cast")
def convert_cast(node: TfNode) -> Any:
    kind = node.type("DstT")
    value = node.values[0]
    if isinstance(value, Dims) and kind in ("int32", "int64"):
        return Dims(value.extents, kind, value.scalar, value.shape)
    data = node[0]
    if is_float(node.dtype()) and kind == "bool":
        return op.not_equal(data, 0)
    return cast(data, kind)


@converts("Bucketize")
def convert_bucketize(node: TfNode) -> Expr:
    """The number of boundaries that are not greater, for each number."""
    edges = Constant(np.asarray(node.attr("boundaries", []), np.float32))
    return op.searchsorted(edges, cast(node[0], "float32"), right=True, dtype="int32")


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
    """Gradients in terms of the function's result: y' = y (1 - y), 1 - y², 1 where y is positive."""
    first, second = node[0], node[1]
    one = like(1, first)
    if node.operator == "ReluGrad":
        return op.where(second > 0, first, 0)
    if node.operator == "TanhGrad":
        return second * (one - first * first)
    return second * (first * (one - first))


# -------------------------------------------------------------- Matrices: inverses, determinants, factors and solutions
def _adjoint(node: TfNode) -> Expr:
    return swap_axes(node[0]) if node.attr("adjoint", False) else node[0]


@converts("Cholesky")
def convert_cholesky(node: TfNode) -> Expr:
    """NaN where the matrix is not positive definite."""
    made = linalg.cholesky(node[0])
    failed = op.not_equal(made[1], 0)
    failed = op.expand_dims(failed, axis=node.rank() - 2, num_newaxis=2)
    return op.where(failed, constant(np.nan, node.dtype()), made[0])


@converts("MatrixInverse")
def convert_inverse(node: TfNode) -> Expr:
    shape = shape_of(node[0])
    if not all(isinstance(extent, int) for extent in shape):
        node.unsupported("matrices of symbolic extent; pass it with input_shapes")
    eye = np.broadcast_to(np.eye(int(shape[-1])), [int(extent) for extent in shape])
    return linalg.solve(_adjoint(node), constant(eye, node.dtype()))[0]


@converts("MatrixTriangularSolve")
def convert_triangular_solve(node: TfNode) -> Expr:
    upper = node.attr("lower", True) == node.attr("adjoint", False)
    return linalg.solve_triangular(_adjoint(node), node[1], upper=upper)


# Fourier transforms whose results are read as real numbers: complex tensors are pairs of real and imaginary parts.
def _complex(node: TfNode, index: int = 0) -> Complex:
    value = node.values[index]
    if not isinstance(value, Complex):
        node.unsupported(f"its input {index} is not complex")
    return value


@converts("IRFFT")
def convert_irfft(node: TfNode) -> Expr:
    value = _complex(node)
    return real_inverse(value.real, value.imaginary, node.ints(1, "length")[0])


@converts("FFT", "IFFT")
def convert_fft(node: TfNode) -> Complex:
    value = _complex(node)
    return Complex(*complex_transform(value.real, value.imaginary, node.operator == "IFFT"))


@converts("Real", "Imag", "ComplexAbs", "Conj", "Angle")
def convert_parts(node: TfNode) -> Any:
    value = node.values[0]
    if not isinstance(value, Complex):
        return node[0] if node.operator in ("Real", "Conj") else op.zeros_like(node[0])
    if node.operator == "Conj":
        return conjugate(value)
    if node.operator == "ComplexAbs":
        return magnitude(value)
    if node.operator == "Angle":
        return angle(value)
    return value.real if node.operator == "Real" else value.imaginary
