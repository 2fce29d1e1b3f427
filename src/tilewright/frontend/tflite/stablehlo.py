"""Operators of StableHLO that the schema carries: those that are one plain operator on tensors without scales.

Their meaning is that of https://openxla.org/stablehlo/spec.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.idioms import broadcast_to, cast, concatenate, constant, reshape, transpose
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "STABLEHLO_LOGISTIC": op.sigmoid,
    "STABLEHLO_ABS": op.abs,
    "STABLEHLO_NEGATE": op.negative,
    "STABLEHLO_COSINE": op.cos,
    "STABLEHLO_EXPONENTIAL": op.exp,
    "STABLEHLO_FLOOR": op.floor,
    "STABLEHLO_LOG": op.log,
    "STABLEHLO_RSQRT": op.rsqrt,
    "STABLEHLO_TANH": op.tanh,
}
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "STABLEHLO_ADD": op.add,
    "STABLEHLO_SUBTRACT": op.subtract,
    "STABLEHLO_MULTIPLY": op.multiply,
    "STABLEHLO_DIVIDE": op.divide,
    "STABLEHLO_MAXIMUM": op.maximum,
    "STABLEHLO_MINIMUM": op.minimum,
    "STABLEHLO_POWER": op.power,
    "STABLEHLO_REMAINDER": op.mod,
    "STABLEHLO_SHIFT_LEFT": op.left_shift,
}
_LOGIC = {"STABLEHLO_AND": (op.logical_and, op.bitwise_and), "STABLEHLO_OR": (op.logical_or, op.bitwise_or)}
_DIRECTIONS = (op.equal, op.not_equal, op.greater_equal, op.greater, op.less_equal, op.less)


def _plain(node: Node) -> None:
    """Refuse quantized tensors."""
    if node.is_quantized():
        node.unsupported("quantized tensors")


@converts(*_UNARY)
def convert_unary(node: Node) -> Expr:
    _plain(node)
    return _UNARY[node.name](node[0])


@converts("STABLEHLO_CBRT")
def convert_cbrt(node: Node) -> Expr:
    root = op.power(op.abs(node[0]), 1 / 3)
    return op.sign(node[0]) * root


@converts(*_BINARY)
def convert_binary(node: Node) -> Expr:
    _plain(node)
    return _BINARY[node.name](node[0], node[1])


@converts(*_LOGIC)
def convert_logic(node: Node) -> Expr:
    of_bools, of_bits = _LOGIC[node.name]
    return (of_bools if node.dtype() == "bool" else of_bits)(node[0], node[1])


@converts("STABLEHLO_COMPARE")
def convert_compare(node: Node) -> Expr:
    direction = int(node.option("comparison_direction"))
    if direction >= len(_DIRECTIONS):
        raise ModelError(f"{node.label}: comparison {direction}; there are {len(_DIRECTIONS)}")
    return _DIRECTIONS[direction](node[0], node[1])


@converts("STABLEHLO_CLAMP")
def convert_clamp(node: Node) -> Expr:
    """Inputs: least, data, largest."""
    return op.minimum(op.maximum(node[1], node[0]), node[2])


@converts("STABLEHLO_CONVERT")
def convert_convert(node: Node) -> Expr:
    return cast(node[0], node.output().dtype)


@converts("STABLEHLO_CONCATENATE")
def convert_concatenate(node: Node) -> Expr:
    return concatenate(node.given(), node.axis(int(node.option("dimension"))))


@converts("STABLEHLO_RESHAPE")
def convert_reshape(node: Node) -> Expr:
    return reshape(node[0], node.output().shape)


@converts("STABLEHLO_TRANSPOSE")
def convert_transpose(node: Node) -> Expr:
    return transpose(node[0], [node.axis(int(axis)) for axis in node.option("permutation")])


@converts("STABLEHLO_SLICE")
def convert_slice(node: Node) -> Expr:
    begin, end, strides = (
        tuple(int(value) for value in node.option(name)) for name in ("start_indices", "limit_indices", "strides")
    )
    if not len(begin) == len(end) == len(strides) == node.rank() or min(strides, default=1) < 1:
        raise ModelError(f"{node.label}: elements {begin} to {end} by {strides} of {node.rank()} axes")
    return op.strided_slice(node[0], begin=begin, end=end, strides=strides)


@converts("STABLEHLO_IOTA")
def convert_iota(node: Node) -> Expr:
    output = node.output()
    axis = node.axis(int(node.option("iota_dimension")), len(output.shape))
    counted = np.arange(output.shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(output.shape))])
    return broadcast_to(constant(counted, output.dtype), output.shape)


@converts("STABLEHLO_BROADCAST_IN_DIM")
def convert_broadcast_in_dim(node: Node) -> Expr:
    """Axis i of the data is axis `broadcast_dimensions[i]` of the output."""
    shape = node.output().shape
    axes = [node.axis(int(axis), len(shape)) for axis in node.option("broadcast_dimensions")]
    if len(axes) != node.rank() or sorted(axes) != axes:
        node.unsupported(f"axes {axes} of {node.rank()}, which are not in order")
    placed = [1] * len(shape)
    for axis, extent in zip(axes, node.shape()):
        placed[axis] = extent
    return broadcast_to(reshape(node[0], placed), shape)
