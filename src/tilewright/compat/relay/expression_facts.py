"""`relay.frontend.common`: what importers of other packages ask of an expression: its type, shape and value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.runtime.array import NDArray, array
from tilewright.relay.interpreter.interpreter import evaluate
from tilewright.relay.ir import infer_type as inference
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import free_vars


def _whole(expr: relay.Expr, mod: Any) -> Any:
    """The module `mod` with the expression as a function of its free variables."""
    base = relay.IRModule() if mod is None else mod
    func = expr if isinstance(expr, relay.Function) else relay.Function(free_vars(expr), expr)
    return base.with_function("main", func)


def infer_type(node: relay.Expr, mod: Any = None) -> relay.Expr:
    """An expression with its types inferred; functions that it calls are those of `mod`."""
    made = inference.infer_type(_whole(node, mod))["main"]
    return made if isinstance(node, relay.Function) else made.body


def infer_shape(inputs: relay.Expr, mod: Any = None) -> tuple[Any, ...]:
    """The shape of an expression."""
    return tuple(tensor_type_of(infer_type(inputs, mod)).shape)


def infer_value(input_val: relay.Expr, params: Mapping[str, Any], mod: Any = None) -> NDArray:
    """The value of an expression whose free variables have the values `params`."""
    values = [np.asarray(params[var.name]) for var in free_vars(input_val)]
    return array(np.asarray(evaluate(_whole(input_val, mod), values)))
