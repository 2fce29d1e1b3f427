"""Small groups of convolutions become wider ones, whose channels fill whole vectors.

Before: nn.conv2d(%x, w, groups=32)                %x: [1, 128, H, W], w: [128, 4, 3, 3]
After:  nn.conv2d(%x, w', groups=8, joined=4)      w': [128, 16, 3, 3], zeros between channels of different groups

The backend says where that pays: the vectors of a blocked kernel are of neighbouring output
channels. Depthwise convolutions, which have kernels of their own, and weights that are no constants stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.layout_rules import conv2d_workload

Array = np.ndarray[Any, Any]


def widen_groups(mod: IRModule, backend: GraphBackend) -> IRModule:
    """The module with groups joined where their blocked kernel needs it; see the module's docstring."""
    conv2d = get("nn.conv2d")

    def widen(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op is not conv2d or node.attrs.groups == 1:
            return None
        data, weight = node.args
        plain = (node.attrs.data_layout, node.attrs.kernel_layout) == ("NCHW", "OIHW")
        if not isinstance(weight, Constant) or not plain or not isinstance(tensor_type_of(data).shape[1], int):
            return None
        shape = conv2d_workload(node.attrs, (tensor_type_of(data), tensor_type_of(weight)))
        joined = backend.groups_to_join(shape)
        if joined == 1:
            return None
        wide = Constant(_block_diagonal(weight.data, shape.groups, joined))
        attrs = node.attrs.replace(groups=shape.groups // joined, joined=joined)
        return Call(conv2d, [data, wide], attrs, node.span)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, widen))))


def _block_diagonal(weights: Array, groups: int, joined: int) -> Array:
    """[O, I, KH, KW] for groups of I input channels as [O, joined * I, KH, KW] for `groups` / `joined` groups."""
    outputs, inputs, *window = weights.shape
    filters = outputs // groups
    wide = np.zeros((groups // joined, joined, filters, joined, inputs, *window), weights.dtype)
    parts = weights.reshape(groups // joined, joined, filters, inputs, *window)
    for i in range(joined):
        wide[:, i, :, i] = parts[:, i]
    return wide.reshape(outputs, joined * inputs, *window)
