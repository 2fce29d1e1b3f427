"""Control flow that import time can decide."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.relay.expr import Expr


@converts("If")
def convert_if(node: OnnxNode) -> Sequence[Expr | None]:
    """The branch that a constant condition selects, converted in place."""
    then_branch, else_branch = node.require("then_branch"), node.require("else_branch")
    condition = node.array(0)
    if condition is None:
        node.unsupported(
            f"its condition {node.proto.input[0]!r} is computed at run time; "
            "only conditions known at compile time are supported"
        )
    return node.importer.subgraph(then_branch if bool(condition.reshape(-1)[0]) else else_branch, node)
