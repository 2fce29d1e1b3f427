"""Operations of `keras.ops` element by element: arithmetic, comparisons, bits, functions of one number."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import cast, constant, dtype_of, full, is_float, like, shape_of
from tilewright.frontend.keras.image import saturated
from tilewright.frontend.keras.layer import Operation, Tensor, as_float, tensors
from tilewright.frontend.keras.registry import operation, operations
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType

_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Subtract": op.subtract, "Maximum": op.maximum, "Minimum": op.minimum,
    "Equal": op.equal, "NotEqual": op.not_equal, "Greater": op.greater, "GreaterEqual": op.greater_equal,
    "Less": op.less, "LessEqual": op.less_equal, "Mod": op.floor_mod, "FloorDivide": op.floor_divide,
}  # fmt: skip
_LOGICAL = {"Add": op.logical_or, "Multiply": op.logical_and, "Maximum": op.logical_or, "Minimum": op.logical_and}
_ARITHMETIC = {"Add": op.add, "Multiply": op.multiply, **_BINARY}


def truth(value: Any) -> Expr:
    """True where an operand, which may be a number of Python, is not 0."""
    (made,) = tensors(value)
    return made if dtype_of(made) == "bool" else op.not_equal(made, 0)


def _bits(of_bits: Callable[..., Expr], of_truth: Callable[..., Expr]) -> Callable[[Expr, Expr], Expr]:
    return lambda x, y: (of_truth if dtype_of(x) == "bool" else of_bits)(x, y)


def _whole(function: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """A function of numbers, of truth values as integers."""
    return lambda x: function(cast(x, "int32") if dtype_of(x) == "bool" else x)


def _rounded(function: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    return lambda x: function(x) if is_float(dtype_of(x)) else cast(x, "float32")


def _divide_no_nan(x1: Expr, x2: Expr) -> Expr:
    zero = op.equal(x2, 0)
    return op.where(zero, 0, x1 / op.where(zero, 1, x2))


def _fmax(function: Callable[[Expr, Expr], Expr], x1: Expr, x2: Expr) -> Expr:
    made = function(x1, x2)
    return op.where(op.isnan(x1), x2, op.where(op.isnan(x2), x1, made)) if is_float(dtype_of(x1)) else made


def _logaddexp(base: float, x1: Expr, x2: Expr) -> Expr:
    distance = op.abs(x1 - x2) * -base
    return op.maximum(x1, x2) + op.where(op.isnan(distance), 0, op.log1p(op.exp(distance)) / base)


def _filled(value: int, x: Expr, dtype: str | None = None) -> Expr:
    return full(value, shape_of(x), str(dtype or dtype_of(x)))


operations("FloatTensor", {
    "Arccos": op.acos, "Arccosh": op.acosh, "Arcsin": op.asin, "Arcsinh": op.asinh, "Arctan": op.atan,
    "Arctanh": op.atanh, "Cos": op.cos, "Cosh": op.cosh, "Exp": op.exp, "Expm1": op.expm1, "Log": op.log,
    "Log10": op.log10, "Log1p": op.log1p, "Log2": op.log2, "Sin": op.sin, "Sinh": op.sinh, "Sqrt": op.sqrt,
    "Tan": op.tan, "Tanh": op.tanh, "Rsqrt": op.rsqrt, "Erf": op.erf, "Erfinv": functions.erfinv, "Fabs": op.abs,
    "Exp2": lambda x: op.power(2, x), "Erfc": lambda x: 1 - op.erf(x), "Reciprocal": lambda x: 1 / x,
    "Cbrt": lambda x: op.sign(x) * op.power(op.abs(x), 1 / 3), "Sinc": functions.sinc,
    "Deg2rad": lambda x: x * (math.pi / 180), "Rad2deg": lambda x: x * (180 / math.pi),
    "Isfinite": op.isfinite, "Isinf": op.isinf, "Isnan": op.isnan, "Isreal": lambda x: full(True, shape_of(x), "bool"),
    "Isneginf": lambda x: op.logical_and(op.isinf(x), x < 0), "Isposinf": lambda x: op.logical_and(op.isinf(x), x > 0),
    "Signbit": lambda x: op.logical_or(x < 0, 1 / x < 0),  # the sign of zero shows in its reciprocal
    "Imag": op.zeros_like, "Angle": lambda x: op.where(x < 0, like(math.pi, x), like(0, x)),
    "Divide TrueDivide": op.divide, "DivideNoNan": _divide_no_nan, "Arctan2": functions.atan2,
    "Isclose": functions.close,
    "AllClose": lambda x1, x2, rtol=1e-5, atol=1e-8, equal_nan=False: op.all(
        functions.close(x1, x2, rtol, atol, equal_nan)
    ),
    "Hypot": functions.hypot, "Logaddexp": partial(_logaddexp, 1.0), "Logaddexp2": partial(_logaddexp, math.log(2)),
})  # fmt: skip
operations("Tensor", {
    "Power": op.power, "Fmod": op.mod, "Fmax": partial(_fmax, op.maximum), "Fmin": partial(_fmax, op.minimum),
    "Heaviside": lambda x1, x2: op.where(op.equal(x1, 0), x2, cast(x1 > 0, dtype_of(x1))),
    "BitwiseAnd": _bits(op.bitwise_and, op.logical_and), "BitwiseOr": _bits(op.bitwise_or, op.logical_or),
    "BitwiseXor": _bits(op.bitwise_xor, op.logical_xor), "BitwiseLeftShift LeftShift": op.left_shift,
    "BitwiseRightShift RightShift": op.right_shift,
})  # fmt: skip
operations("Expr", {
    "BitwiseInvert BitwiseNot": lambda x: op.logical_not(x) if dtype_of(x) == "bool" else op.bitwise_not(x),
    "Absolute Abs": lambda x: x if dtype_of(x) == "bool" else op.abs(x), "Negative": _whole(op.negative),
    "Sign": _whole(op.sign), "Square": _whole(lambda x: x * x), "Ceil": _rounded(op.ceil), "Floor": _rounded(op.floor),
    "Trunc": lambda x: op.trunc(x) if is_float(dtype_of(x)) else x,
    "Ldexp": lambda x1, x2: as_float(x1) * op.power(2, cast(x2, dtype_of(as_float(x1)))),
    "Cast": lambda x, dtype="float32": cast(x, str(dtype)),
    "SaturateCast": lambda x, dtype="float32": saturated(x, str(dtype)),
    "Array ConvertToTensor": lambda x, dtype=None: x if dtype is None else cast(x, str(dtype)),
    "ZerosLike EmptyLike": partial(_filled, 0), "OnesLike": partial(_filled, 1),
})  # fmt: skip
operations("Any", {
    "LogicalNot": lambda x: op.logical_not(truth(x)),
    "LogicalAnd": lambda x1, x2: op.logical_and(truth(x1), truth(x2)),
    "LogicalOr": lambda x1, x2: op.logical_or(truth(x1), truth(x2)),
    "LogicalXor": lambda x1, x2: op.logical_xor(truth(x1), truth(x2)),
})  # fmt: skip


@operation(*_ARITHMETIC)
def convert_binary(item: Operation, x1: Tensor, x2: Tensor) -> Expr:
    name = item.class_name
    if dtype_of(x1) == "bool":
        if name in _LOGICAL:
            return _LOGICAL[name](x1, x2)
        if name not in ("Equal", "NotEqual"):
            x1, x2 = cast(x1, "int32"), cast(x2, "int32")
    return _ARITHMETIC[name](x1, x2)


@operation("Round")
def convert_round(x: Expr, decimals: int = 0) -> Expr:
    if not is_float(dtype_of(x)) and decimals >= 0:
        return x
    whole = as_float(x)
    factor = like(10.0**decimals, whole)
    made = op.round(whole * factor) / factor if decimals else op.round(whole)
    return cast(made, dtype_of(x))


@operation("Clip")
def convert_clip(x: Expr, x_min: Any, x_max: Any) -> Expr:
    x = cast(x, "int32") if dtype_of(x) == "bool" else x
    for bound, function in ((x_min, op.maximum), (x_max, op.minimum)):
        if bound is not None:
            x = function(*tensors(x, bound))
    return x


@operation("Conj", "Conjugate", "Real", "Copy", "StopGradient")
def convert_same(*values: Any) -> Any:
    return tensors(values[0])[0]


@operation("NanToNum")
def convert_nan_to_num(x: Expr, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Expr:
    if not is_float(dtype_of(x)):
        return x
    least, most = DType(dtype_of(x)).finite_limits()
    high, low = (most if posinf is None else posinf), (least if neginf is None else neginf)
    made = op.where(op.isnan(x), like(nan, x), x)
    infinite = op.isinf(x)
    made = op.where(op.logical_and(infinite, x > 0), like(high, x), made)
    return op.where(op.logical_and(infinite, x < 0), like(low, x), made)


@operation("Where")
def convert_where(item: Operation, condition: Any, x1: Tensor | None = None, x2: Tensor | None = None) -> Expr:
    if x1 is None or x2 is None:
        item.unsupported("the positions where a condition holds, whose number is not known,")
    return op.where(truth(condition), x1, x2)


@operation("FullLike")
def convert_full_like(x: Expr, fill_value: Any, dtype: str | None = None) -> Expr:
    wanted = str(dtype or dtype_of(x))
    filled = cast(fill_value, wanted) if isinstance(fill_value, Expr) else constant(fill_value, wanted)
    return op.broadcast_to(filled, shape=shape_of(x))


@operation("Select")
def convert_select(condlist: Any, choicelist: Any, default: Any = 0) -> Expr:
    *choices, made = tensors(*choicelist, default)
    for condition, choice in zip(condlist[::-1], choices[::-1]):
        made = op.where(truth(condition), choice, made)
    return made
