"""Type inference: every node gets its `checked_type`, or one error names the call that does not fit.

Before: def @main(%x: Tensor[(1, 3), float32]) { nn.relu(%x) }
After:  def @main(%x: Tensor[(1, 3), float32]) -> Tensor[(1, 3), float32] { nn.relu(%x) /* ty=… */ }

A type is a function of the node, which is immutable, so it is kept with the node and never computed twice: after a
rewrite only new nodes cost anything.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.errors import TypeMismatchError
from tilewright.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.module import IRModule
from tilewright.relay.type import FuncType, TensorType, TupleType, Type
from tilewright.relay.visitor import children
from tilewright.support.dtype import DType


def infer_type(mod: IRModule) -> IRModule:
    """Derive the type of every node of every function of `mod`, and return `mod`.

    Raises `TypeMismatchError` naming operator, source node, attributes and argument types of the first call that does
    not fit, or the variable without a type.
    """
    pending = list(mod.functions)
    while pending:
        gvar = pending.pop()
        if gvar.inferred_type is not None and mod[gvar].inferred_type is not None:
            continue
        waiting = [callee for callee in _callees(mod[gvar]) if callee.inferred_type is None and callee in mod.functions]
        if waiting and gvar not in waiting:
            pending += [gvar, *waiting]
            continue
        gvar.set_inferred_type(type_of(mod[gvar]))
    return mod


def type_of(expr: Expr) -> Type:
    """The type of `expr`, derived now if it is not known yet. Iterative: depth is no limit."""
    found = expr.inferred_type
    if found is not None:
        return found
    stack = [expr]
    while stack:
        node = stack[-1]
        if node.inferred_type is not None:
            stack.pop()
            continue
        if isinstance(node, Let) and node.var.inferred_type is None:
            if node.value.inferred_type is None:
                stack.append(node.value)
                continue
            node.var.set_inferred_type(node.var.type_annotation or node.value.checked_type)
        missing = [kid for kid in _needed(node) if kid.inferred_type is None]
        if missing:
            stack.extend(reversed(missing))
            continue
        node.set_inferred_type(_RULES[type(node)](node))
        stack.pop()
    return expr.checked_type


def tensor_type_of(expr: Expr) -> TensorType:
    """The type of a tensor-valued `expr`; `TypeMismatchError` if it is a tuple or function."""
    found = type_of(expr)
    if not isinstance(found, TensorType):
        raise TypeMismatchError(f"a tensor is needed here, not {found}")
    return found


def _callees(func: Function) -> list[GlobalVar]:
    from tilewright.relay.visitor import calls

    return [call.op for call in calls(func.body) if isinstance(call.op, GlobalVar)]


def _needed(node: Expr) -> tuple[Expr, ...]:
    if isinstance(node, Function):
        return (*node.params, node.body)
    if isinstance(node, Call) and isinstance(node.op, Function):
        return (*node.args, node.op)
    return children(node)


def _var_type(node: Var) -> Type:
    if node.type_annotation is None:
        raise TypeMismatchError(f"the variable {node.name!r} has no type; give it a shape: relay.var(name, shape=…)")
    return node.type_annotation


def _get_item_type(node: TupleGetItem) -> Type:
    type_ = node.tuple_value.checked_type
    if not isinstance(type_, TupleType) or not 0 <= node.index < len(type_.fields):
        raise TypeMismatchError(f"field {node.index} is taken of a value of type {type_}")
    return type_.fields[node.index]


def _function_type(node: Function) -> Type:
    body = node.body.checked_type
    if node.ret_type is not None and node.ret_type != body:
        raise TypeMismatchError(f"a function is declared to return {node.ret_type}, but its body is {body}")
    return FuncType([param.checked_type for param in node.params], body)


def _if_type(node: If) -> Type:
    cond, true, false = (kid.checked_type for kid in children(node))
    if cond != TensorType((), "bool"):
        raise TypeMismatchError(f"the condition of an If must be a scalar bool, not {cond}")
    if true != false:
        raise TypeMismatchError(f"the branches of an If have different types: {true} and {false}")
    return true


def _global_type(node: GlobalVar) -> Type:
    raise TypeMismatchError(f"@{node.name} is called but is not a function of the module")


def _call_type(node: Call) -> Type:
    arg_types = [arg.checked_type for arg in node.args]
    if isinstance(node.op, Function | GlobalVar):
        return _callee_type(node, arg_types)
    op = node.op
    if op.num_inputs not in (-1, len(arg_types)):
        raise _mismatch(node, f"it takes {op.num_inputs} inputs and got {len(arg_types)}")
    try:
        return op.type_rule(arg_types, node.attrs)
    except TypeMismatchError as error:
        raise _mismatch(node, str(error)) from None


def _callee_type(node: Call, arg_types: list[Type]) -> Type:
    callee = type_of(node.op)  # type: ignore[arg-type]
    assert isinstance(callee, FuncType)
    if list(callee.arg_types) != arg_types:
        raise _mismatch(node, f"the function takes ({', '.join(map(str, callee.arg_types))})")
    return callee.ret_type


def _mismatch(node: Call, reason: str) -> TypeMismatchError:
    name = getattr(node.op, "name", "a fused function")
    where = f" (from {node.span})" if node.span else ""
    args = ", ".join(str(arg.checked_type) for arg in node.args)
    attrs = f", {node.attrs!r}" if node.attrs else ""
    return TypeMismatchError(f"{name}({args}{attrs}){where}: {reason}")


_RULES: dict[type, Callable[..., Type]] = {
    Var: _var_type,
    Constant: lambda node: TensorType(node.data.shape, DType(node.data.dtype)),
    Tuple: lambda node: TupleType([kid.checked_type for kid in node.fields]),
    TupleGetItem: _get_item_type,
    Call: _call_type,
    Let: lambda node: node.body.checked_type,
    If: _if_type,
    GlobalVar: _global_type,
    Function: _function_type,
}
