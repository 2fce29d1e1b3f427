"""Shared parts of the gradient tables: the types of a call's arguments, and undoing a broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, element_type
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.ir.type import TensorType
from tilewright.relay.op import reduce
from tilewright.relay.op.transform import reshape

#: (call, gradient of its result, its arguments …) -> gradient of one argument
Rule = Callable[..., Expr]


def tensor_type(expr: Expr) -> TensorType:
    """The type of a tensor-valued expression whose type is known."""
    found = expr.checked_type
    assert isinstance(found, TensorType), f"a tensor is needed, not {found}"
    return found


def shape_of(expr: Expr) -> tuple[Any, ...]:
    """The shape of a tensor-valued expression whose type is known."""
    return tensor_type(expr).shape


def number(value: float, like: Expr) -> Constant:
    """`value` as a scalar of the dtype of `like`."""
    dtype = element_type(like)
    assert dtype is not None, "a tensor is needed"
    return Constant(np.asarray(value, dtype.numpy))


def count(expr: Expr, axes: Sequence[int]) -> int:
    """Elements of `expr` along `axes`."""
    shape = shape_of(expr)
    return math.prod(shape[a] for a in axes)


def reshape_like(data: Expr, like: Expr) -> Expr:
    """`data` under the shape of `like`, whose type is known."""
    return reshape(data, shape_of(like))


def unbroadcast(gradient: Expr, shape: Sequence[Any], like: Expr) -> Expr:
    """`gradient`, of `shape`, summed over the axes along which `like` was broadcast to that shape."""
    own = shape_of(like)
    if own == tuple(shape):
        return gradient
    lead = len(shape) - len(own)
    repeated = [d for d, size in enumerate(own, lead) if size == 1 and shape[d] != 1]
    axes = [*range(lead), *repeated]
    return reshape(reduce.sum(gradient, axis=axes), own) if axes else gradient


def elementwise(rules: Mapping[str, Rule]) -> None:
    """Enter gradients of operators of one tensor: `rule(gradient, x, result)`."""
    for name, rule in rules.items():
        set_gradient(name, _elementwise_gradient(rule))


def _elementwise_gradient(rule: Rule) -> Callable[[Call, Expr], list[Expr | None]]:
    return lambda call, g: [rule(g, call.args[0], call)]


def broadcasting(rules: Mapping[str, Sequence[Rule | None]]) -> None:
    """Enter gradients of operators with broadcasting: one `rule(gradient, *args)` an argument, or None."""
    for name, parts in rules.items():
        set_gradient(name, _broadcast_gradient(parts))


def _broadcast_gradient(parts: Sequence[Rule | None]) -> Callable[[Call, Expr], list[Expr | None]]:
    def gradient(call: Call, g: Expr) -> list[Expr | None]:
        shape = shape_of(call)
        return [
            None if rule is None else unbroadcast(rule(g, *call.args), shape, arg)
            for rule, arg in zip(parts, call.args, strict=True)
        ]

    return gradient


def constant_pieces(*names: str) -> None:
    """Enter operators whose result does not change with a small change of their inputs: nothing flows back."""
    for name in names:
        set_gradient(name, lambda call, _g: [None] * len(call.args))
