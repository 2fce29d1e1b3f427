"""Relay, the graph IR: expressions, types, operators, modules.

from tilewright import relay
x = relay.var("x", shape=(1, 3, 224, 224))
mod = relay.IRModule.from_expr(relay.nn.relu(relay.nn.conv2d(x, relay.const(weights), padding=(1, 1))))
"""

from tilewright.relay import op, transform
from tilewright.relay.expr import (
    Attrs,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Tuple,
    TupleGetItem,
    Var,
    const,
    var,
)
from tilewright.relay.interpreter import interpret
from tilewright.relay.module import IRModule
from tilewright.relay.op import *  # noqa: F403  (the operators' builders, as listed in relay.op.__all__)
from tilewright.relay.printer import to_text
from tilewright.relay.structural import structural_equal, structural_hash
from tilewright.relay.type import FuncType, TensorType, TupleType

__all__ = [
    "Attrs",
    "Call",
    "Constant",
    "Expr",
    "FuncType",
    "Function",
    "GlobalVar",
    "IRModule",
    "If",
    "Let",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "Var",
    "const",
    "interpret",
    "op",
    "structural_equal",
    "structural_hash",
    "to_text",
    "transform",
    "var",
]
__all__ += op.__all__
