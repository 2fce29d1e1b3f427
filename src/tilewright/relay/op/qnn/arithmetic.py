"""Arithmetic of quantized tensors with broadcasting, each operand with a scale and zero point of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, Tuple
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import tensor as plain
from tilewright.relay.op import transform
from tilewright.relay.op.common import Types, broadcast_shapes, call, require_same_dtype, tensors, tuple_of_tensors
from tilewright.relay.op.qnn.canonical import (
    as_parameter,
    fields_of,
    quantized_call,
    register_quantized,
)
from tilewright.relay.op.qnn.quantize import dequantize, quantize
from tilewright.support.named import named


def _binary_type(types: Types, _attrs: Attrs) -> Type:
    lhs, rhs = tensors(types[:2])
    require_same_dtype(lhs, rhs)
    return TensorType(broadcast_shapes(lhs.shape, rhs.shape), lhs.dtype)


def _binary(name: str, function: Callable[[Expr, Expr], Expr], doc: str) -> Callable[..., Call]:
    def canonical(attrs: Attrs, args: Sequence[Expr]) -> Expr:
        lhs, rhs, lhs_scale, lhs_zero, rhs_scale, rhs_zero, out_scale, out_zero = args
        left = dequantize(lhs, lhs_scale, lhs_zero, axis=attrs["lhs_axis"])
        right = dequantize(rhs, rhs_scale, rhs_zero, axis=attrs["rhs_axis"])
        return quantize(function(left, right), out_scale, out_zero, out_dtype=str(tensor_type_of(lhs).dtype))

    register_quantized(name, 8, _binary_type, canonical, lhs_axis=attr.integer(-1), rhs_axis=attr.integer(-1))

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


add = _binary("qnn.add", plain.add, "lhs + rhs, quantized to the output's scale and zero point.")
subtract = _binary("qnn.subtract", plain.subtract, "lhs - rhs, quantized to the output's scale and zero point.")
mul = _binary("qnn.mul", plain.multiply, "lhs * rhs, quantized to the output's scale and zero point.")


def _concatenate_type(types: Types, attrs: Attrs) -> Type:
    return get("concatenate").type_rule([TupleType(tuple_of_tensors(types[0]))], attrs)


def _concatenate(attrs: Attrs, args: Sequence[Expr]) -> Expr:
    data, scales, zero_points = (fields_of(arg) for arg in args[:3])
    parts = [dequantize(d, s, z) for d, s, z in zip(data, scales, zero_points, strict=True)]
    joined = transform.concatenate(Tuple(parts), axis=attrs["axis"])
    return quantize(joined, args[3], args[4], out_dtype=str(tensor_type_of(data[0]).dtype))


register_quantized("qnn.concatenate", 5, _concatenate_type, _concatenate, axis=attr.integer(0))


def concatenate(
    data: Any, input_scales: Any, input_zero_points: Any, output_scale: Any, output_zero_point: Any, axis: int = 0
) -> Call:
    """Quantized tensors joined along `axis`, each brought to the output's scale and zero point."""
    values = data if isinstance(data, Expr) else Tuple(tuple(data))
    parameters = [as_parameter(v) for v in (input_scales, input_zero_points, output_scale, output_zero_point)]
    return call("qnn.concatenate", values, *parameters, axis=axis)
