"""Classic `topi` functions made of Relay operators: one description is both the computation and its NumPy reference.

A description is a function from Relay expressions, and the other classic arguments, to a Relay expression.
`as_compute` makes of it a function of `te` tensors, `as_reference` one of NumPy arrays. An operator that Relay runs on
the host, such as the suppression of boxes, becomes an extern stage that calls its reference from the compiled code.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.backend.lower import compute_graph
from tilewright.errors import UnsupportedError
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.call_reference import call_reference
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType, TupleType, tensor_types
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.runtime.packed import register_func

Description = Callable[..., Expr]

_numbers = itertools.count()


def as_compute(describe: Description) -> Callable[..., Any]:
    """`describe` as a function of tensors; a list of tensors where the expression is a tuple."""

    @functools.wraps(describe)
    def compute(*args: Any, **kwargs: Any) -> Any:
        tensors: dict[Var, te.Tensor] = {}

        def lift(tensor: te.Tensor) -> Var:
            kind = TensorType([_dim(size) for size in tensor.shape], str(tensor.dtype))
            var = Var(f"p{len(tensors)}", kind)
            tensors[var] = tensor
            return var

        lifted, named = _map(args, te.Tensor, lift), _map(kwargs, te.Tensor, lift)
        body, params = _typed(_whole(describe(*lifted, **named)), list(tensors))
        made: dict[Expr, list[te.Tensor]] = {
            param: [tensor] for param, tensor in zip(params, tensors.values(), strict=True)
        }
        for node in post_order(body):
            if isinstance(node, Constant) and node.data.size != 1:
                made[node] = by_function("constant", [], [node.tensor_type], lambda data=node.data: data)
            elif isinstance(node, Call) and isinstance(node.op, Op) and node.op.compute is None:
                made[node] = _on_host(node, [t for arg in node.args for t in compute_graph(arg, made)])
        result = compute_graph(body, made)
        return list(result) if isinstance(body.checked_type, TupleType) else result[0]

    return compute


def as_reference(describe: Description) -> Callable[..., Any]:
    """`describe` as a function of NumPy arrays, by the references of its operators; a list where it is a tuple."""

    @functools.wraps(describe)
    def reference(*args: Any, **kwargs: Any) -> Any:
        made = _whole(describe(*_map(args, np.ndarray, Constant), **_map(kwargs, np.ndarray, Constant)))
        results = interpret(made, ())
        return results if isinstance(made, Tuple) or len(results) > 1 else results[0]

    return reference


def _whole(made: Any) -> Expr:
    """The tuple behind fields that unpack, or the expression itself."""
    return getattr(made, "tuple_value", made)


def _dim(size: Any) -> Any:
    return size.value if isinstance(size, tir.IntImm) else size


def _map(value: Any, kind: type, lift: Callable[[Any], Any]) -> Any:
    """`value` with everything of class `kind` in it lifted, within sequences and mappings too."""
    if isinstance(value, kind):
        return lift(value)
    if isinstance(value, dict):
        return {key: _map(item, kind, lift) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_map(item, kind, lift) for item in value])
    return value


def _typed(body: Expr, params: Sequence[Var]) -> tuple[Expr, Sequence[Var]]:
    """`body` in operators that have a computation or run on the host, with types, and its parameters there."""
    mod = infer_type(expand_operators(infer_type(IRModule.from_expr(Function(list(params), body)))))
    main = mod["main"]
    return main.body, main.params


def _on_host(call: Call, inputs: Sequence[te.Tensor]) -> list[te.Tensor]:
    """The results of a call of an operator that NumPy computes, from its flattened inputs."""
    assert isinstance(call.op, Op)
    types = tensor_types(call.checked_type)
    if not all(isinstance(size, int) for t in types for size in t.shape):
        raise UnsupportedError(
            f"topi: the size of the result of {call.op.name} depends on values, so it has no tensor expression; use "
            f"relay.{call.op.name} and compile the model"
        )
    return by_function(call.op.name, inputs, types, lambda *arrays: call_reference(call, arrays))


def by_function(
    label: str, inputs: Sequence[te.Tensor], types: Sequence[TensorType], function: Callable[..., Any]
) -> list[te.Tensor]:
    """Tensors of `types`, computed by `function` on arrays of the inputs, called from compiled code."""
    name = f"tilewright.compat.{label}.{next(_numbers)}"

    def run(*arrays: np.ndarray[Any, Any]) -> None:
        results = function(*arrays[: len(inputs)])
        flat = results if isinstance(results, tuple) else (results,)
        for position, result in zip(arrays[len(inputs) :], flat, strict=True):
            position[...] = np.reshape(result, position.shape)

    register_func(name, run)
    outputs = te.extern(
        [t.shape for t in types],
        list(inputs),
        lambda ins, outs: tir.Evaluate(tir.call_packed(name, *ins, *outs)),
        name=label.replace(".", "_"),
        dtype=[str(t.dtype) for t in types],
    )
    return list(outputs)
