"""Real numbers to quantized ones, back, and from one scale to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr, const
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import following
from tilewright.relay.op.common import Types, require, tensor
from tilewright.relay.op.qnn.canonical import (
    along,
    as_type,
    check_parameters,
    quantized_call,
    register_quantized,
)
from tilewright.relay.op.tensor import (
    abs,
    add,
    clip,
    copy,
    divide,
    equal,
    floor,
    greater,
    less,
    multiply,
    negative,
    round,
    sign,
    subtract,
    where,
)
from tilewright.support.dtype import DType
from tilewright.topi.narrow import FLOATS

ROUNDINGS = ("HALF_EVEN", "UPWARD", "TONEAREST")


def rounded(value: Expr, rounding: str = "HALF_EVEN") -> Expr:
    """`value` as a whole number: ties to even, upwards, or away from zero."""
    if rounding == "UPWARD":
        return floor(value + 0.5)
    if rounding == "TONEAREST":
        return sign(value) * floor(abs(value) + 0.5)
    return round(value)


def saturated(value: Expr, dtype: str) -> Expr:
    """Float `value`, which holds whole numbers if `dtype` is an integer type, limited to the range of `dtype`."""
    target = DType(dtype)
    if target in FLOATS:
        return as_type(limited(value, target), target)
    low, high = target.limits()
    return as_type(clip(value, low, high), target)


def limited(value: Expr, dtype: DType) -> Expr:
    """`value` with what is beyond the largest number of a narrow float, infinity included, put there; NaN stays."""
    low, high = (const(limit, tensor_type_of(value).dtype) for limit in dtype.finite_limits())
    return where(greater(value, high), high, where(less(value, low), low, value))


# ----------------------------------------------------------------------------------------------------- quantize
def _quantize_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    check_parameters(types[1:], attrs["axis"], data)
    return TensorType(data.shape, attrs["out_dtype"])


def _working(dtype: DType) -> str:
    return "float64" if dtype == "float64" else "float32"


def _quantize(attrs: Attrs, args: Sequence[Expr]) -> Expr:
    data, scale, zero_point = args
    type_ = tensor_type_of(data)
    work = _working(tensor_type_of(scale).dtype)
    scale = along(as_type(scale, work), attrs["axis"], type_.ndim)
    scaled = divide(as_type(data, work), scale)
    if DType(attrs["out_dtype"]) not in FLOATS:
        zero = along(as_type(zero_point, work), attrs["axis"], type_.ndim)
        scaled = add(round(scaled), zero)
    return saturated(scaled, attrs["out_dtype"])


register_quantized("qnn.quantize", 3, _quantize_type, _quantize, axis=attr.integer(-1), out_dtype=attr.dtype("int8"))


def quantize(data: Expr, output_scale: Any, output_zero_point: Any, axis: int = -1, out_dtype: str = "int8") -> Call:
    """round(data / scale) + zero_point, limited to the range of `out_dtype`.

    Scale and zero point are scalars, vectors along `axis`, or tensors that broadcast to the data.
    """
    return quantized_call("qnn.quantize", data, output_scale, output_zero_point, axis=axis, out_dtype=str(out_dtype))


# --------------------------------------------------------------------------------------------------- dequantize
def _dequantize_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    check_parameters(types[1:], attrs["axis"], data)
    return TensorType(data.shape, attrs["out_dtype"])


def _dequantize(attrs: Attrs, args: Sequence[Expr]) -> Expr:
    data, scale, zero_point = args
    type_, work = tensor_type_of(data), _working(tensor_type_of(scale).dtype)
    if type_.dtype in FLOATS:
        value = as_type(data, work)
    else:
        zero = along(as_type(zero_point, "int32"), attrs["axis"], type_.ndim)
        value = as_type(subtract(as_type(data, "int32"), zero), work)
    return as_type(multiply(value, along(as_type(scale, work), attrs["axis"], type_.ndim)), attrs["out_dtype"])


register_quantized(
    "qnn.dequantize", 3, _dequantize_type, _dequantize, axis=attr.integer(-1), out_dtype=attr.dtype("float32")
)


def dequantize(data: Expr, input_scale: Any, input_zero_point: Any, axis: int = -1, out_dtype: str = "float32") -> Call:
    """(data - zero_point) * scale."""
    return quantized_call("qnn.dequantize", data, input_scale, input_zero_point, axis=axis, out_dtype=str(out_dtype))


# --------------------------------------------------------------------------------------------------- requantize
def _requantize_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    check_parameters(types[1:], attrs["axis"], data)
    require(attrs["rounding"] in ROUNDINGS, f"rounding {attrs['rounding']!r}; known: {', '.join(ROUNDINGS)}")
    return TensorType(data.shape, attrs["out_dtype"])


def _requantize(attrs: Attrs, args: Sequence[Expr]) -> Expr:
    data, input_scale, input_zero, output_scale, output_zero = args
    ndim, axis = tensor_type_of(data).ndim, attrs["axis"]
    centred = subtract(as_type(data, "int32"), along(as_type(input_zero, "int32"), axis, ndim))
    factor = _ratio(
        along(as_type(input_scale, "float32"), axis, ndim), along(as_type(output_scale, "float32"), axis, ndim)
    )
    scaled = rounded(multiply(as_type(centred, "float32"), factor), attrs["rounding"])
    return saturated(add(scaled, along(as_type(output_zero, "float32"), axis, ndim)), attrs["out_dtype"])


def _ratio(a: Expr, b: Expr) -> Expr:
    constant = isinstance(a, Constant) and isinstance(b, Constant)
    return Constant(a.data / b.data) if constant else divide(a, b)  # type: ignore[attr-defined]


register_quantized(
    "qnn.requantize",
    5,
    _requantize_type,
    _requantize,
    follows=following.along_axis,
    axis=attr.integer(-1),
    rounding=attr.text("HALF_EVEN"),
    out_dtype=attr.dtype("int8"),
)


def requantize(
    data: Expr,
    input_scale: Any,
    input_zero_point: Any,
    output_scale: Any,
    output_zero_point: Any,
    axis: int = -1,
    rounding: str = "HALF_EVEN",
    out_dtype: str = "int8",
) -> Call:
    """The same real numbers at another scale: round((data - zero) * scale / new_scale) + new_zero, saturated.

    `rounding` of ties: HALF_EVEN (as ONNX asks), UPWARD or TONEAREST (away from zero; the classic two).
    """
    return quantized_call(
        "qnn.requantize", data, input_scale, input_zero_point, output_scale, output_zero_point,
        axis=axis, rounding=rounding, out_dtype=str(out_dtype),
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- simulated
#: The integer that tells a simulated operator its type at run time, and the range it then limits to.
SIMULATED_TYPES: dict[int, str] = {1: "int8", 2: "uint8", 3: "int32"}
#: The same by name, with that of no quantization.
SIMULATED_CODES: dict[str, int] = {"disable": 0, **{name: code for code, name in SIMULATED_TYPES.items()}}


def _simulated_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    check_parameters(types[2:], attrs["axis"], data)
    return data


def _parameters(attrs: Attrs, args: Sequence[Expr]) -> tuple[Expr, Expr]:
    ndim = tensor_type_of(args[0]).ndim
    return tuple(along(as_type(arg, "float32"), attrs["axis"], ndim) for arg in args[2:])  # type: ignore[return-value]


def _simulated_quantize(attrs: Attrs, args: Sequence[Expr]) -> Expr:
    data, code = args[0], args[1]
    scale, zero_point = _parameters(attrs, args)
    result: Expr = copy(data)
    for number, dtype in SIMULATED_TYPES.items():
        low, high = DType(dtype).limits()
        limited_ = clip(add(round(divide(data, scale)), zero_point), float(low), float(high))
        result = where(equal(code, const(number, "int32")), limited_, result)
    return result


def _simulated_dequantize(attrs: Attrs, args: Sequence[Expr]) -> Expr:
    data, code = args[0], args[1]
    scale, zero_point = _parameters(attrs, args)
    return where(equal(code, const(0, "int32")), data, multiply(subtract(data, zero_point), scale))


register_quantized("qnn.simulated_quantize", 4, _simulated_type, _simulated_quantize, axis=attr.integer(-1))
register_quantized("qnn.simulated_dequantize", 4, _simulated_type, _simulated_dequantize, axis=attr.integer(-1))


def _simulated_code(dtype: Any) -> Any:
    names = {name: code for code, name in SIMULATED_TYPES.items()}
    return dtype if isinstance(dtype, Expr) else names.get(str(dtype), 0)


def simulated_quantize(
    data: Expr, output_scale: Any, output_zero_point: Any, axis: int = -1, out_dtype: Any = "int8"
) -> Call:
    """`quantize` that stays in float32, with the type chosen at run time: a name or an int32 scalar expression.

    1 stands for int8, 2 for uint8, 3 for int32; any other number passes the data through.
    """
    code = _simulated_code(out_dtype)
    return quantized_call("qnn.simulated_quantize", data, code, output_scale, output_zero_point, axis=axis)


def simulated_dequantize(
    data: Expr, input_scale: Any, input_zero_point: Any, axis: int = -1, in_dtype: Any = "int8"
) -> Call:
    """`dequantize` of what `simulated_quantize` made; the type 0 passes the data through."""
    code = _simulated_code(in_dtype)
    return quantized_call("qnn.simulated_dequantize", data, code, input_scale, input_zero_point, axis=axis)


# The observer that classic quantization puts into a float graph.
def _observed_type(types: Types, attrs: Attrs) -> Type:
    require(attrs["rounding"] in ("round", "floor", "ceil", "stochastic_round"), f"rounding {attrs['rounding']!r}")
    return tensor(types[0])


def _observed(attrs: Attrs, args: Sequence[Expr]) -> Expr:
    data, dom_scale, clip_min, clip_max = args
    scaled = divide(data, dom_scale)
    whole = floor(scaled) if attrs["rounding"] == "floor" else round(scaled)
    if attrs["rounding"] == "ceil":
        whole = negative(floor(negative(scaled)))
    inside = where(less(whole, clip_min), clip_min, where(greater(whole, clip_max), clip_max, whole))
    return multiply(inside, dom_scale)


register_quantized(
    "relay.op.annotation.simulated_quantize",
    4,
    _observed_type,
    _observed,
    kind=attr.integer(1),
    sign=attr.flag(True),
    rounding=attr.text("round"),
)


def annotation_simulated_quantize(
    data: Expr,
    dom_scale: Any,
    clip_min: Any,
    clip_max: Any,
    kind: int = 1,
    sign: bool = True,
    rounding: str = "round",
) -> Call:
    """data rounded to whole multiples of `dom_scale` between `clip_min` and `clip_max` of them, still in float32."""
    parameters = [const(float(v)) if not isinstance(v, Expr) else v for v in (dom_scale, clip_min, clip_max)]
    return quantized_call(
        "relay.op.annotation.simulated_quantize", data, *parameters, kind=kind, sign=sign, rounding=rounding
    )
