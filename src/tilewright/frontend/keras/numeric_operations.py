"""Operations of `keras.ops` element by element: arithmetic, comparisons, bits, functions of one number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import cast, constant, dtype_of, full, is_float, like, shape_of
from tilewright.frontend.keras.image import saturated
from tilewright.frontend.keras.layer import Operation, as_float, on_floats, tensors
from tilewright.frontend.keras.registry import operation
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType

# ------------------------------------------------------------------------------------------------------- two operands
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Subtract": op.subtract, "Maximum": op.maximum, "Minimum": op.minimum,
    "Equal": op.equal, "NotEqual": op.not_equal, "Greater": op.greater, "GreaterEqual": op.greater_equal,
    "Less": op.less, "LessEqual": op.less_equal, "Mod": op.floor_mod, "FloorDivide": op.floor_divide,
}  # fmt: skip
_LOGICAL = {"Add": op.logical_or, "Multiply": op.logical_and, "Maximum": op.logical_or, "Minimum": op.logical_and}
_ARITHMETIC = {"Add": op.add, "Multiply": op.multiply, **_BINARY}


@operation(*_ARITHMETIC)
def convert_binary(item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2)
    name = item.class_name
    if dtype_of(left) == "bool":
        if name in _LOGICAL:
            return _LOGICAL[name](left, right)
        if name not in ("Equal", "NotEqual"):
            left, right = cast(left, "int32"), cast(right, "int32")
    return _ARITHMETIC[name](left, right)


@operation("Divide", "TrueDivide")
def convert_divide(_item: Operation, x1: Any, x2: Any) -> Expr:
    return op.divide(*tensors(x1, x2, at_least_float=True))


@operation("DivideNoNan")
def convert_divide_no_nan(_item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2, at_least_float=True)
    zero = op.equal(right, 0)
    return op.where(zero, 0, left / op.where(zero, 1, right))


@operation("Power")
def convert_power(_item: Operation, x1: Any, x2: Any) -> Expr:
    return op.power(*tensors(x1, x2))


@operation("Fmax", "Fmin")
def convert_fmax(item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2)
    made = (op.maximum if item.class_name == "Fmax" else op.minimum)(left, right)
    if not is_float(dtype_of(left)):
        return made
    return op.where(op.isnan(left), right, op.where(op.isnan(right), left, made))


@operation("Fmod")
def convert_fmod(_item: Operation, x1: Any, x2: Any) -> Expr:
    return op.mod(*tensors(x1, x2))


@operation("Arctan2")
def convert_arctan2(_item: Operation, x1: Any, x2: Any) -> Expr:
    return functions.atan2(*tensors(x1, x2, at_least_float=True))


@operation("Hypot")
def convert_hypot(_item: Operation, x1: Any, x2: Any) -> Expr:
    return functions.hypot(*tensors(x1, x2, at_least_float=True))


@operation("Logaddexp", "Logaddexp2")
def convert_logaddexp(item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2, at_least_float=True)
    base = math.log(2) if item.class_name == "Logaddexp2" else 1.0
    distance = op.abs(left - right) * -base
    more = op.log1p(op.exp(distance)) / base
    return op.maximum(left, right) + op.where(op.isnan(distance), 0, more)


@operation("Heaviside")
def convert_heaviside(_item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2)
    step = cast(left > 0, dtype_of(left))
    return op.where(op.equal(left, 0), right, step)


@operation("Ldexp")
def convert_ldexp(_item: Operation, x1: Any, x2: Any) -> Expr:
    value = as_float(x1)
    return value * op.power(2, cast(tensors(x2)[0], dtype_of(value)))


@operation("LogicalAnd", "LogicalOr", "LogicalXor")
def convert_logical(item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = (_truth(value) for value in (x1, x2))
    return {"LogicalAnd": op.logical_and, "LogicalOr": op.logical_or, "LogicalXor": op.logical_xor}[item.class_name](
        left, right
    )


def _truth(value: Any) -> Expr:
    (made,) = tensors(value)
    return made if dtype_of(made) == "bool" else op.not_equal(made, 0)


@operation("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseLeftShift", "LeftShift", "BitwiseRightShift", "RightShift")
def convert_bits(item: Operation, x: Any, y: Any) -> Expr:
    left, right = tensors(x, y)
    if dtype_of(left) == "bool":
        table = {"BitwiseAnd": op.logical_and, "BitwiseOr": op.logical_or, "BitwiseXor": op.logical_xor}
        return table[item.class_name](left, right)
    name = item.class_name.removeprefix("Bitwise")
    table = {"And": op.bitwise_and, "Or": op.bitwise_or, "Xor": op.bitwise_xor, "LeftShift": op.left_shift,
             "RightShift": op.right_shift}  # fmt: skip
    return table[name](left, right)


@operation("BitwiseInvert", "BitwiseNot")
def convert_bitwise_not(_item: Operation, x: Expr) -> Expr:
    return op.logical_not(x) if dtype_of(x) == "bool" else op.bitwise_not(x)


@operation("Isclose")
def convert_isclose(
    _item: Operation, x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Expr:
    left, right = tensors(x1, x2, at_least_float=True)
    bound = like(atol, right) + like(rtol, right) * op.abs(right)
    near = op.abs(left - right) <= bound
    made = op.logical_or(op.logical_and(near, op.isfinite(right)), op.equal(left, right))
    return op.logical_or(made, op.logical_and(op.isnan(left), op.isnan(right))) if equal_nan else made


@operation("AllClose")
def convert_allclose(
    item: Operation, x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Expr:
    return op.all(convert_isclose(item, x1, x2, rtol, atol, equal_nan))


# ------------------------------------------------------------------------------------------------------- one operand
_ON_FLOATS: dict[str, Callable[[Expr], Expr]] = {
    "Arccos": op.acos, "Arccosh": op.acosh, "Arcsin": op.asin, "Arcsinh": op.asinh, "Arctan": op.atan,
    "Arctanh": op.atanh, "Cos": op.cos, "Cosh": op.cosh, "Exp": op.exp, "Expm1": op.expm1, "Log": op.log,
    "Log10": op.log10, "Log1p": op.log1p, "Log2": op.log2, "Sin": op.sin, "Sinh": op.sinh, "Sqrt": op.sqrt,
    "Tan": op.tan, "Tanh": op.tanh, "Rsqrt": op.rsqrt, "Erf": op.erf, "Erfinv": functions.erfinv,
    "Exp2": lambda x: op.power(2, x),
    "Erfc": lambda x: 1 - op.erf(x),
    "Cbrt": lambda x: op.sign(x) * op.power(op.abs(x), 1 / 3),
    "Deg2rad": lambda x: x * (math.pi / 180),
    "Rad2deg": lambda x: x * (180 / math.pi),
    "Reciprocal": lambda x: 1 / x,
    "Fabs": op.abs,
    "Sinc": lambda x: op.where(
        op.equal(x, 0), 1,
        op.sin(x * math.pi) / (x * math.pi),
    ),
}  # fmt: skip
for _name, _function in _ON_FLOATS.items():
    operation(_name)(on_floats(_function))


@operation("Absolute", "Abs", "Negative", "Sign", "Square")
def convert_unary(item: Operation, x: Any) -> Expr:
    (value,) = tensors(x)
    if dtype_of(value) == "bool":
        if item.class_name in ("Absolute", "Abs"):
            return value
        value = cast(value, "int32")
    if item.class_name == "Square":
        return value * value
    return {"Absolute": op.abs, "Abs": op.abs, "Negative": op.negative, "Sign": op.sign}[item.class_name](value)


@operation("Ceil", "Floor", "Trunc")
def convert_rounding(item: Operation, x: Any) -> Expr:
    (value,) = tensors(x)
    if not is_float(dtype_of(value)):
        return value if item.class_name == "Trunc" else cast(value, "float32")
    return {"Ceil": op.ceil, "Floor": op.floor, "Trunc": op.trunc}[item.class_name](value)


@operation("Round")
def convert_round(_item: Operation, x: Any, decimals: int = 0) -> Expr:
    (value,) = tensors(x)
    if not is_float(dtype_of(value)) and decimals >= 0:
        return value
    whole = as_float(value)
    factor = like(10.0**decimals, whole)
    made = op.round(whole * factor) / factor if decimals else op.round(whole)
    return cast(made, dtype_of(value))


@operation("LogicalNot")
def convert_logical_not(_item: Operation, x: Any) -> Expr:
    return op.logical_not(_truth(x))


@operation("Isfinite", "Isinf", "Isnan", "Isneginf", "Isposinf", "Isreal", "Signbit")
def convert_test(item: Operation, x: Any) -> Expr:
    value = as_float(x)
    zero = like(0, value)
    if item.class_name == "Isreal":
        return full(True, shape_of(value), "bool")
    if item.class_name == "Signbit":  # the sign of zero shows in its reciprocal
        return op.logical_or(value < zero, 1 / value < zero)
    infinite = op.isinf(value)
    return {
        "Isfinite": lambda: op.isfinite(value), "Isinf": lambda: infinite, "Isnan": lambda: op.isnan(value),
        "Isneginf": lambda: op.logical_and(infinite, value < zero),
        "Isposinf": lambda: op.logical_and(infinite, value > zero),
    }[item.class_name]()  # fmt: skip


@operation("Clip")
def convert_clip(_item: Operation, x: Any, x_min: Any, x_max: Any) -> Expr:
    (value,) = tensors(x)
    value = cast(value, "int32") if dtype_of(value) == "bool" else value
    for bound, function in ((x_min, op.maximum), (x_max, op.minimum)):
        if bound is not None:
            value = function(*tensors(value, bound))
    return value


@operation("Conj", "Conjugate", "Real", "Copy", "StopGradient")
def convert_same(_item: Operation, *values: Any) -> Any:
    return tensors(values[0])[0]


@operation("Imag", "Angle")
def convert_imaginary(item: Operation, x: Any) -> Expr:
    value = as_float(x)
    if item.class_name == "Imag":
        return op.zeros_like(value)
    return op.where(value < 0, like(math.pi, value), like(0, value))


@operation("NanToNum")
def convert_nan_to_num(
    _item: Operation, x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Expr:
    (value,) = tensors(x)
    if not is_float(dtype_of(value)):
        return value
    least, most = DType(dtype_of(value)).finite_limits()
    high, low = (most if posinf is None else posinf), (least if neginf is None else neginf)
    made = op.where(op.isnan(value), like(nan, value), value)
    infinite = op.isinf(value)
    made = op.where(op.logical_and(infinite, value > 0), like(high, value), made)
    return op.where(op.logical_and(infinite, value < 0), like(low, value), made)


@operation("Cast")
def convert_cast(_item: Operation, x: Any, dtype: str = "float32") -> Expr:
    (value,) = tensors(x)
    return cast(value, str(dtype))


@operation("SaturateCast")
def convert_saturate_cast(_item: Operation, x: Any, dtype: str = "float32") -> Expr:
    return saturated(tensors(x)[0], str(dtype))


@operation("Array", "ConvertToTensor")
def convert_array(_item: Operation, x: Any, dtype: str | None = None) -> Expr:
    (value,) = tensors(x)
    return value if dtype is None else cast(value, str(dtype))


@operation("Where")
def convert_where(item: Operation, condition: Any, x1: Any = None, x2: Any = None) -> Expr:
    if x1 is None or x2 is None:
        item.unsupported("the places where a condition holds, whose number is not known,")
    left, right = tensors(x1, x2)
    return op.where(_truth(condition), left, right)


@operation("Select")
def convert_select(_item: Operation, condlist: Any, choicelist: Any, default: Any = 0) -> Expr:
    *choices, made = tensors(*choicelist, default)
    for condition, choice in zip(condlist[::-1], choices[::-1]):
        made = op.where(_truth(condition), choice, made)
    return made


@operation("ZerosLike", "OnesLike", "EmptyLike")
def convert_like(item: Operation, x: Any, dtype: str | None = None) -> Expr:
    (value,) = tensors(x)
    return full(int(item.class_name == "OnesLike"), shape_of(value), str(dtype or dtype_of(value)))


@operation("FullLike")
def convert_full_like(_item: Operation, x: Any, fill_value: Any, dtype: str | None = None) -> Expr:
    (value,) = tensors(x)
    wanted = str(dtype or dtype_of(value))
    filled = cast(fill_value, wanted) if isinstance(fill_value, Expr) else constant(fill_value, wanted)
    return op.broadcast_to(filled, shape=shape_of(value))
