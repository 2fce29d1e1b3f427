"""Arithmetic of quantized tensors with broadcasting, each operand with a scale and zero point of its own.

The values are those of real numbers rounded once, to even on ties. With the attribute `rounding` of `requantize`, sums
and parts of concatenations are brought to the output's scale one by one, each rounded so, as the classic stack does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, Tuple
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import following, transform
from tilewright.relay.op import tensor as plain
from tilewright.relay.op.common import Types, broadcast_shapes, call, require_same_dtype, tensors, tuple_of_tensors
from tilewright.relay.op.qnn.canonical import (
    as_parameter,
    as_type,
    fields_of,
    quantized_call,
    register_quantized,
)
from tilewright.relay.op.qnn.quantize import dequantize, quantize, requantize, saturated
from tilewright.support.named import named


def _binary_type(types: Types, _attrs: Attrs) -> Type:
    lhs, rhs = tensors(types[:2])
    require_same_dtype(lhs, rhs)
    return TensorType(broadcast_shapes(lhs.shape, rhs.shape), lhs.dtype)


#: What an operator is with a rounding: of its attributes, arguments and that rounding.
_Stepwise = Callable[[Attrs, Sequence[Expr], str], Expr]


def _binary(name: str, function: Callable[[Expr, Expr], Expr], stepwise: _Stepwise, doc: str) -> Callable[..., Call]:
    def canonical(attrs: Attrs, args: Sequence[Expr]) -> Expr:
        lhs, rhs, lhs_scale, lhs_zero, rhs_scale, rhs_zero, out_scale, out_zero = args
        if rounding := attrs.get("rounding", ""):
            return stepwise(attrs, args, rounding)
        left = dequantize(lhs, lhs_scale, lhs_zero, axis=attrs["lhs_axis"])
        right = dequantize(rhs, rhs_scale, rhs_zero, axis=attrs["rhs_axis"])
        return quantize(function(left, right), out_scale, out_zero, out_dtype=str(tensor_type_of(lhs).dtype))

    register_quantized(
        name, 8, _binary_type, canonical, follows=following.quantized_elementwise,
        lhs_axis=attr.integer(-1), rhs_axis=attr.integer(-1), rounding=attr.text(attr.ABSENT),
    )  # fmt: skip

    def build(
        lhs: Expr,
        rhs: Expr,
        lhs_scale: Any,
        lhs_zero_point: Any,
        rhs_scale: Any,
        rhs_zero_point: Any,
        output_scale: Any,
        output_zero_point: Any,
        lhs_axis: int = -1,
        rhs_axis: int = -1,
    ) -> Call:
        parameters = (lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, output_scale, output_zero_point)
        return quantized_call(name, lhs, rhs, *parameters, lhs_axis=lhs_axis, rhs_axis=rhs_axis)

    short = name.rpartition(".")[2]
    return named(build, short, doc)


def rounded_each(made: Call, rounding: str) -> Call:
    """The sum, product or concatenation `made` with its operands rounded one by one; see the module's docstring."""
    return Call(made.op, made.args, made.attrs.replace(rounding=rounding), made.span)


def _sum_of(function: Callable[[Expr, Expr], Expr], restored: Callable[[Expr, Expr], Expr]) -> _Stepwise:
    """Both operands at the output's scale, then `function` of them, whose zero point `restored` puts right."""

    def stepwise(attrs: Attrs, args: Sequence[Expr], rounding: str) -> Expr:
        lhs, rhs, lhs_scale, lhs_zero, rhs_scale, rhs_zero, out_scale, out_zero = args
        left = requantize(lhs, lhs_scale, lhs_zero, out_scale, out_zero, attrs["lhs_axis"], rounding, "int32")
        right = requantize(rhs, rhs_scale, rhs_zero, out_scale, out_zero, attrs["rhs_axis"], rounding, "int32")
        total = restored(function(left, right), as_type(out_zero, "int32"))
        return saturated(total, str(tensor_type_of(lhs).dtype))

    return stepwise


def _product(attrs: Attrs, args: Sequence[Expr], rounding: str) -> Expr:
    """The product of the integers, which has the product of the scales, brought to the output's."""
    lhs, rhs, lhs_scale, lhs_zero, rhs_scale, rhs_zero, out_scale, out_zero = args
    left = plain.subtract(as_type(lhs, "int32"), as_type(lhs_zero, "int32"))
    right = plain.subtract(as_type(rhs, "int32"), as_type(rhs_zero, "int32"))
    scale = plain.multiply(lhs_scale, rhs_scale)
    dtype = str(tensor_type_of(lhs).dtype)
    return requantize(plain.multiply(left, right), scale, 0, out_scale, out_zero, -1, rounding, dtype)


add = _binary(
    "qnn.add",
    plain.add,
    _sum_of(plain.add, plain.subtract),
    "lhs + rhs, quantized to the output's scale and zero point.",
)
subtract = _binary(
    "qnn.subtract", plain.subtract, _sum_of(plain.subtract, plain.add),
    "lhs - rhs, quantized to the output's scale and zero point.",
)  # fmt: skip
mul = _binary("qnn.mul", plain.multiply, _product, "lhs * rhs, quantized to the output's scale and zero point.")


def _concatenate_type(types: Types, attrs: Attrs) -> Type:
    return get("concatenate").type_rule([TupleType(tuple_of_tensors(types[0]))], attrs)


def _concatenate(attrs: Attrs, args: Sequence[Expr]) -> Expr:
    data, scales, zero_points = (fields_of(arg) for arg in args[:3])
    dtype = str(tensor_type_of(data[0]).dtype)
    if rounding := attrs.get("rounding", ""):
        parts = [
            requantize(d, s, z, args[3], args[4], rounding=rounding, out_dtype=dtype)
            for d, s, z in zip(data, scales, zero_points, strict=True)
        ]
        return transform.concatenate(Tuple(parts), axis=attrs["axis"])
    parts = [dequantize(d, s, z) for d, s, z in zip(data, scales, zero_points, strict=True)]
    joined = transform.concatenate(Tuple(parts), axis=attrs["axis"])
    return quantize(joined, args[3], args[4], out_dtype=dtype)


register_quantized(
    "qnn.concatenate",
    5,
    _concatenate_type,
    _concatenate,
    follows=following.joined,
    axis=attr.integer(0),
    rounding=attr.text(attr.ABSENT),
)


def concatenate(
    data: Any, input_scales: Any, input_zero_points: Any, output_scale: Any, output_zero_point: Any, axis: int = 0
) -> Call:
    """Quantized tensors joined along `axis`, each brought to the output's scale and zero point."""
    values = data if isinstance(data, Expr) else Tuple(tuple(data))
    parameters = [as_parameter(v) for v in (input_scales, input_zero_points, output_scale, output_zero_point)]
    return call("qnn.concatenate", values, *parameters, axis=axis)
