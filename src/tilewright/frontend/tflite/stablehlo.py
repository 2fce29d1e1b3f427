"""Operators of StableHLO that the schema carries: those that are one plain operator on tensors without scales.

Their meaning is that of https://openxla.org/stablehlo/spec.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.frontend.idioms import along, broadcast_to, cast, concatenate, reshape, transpose
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "LOGISTIC": op.sigmoid, "ABS": op.abs, "NEGATE": op.negative, "COSINE": op.cos, "EXPONENTIAL": op.exp,
    "FLOOR": op.floor, "LOG": op.log, "RSQRT": op.rsqrt, "TANH": op.tanh,
}  # fmt: skip
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "ADD": op.add, "SUBTRACT": op.subtract, "MULTIPLY": op.multiply, "DIVIDE": op.divide, "MAXIMUM": op.maximum,
    "MINIMUM": op.minimum, "POWER": op.power, "REMAINDER": op.mod, "SHIFT_LEFT": op.left_shift,
}  # fmt: skip
_LOGIC = {"STABLEHLO_AND": (op.logical_and, op.bitwise_and), "STABLEHLO_OR": (op.logical_or, op.bitwise_or)}
_DIRECTIONS = (op.equal, op.not_equal, op.greater_equal, op.greater, op.less_equal, op.less)


def _plain(function: Callable[..., Expr], count: int) -> Callable[[Node], Expr]:
    """The converter of a function of tensors that are not quantized."""

    def convert(node: Node) -> Expr:
        if node.is_quantized():
            node.unsupported("quantized tensors")
        return function(*[node[index] for index in range(count)])

    return convert


converts.functions({f"STABLEHLO_{name}": _plain(function, 1) for name, function in _UNARY.items()})
converts.functions({f"STABLEHLO_{name}": _plain(function, 2) for name, function in _BINARY.items()})
converts.functions({
    "STABLEHLO_CBRT": lambda node: op.sign(node[0]) * op.power(op.abs(node[0]), 1 / 3),
    # least, data, largest
    "STABLEHLO_CLAMP": lambda node: op.minimum(op.maximum(node[1], node[0]), node[2]),
    "STABLEHLO_CONVERT": lambda node: cast(node[0], node.output().dtype),
    "STABLEHLO_CONCATENATE": lambda node: concatenate(node.given(), node.axis(int(node.option("dimension")))),
    "STABLEHLO_RESHAPE": lambda node: reshape(node[0], node.output().shape),
    "STABLEHLO_TRANSPOSE": lambda node: transpose(
        node[0], [node.axis(int(axis)) for axis in node.option("permutation")]
    ),
})  # fmt: skip


@converts(*_LOGIC)
def convert_logic(node: Node) -> Expr:
    of_bools, of_bits = _LOGIC[node.name]
    return (of_bools if node.dtype() == "bool" else of_bits)(node[0], node[1])


@converts("STABLEHLO_COMPARE")
def convert_compare(node: Node) -> Expr:
    direction = int(node.option("comparison_direction"))
    if direction >= len(_DIRECTIONS):
        node.bad(f"comparison {direction}; there are {len(_DIRECTIONS)}")
    return _DIRECTIONS[direction](node[0], node[1])


@converts("STABLEHLO_SLICE")
def convert_slice(node: Node) -> Expr:
    begin, end, strides = (
        tuple(int(value) for value in node.option(name)) for name in ("start_indices", "limit_indices", "strides")
    )
    if not len(begin) == len(end) == len(strides) == node.rank() or min(strides, default=1) < 1:
        node.bad(f"elements {begin} to {end} by {strides} of {node.rank()} axes")
    return op.strided_slice(node[0], begin=begin, end=end, strides=strides)


@converts("STABLEHLO_IOTA")
def convert_iota(node: Node) -> Expr:
    output = node.output()
    axis = node.axis(int(node.option("iota_dimension")), len(output.shape))
    counted = along(np.arange(output.shape[axis]), axis, len(output.shape), output.dtype)
    return broadcast_to(counted, output.shape)


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
