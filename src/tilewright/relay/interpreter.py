"""A slow and simple evaluator of Relay: each operator's NumPy `reference`, one call after another.

It is the yardstick of the graph passes and the frontends; the compiler does not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError, InternalError
from tilewright.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.module import IRModule
from tilewright.relay.transform.infer_type import infer_type
from tilewright.relay.type import TensorType, Type, tensor_types
from tilewright.relay.visitor import children

Value = Any  # an array, or a tuple of values
Environment = dict[Expr, Value]


def interpret(
    mod: IRModule | Function | Expr, inputs: Mapping[str, Any] | Sequence[Any], check: bool = True
) -> list[np.ndarray[Any, Any]]:
    """The outputs of `mod["main"]` on `inputs` (by parameter name or in order), tuples flattened to one list.

    With `check`, an operator whose reference gives another shape or dtype than its type rule is an internal error.
    """
    mod = infer_type(mod if isinstance(mod, IRModule) else IRModule.from_expr(mod))
    main = mod["main"]
    env: Environment = {}
    for index, param in enumerate(main.params):
        key: Any = param.name if isinstance(inputs, Mapping) else index
        try:
            value = np.asarray(inputs[key])
        except (KeyError, IndexError):
            raise InputError(f"no value for the input {param.name!r}") from None
        env[param] = _fed(param, value)
    return flatten(_Interpreter(mod, check).evaluate(main.body, env))


def flatten(value: Value) -> list[np.ndarray[Any, Any]]:
    """The arrays of a nested tuple, left to right."""
    return [leaf for item in value for leaf in flatten(item)] if isinstance(value, tuple) else [value]


def call_reference(call: Call, args: Sequence[Value], check: bool = True) -> Value:
    """Apply the reference of the operator of `call` to `args` (its types must be known)."""
    assert not isinstance(call.op, Function | GlobalVar)
    out_type = call.checked_type
    result = call.op.reference(call.attrs, *flatten(tuple(args)))
    if isinstance(out_type, TensorType):
        result = np.asarray(result)
    else:
        result = tuple(np.asarray(item) for item in result)
    if check:
        _check_result(call.op.name, result, out_type)
    return result


def _check_result(name: str, result: Value, out_type: Type) -> None:
    wanted = [(t.shape, t.dtype.numpy) for t in tensor_types(out_type)]
    got = [(leaf.shape, leaf.dtype) for leaf in flatten(result)]
    if wanted != got:
        raise InternalError(f"the reference of {name} gives {got}, its type rule says {wanted}")


def _fed(param: Var, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    type_ = param.checked_type
    assert isinstance(type_, TensorType)
    if value.shape != type_.shape or value.dtype != type_.dtype.numpy:
        raise InputError(f"the input {param.name!r} is {value.dtype}{list(value.shape)}, not {type_}")
    return value


class _Interpreter:
    """Evaluates expressions of one module, with an explicit stack so that depth is no limit."""

    def __init__(self, mod: IRModule, check: bool) -> None:
        self.mod = mod
        self.check = check

    def evaluate(self, root: Expr, env: Environment) -> Value:
        """The value of `root`; `env` holds the variables and, on return, every node that was evaluated."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in env:
                stack.pop()
                continue
            missing = [kid for kid in self._needed(node, env) if kid not in env]
            if missing:
                stack.extend(reversed(missing))
                continue
            env[node] = _EVALUATE[type(node)](self, node, env)
            stack.pop()
        return env[root]

    def _needed(self, node: Expr, env: Environment) -> tuple[Expr, ...]:
        if isinstance(node, If):
            if node.cond not in env:
                return (node.cond,)
            return (node.true_branch if env[node.cond] else node.false_branch,)
        if isinstance(node, Let):
            if node.value not in env:
                return (node.value,)
            env[node.var] = env[node.value]
            return (node.body,)
        return children(node)

    def call(self, node: Call, env: Environment) -> Value:
        """Apply an operator, a function of the module or a fused function."""
        args = [env[arg] for arg in node.args]
        func = self.mod[node.op] if isinstance(node.op, GlobalVar) else node.op
        if isinstance(func, Function):
            return self.evaluate(func.body, dict(zip(func.params, args, strict=True)))
        return call_reference(node, args, self.check)


def _unbound(_: _Interpreter, node: Var, env: Environment) -> Value:
    raise InternalError(f"the variable {node.name!r} is used where nothing binds it")


_EVALUATE: dict[type, Callable[..., Value]] = {
    Var: _unbound,
    Constant: lambda _, node, env: node.data,
    Tuple: lambda _, node, env: tuple([env[field] for field in node.fields]),
    TupleGetItem: lambda _, node, env: env[node.tuple_value][node.index],
    Call: _Interpreter.call,
    Let: lambda _, node, env: env[node.body],
    If: lambda _, node, env: env[node.true_branch if env[node.cond] else node.false_branch],
}
