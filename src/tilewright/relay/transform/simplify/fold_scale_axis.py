"""Scaling by a constant per channel moves into the constant weights of the convolution or product before it.

Before: multiply(add(nn.conv2d(%x, w), b), s)       (b and s: one number per output channel)
After:  add(nn.conv2d(%x, w * s), b * s)

This removes the multiplication of a batch norm that follows a convolution; its shift stays as the bias. A value that
something else reads too keeps its scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, merge_spans
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild
from tilewright.relay.transform.simplify.make import is_call

Array = np.ndarray[Any, Any]


def fold_scale_axis(mod: IRModule) -> IRModule:
    """Fold constant per-channel multiplications into the weights they follow; see the module's docstring."""
    return mod.map_functions(lambda func: func.with_body(_transform(func.body)))


def _transform(root: Expr) -> Expr:
    nodes = post_order(root)
    users = consumers(nodes)
    done: dict[Expr, Expr] = {}
    shared: set[Expr] = set()
    for node in nodes:
        fresh = rebuild(node, tuple([done[kid] for kid in children(node)]))
        if is_call(fresh, "multiply"):
            fresh = _fold(fresh, shared) or fresh
        done[node] = fresh
        if len(users[node]) != 1:
            shared.add(fresh)
    return done[root]


def _fold(call: Expr, shared: set[Expr]) -> Expr | None:
    """`call`, a multiplication, without its constant factor; None if the factor cannot move into weights."""
    assert isinstance(call, Call)
    operands = sorted(call.args, key=lambda arg: isinstance(arg, Constant))
    data, factor = operands
    if not isinstance(factor, Constant) or isinstance(data, Constant):
        return None
    if tensor_type_of(call).shape != tensor_type_of(data).shape:
        return None
    return _scaled(data, factor.data, shared, call)


def _scaled(expr: Expr, factor: Array, shared: set[Expr], scaling: Call) -> Expr | None:
    """`expr * factor` with the factor inside the weights, or None."""
    if expr in shared or not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return None
    if is_call(expr, "add"):
        data, bias = sorted(expr.args, key=lambda arg: isinstance(arg, Constant))
        if not isinstance(bias, Constant) or tensor_type_of(data) != tensor_type_of(expr):
            return None
        inner = _scaled(data, factor, shared, scaling)
        if inner is None:
            return None
        return Call(expr.op, [inner, Constant(bias.data * factor)], expr.attrs, merge_spans(expr, scaling))
    scale_weight = expr.op.scaled_weights
    if scale_weight is None or not isinstance(expr.args[1], Constant):
        return None
    axis = 1 if "data_layout" in expr.attrs else -1
    per_channel = _channel_vector(factor, axis, tensor_type_of(expr).shape)
    layout_is_plain = (
        expr.attrs.get("out_layout") in (None, "", "NCHW") and expr.attrs.get("data_layout", "NCHW") == "NCHW"
    )
    if per_channel is None or not layout_is_plain:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        weight = scale_weight(expr.args[1].data, per_channel, expr.attrs)
    if not np.isfinite(weight).all():  # what the sum of products might not be
        return None
    args = [expr.args[0], Constant(np.ascontiguousarray(weight)), *expr.args[2:]]
    return Call(expr.op, args, expr.attrs, merge_spans(expr, scaling))


def _channel_vector(factor: Array, axis: int, shape: tuple[int, ...]) -> Array | None:
    """`factor` as one number per channel, if it varies along the channel axis of a result of `shape` only."""
    full = (1,) * (len(shape) - factor.ndim) + factor.shape
    axis %= len(shape)
    if any(extent != 1 for index, extent in enumerate(full) if index != axis):
        return None
    return np.broadcast_to(factor.reshape(-1), (shape[axis],))
