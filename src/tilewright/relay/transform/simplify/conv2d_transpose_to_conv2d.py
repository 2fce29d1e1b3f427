"""A transposed convolution with constant weights becomes a plain one of the image with zeros between its pixels.

Before: nn.conv2d_transpose(%x, w, strides=[2, 2], padding=[1, 1, 1, 1])                          (w: [C, O, 4, 4])
After:  %0 = nn.dilate(%x, strides=[1, 1, 2, 2]); nn.conv2d(%0, w', padding=[2, 2, 2, 2])          (w': [O, C, 4, 4])

For machines whose one way to convolve is the plain one. It multiplies the zeros too, so it is not for those that have a
way of their own. Groups stay groups; what a transposed convolution cuts off beyond its window stays as it is.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.simplify.make import is_call, make


def conv2d_transpose_to_conv2d(mod: IRModule) -> IRModule:
    """Rewrite every transposed convolution of NCHW data that can be; see the module's docstring."""
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not is_call(node, "nn.conv2d_transpose"):
        return None
    attrs, weight = node.attrs, node.args[1]
    if not isinstance(weight, Constant) or (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "IOHW"):
        return None
    window = [(size - 1) * step for size, step in zip(weight.data.shape[2:], attrs.dilation)]
    top, left, bottom, right = attrs.padding
    more = attrs.output_padding
    padding = window[0] - top, window[1] - left, window[0] - bottom + more[0], window[1] - right + more[1]
    if min(padding) < 0:
        return None
    spread = node.args[0]
    if any(stride != 1 for stride in attrs.strides):
        spread = make("nn.dilate", spread, strides=(1, 1, *attrs.strides), dilation_value=0.0, span=node.span)
    turned = Constant(_turned(weight.data, attrs.groups))
    plain = make(
        "nn.conv2d", spread, turned, padding=padding, dilation=attrs.dilation, groups=attrs.groups,
        out_dtype=attrs.out_dtype, span=node.span,
    )  # fmt: skip
    return plain if type_of(plain) == type_of(node) else None


def _turned(weight: np.ndarray, groups: int) -> np.ndarray:
    """Weights [C, O / groups, KH, KW] as those of the plain convolution: [O, C / groups, KH, KW], turned by 180°."""
    inputs, units, *window = weight.shape
    parts = weight[:, :, ::-1, ::-1].reshape(groups, inputs // groups, units, *window)
    return np.ascontiguousarray(parts.swapaxes(1, 2).reshape(groups * units, inputs // groups, *window))
