"""Operators that call a function they are given become calls of it, so that no later stage knows such operators.

Before: call_lowered(@f, (%x, %y))
After:  @f(%x, %y)
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import FuncType
from tilewright.relay.ir.visitor import calls, rewrite
from tilewright.relay.op.composite import expand_call
from tilewright.relay.transform.simplify.expand_operators import is_composite


def expand_calls(mod: IRModule) -> IRModule:
    """Expand `call_lowered`, `vm.invoke_tvm_op` and `vm.shape_func`; the same module, typed, if there are none."""
    mod = infer_type(mod)
    if not any(_calls_operand(call) for func in mod.functions.values() for call in calls(func.body)):
        return mod
    return infer_type(mod.map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


def _rule(node: Expr) -> Expr | None:
    if not _calls_operand(node):
        return None
    assert isinstance(node, Call)
    return expand_call(node)


def _calls_operand(node: Expr) -> bool:
    if not is_composite(node):
        return False
    assert isinstance(node, Call)
    return any(isinstance(arg.inferred_type, FuncType) for arg in node.args)
