"""Relay, the graph IR: expressions, types, operators, modules.

from tilewright import relay
x = relay.var("x", shape=(1, 3, 224, 224))
mod = relay.IRModule.from_expr(relay.nn.relu(relay.nn.conv2d(x, relay.const(weights), padding=(1, 1))))
"""

from tilewright.relay import op, transform
from tilewright.relay.interpreter.interpreter import evaluate, interpret
from tilewright.relay.ir import visitor
from tilewright.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from tilewright.relay.ir.expr import (
    Attrs,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    const,
    var,
)
from tilewright.relay.ir.json import load_json, save_json
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.parser import fromtext, parse, parse_expr
from tilewright.relay.ir.printer import astext, to_text
from tilewright.relay.ir.structural import structural_equal, structural_hash
from tilewright.relay.ir.type import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    scalar_type,
)
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.op import *  # noqa: F403  (the operators' builders, as listed in relay.op.__all__)

__all__ = [
    "Any",
    "Attrs",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "Expr",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "IRModule",
    "If",
    "IncompleteType",
    "Kind",
    "Let",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefWrite",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeData",
    "TypeVar",
    "Var",
    "astext",
    "const",
    "evaluate",
    "fromtext",
    "interpret",
    "load_json",
    "op",
    "parse",
    "parse_expr",
    "save_json",
    "scalar_type",
    "structural_equal",
    "structural_hash",
    "tensor_type_of",
    "to_text",
    "transform",
    "type_of",
    "var",
    "visitor",
]
__all__ += op.__all__
