"""Comparisons and boolean operators."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.frontend.onnx.math import operands
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_COMPARE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Equal": op.equal,
    "Less": op.less,
    "LessOrEqual": op.less_equal,
    "Greater": op.greater,
    "GreaterOrEqual": op.greater_equal,
    "And": op.logical_and,
    "Or": op.logical_or,
    "Xor": op.logical_xor,
}


@converts(*_COMPARE)
def convert_compare(node: OnnxNode) -> Expr:
    """Broadcasting comparison or boolean operator."""
    return _COMPARE[node.op_type](*operands(node))


@converts("Not")
def convert_not(node: OnnxNode) -> Expr:
    """Boolean negation."""
    return op.logical_not(node[0])
