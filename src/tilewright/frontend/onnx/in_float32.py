"""Composites of 16-bit floats: computed in float32, rounded once at the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps

from tilewright.frontend.converters import Converter
from tilewright.frontend.idioms import cast, constant
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.signature import apply
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.support.dtype import DType


def in_float32(converter: Converter, statistics: Sequence[int] = ()) -> Converter:
    """`converter`, given inputs of 16-bit floats as float32; its float outputs then have the type of the first input.

    For operators of several steps that would each round: Softplus of bfloat16 by steps is 16 % off at -3. Outputs of
    the numbers `statistics` stay float32, as ONNX has it for LayerNormalization.
    """

    @wraps(converter)
    def converted(node: OnnxNode) -> Expr | Sequence[Expr | None]:
        given = node.inputs
        if not any(_is_half(value) for value in given):
            return apply(converter, node)
        narrow = node.dtype() if _is_half(given[0]) else None
        node.inputs = [_widened(value) for value in given]
        try:
            made = apply(converter, node)
        finally:  # a node that the converter refuses may still run on the host, on what it was given
            node.inputs = given
        if narrow is None:
            return made
        if isinstance(made, Expr):
            return _rounded(node, made, narrow)
        return [
            value if value is None or index in statistics else _rounded(node, value, narrow)
            for index, value in enumerate(made)
        ]

    return converted


def _is_half(value: Expr | None) -> bool:
    kind = None if value is None else type_of(value)
    return isinstance(kind, TensorType) and kind.dtype.is_half


def _widened(value: Expr | None) -> Expr | None:
    if value is None or not _is_half(value):
        return value
    if isinstance(value, Constant):
        return constant(value.data, "float32")
    return op.cast(value, dtype="float32")


def _rounded(node: OnnxNode, value: Expr, dtype: DType) -> Expr:
    return cast(value, dtype) if node.dtype(value) == "float32" else value
