"""Scaling the input channels of a convolution by a constant moves into the constant weights that read them.

Before: nn.conv2d(nn.relu(multiply(%x, s)), w)                          (s: one positive number per input channel)
After:  nn.conv2d(nn.relu(%x), w * s)

The scale travels forward through relu and pooling, over which positive numbers may move, to a convolution without
padding of other values than zero. `fold_scale_axis` is the other direction: a scale that follows a convolution.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, merge_spans
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import consumers, post_order, rewrite
from tilewright.relay.transform.simplify.make import is_call


def forward_fold_scale_axis(mod: IRModule) -> IRModule:
    """Move scales into the weights that follow; see the module's docstring."""
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(_transform(func.body))))


def _transform(root: Expr) -> Expr:
    users = consumers(post_order(root))
    shared = {node for node, readers in users.items() if len(readers) != 1}

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not is_call(node, "nn.conv2d", "nn.dense"):
            return None
        return _folded(node, shared)

    return rewrite(root, rule)


def _folded(call: Call, shared: set[Expr]) -> Expr | None:
    """`call` on unscaled data with scaled weights; None if no scale reaches it."""
    data, weight = call.args
    conv = is_call(call, "nn.conv2d")
    plain = (
        call.attrs.groups == 1 and (call.attrs.data_layout, call.attrs.kernel_layout) == ("NCHW", "OIHW")
        if conv
        else call.attrs.get("weight_layout", "NC") in ("", "NC")
    )  # fmt: skip
    if not plain or not isinstance(weight, Constant):
        return None
    found = _unscaled(data, 1 if conv else tensor_type_of(data).ndim - 1, shared)
    if found is None:
        return None
    unscaled, factor = found
    scaled = weight.data * factor.reshape(1, -1, *(1,) * (weight.data.ndim - 2))
    return Call(call.op, [unscaled, Constant(np.ascontiguousarray(scaled))], call.attrs, merge_spans(data, call))


def _unscaled(expr: Expr, axis: int, shared: set[Expr]) -> tuple[Expr, np.ndarray] | None:
    """`expr` without its scale, and the scale as one number per channel; the scale must be positive to pass others."""
    if not isinstance(expr, Call) or expr in shared:
        return None
    if isinstance(expr.op, Op) and expr.op.homogeneous:
        found = _unscaled(expr.args[0], axis, shared)
        if found is None or not np.all(found[1] > 0) or (axis != 1 and expr.op.spatial_axes):
            return None
        return Call(expr.op, [found[0], *expr.args[1:]], expr.attrs, expr.span), found[1]
    if not is_call(expr, "multiply"):
        return None
    data, factor = sorted(expr.args, key=lambda arg: isinstance(arg, Constant))
    if not isinstance(factor, Constant) or isinstance(data, Constant):
        return None
    shape = tensor_type_of(expr).shape
    if tensor_type_of(data).shape != shape:
        return None
    full = (1,) * (len(shape) - factor.data.ndim) + factor.data.shape
    if any(extent != 1 for index, extent in enumerate(full) if index != axis):
        return None
    return data, np.broadcast_to(factor.data.reshape(-1), (shape[axis],))
