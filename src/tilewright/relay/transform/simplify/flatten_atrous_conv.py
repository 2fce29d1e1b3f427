"""A convolution between space-to-batch and batch-to-space becomes one dilated convolution.

Before: %0 = nn.space_to_batch_nd(%x, block_shape=[2, 2], paddings=[[2, 3], [2, 3]]);
        %1 = nn.conv2d(%0, %w, kernel_size=[3, 3]); nn.batch_to_space_nd(%1, block_shape=[2, 2], crops=[[0, 1], [0, 1]])
After:  nn.conv2d(%x, %w, kernel_size=[3, 3], padding=[2, 2, 2, 2], dilation=[2, 2])

This is how some exporters write dilation. Only zero padding, a stride of 1 and plain NCHW or NHWC data match.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr, merge_spans
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.simplify.make import is_call


def flatten_atrous_conv(mod: IRModule) -> IRModule:
    """Join the three calls wherever they follow each other; see the module's docstring."""
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not is_call(node, "nn.batch_to_space_nd"):
        return None
    conv = node.args[0]
    if not isinstance(conv, Call) or not is_call(conv, "nn.conv2d"):
        return None
    cut = conv.args[0]
    if not isinstance(cut, Call) or not is_call(cut, "nn.space_to_batch_nd"):
        return None
    return _dilated(node, conv, cut)


def _dilated(join: Call, conv: Call, cut: Call) -> Expr | None:
    """The dilated convolution, if it has the shape of what `join` returns."""
    block = tuple(cut.attrs.block_shape)
    plain = conv.attrs.data_layout in ("NCHW", "NHWC") and tuple(conv.attrs.strides) == (1, 1)
    untouched = tuple(conv.attrs.dilation) == (1, 1) and not any(conv.attrs.padding)
    if tuple(join.attrs.block_shape) != block or not plain or not untouched or cut.attrs.get("pad_value", 0):
        return None
    # Of NCHW data the channels are cut along as well, by 1.
    paddings, crops = list(cut.attrs.paddings), list(join.attrs.crops)
    first = 1 if conv.attrs.data_layout == "NCHW" and len(block) == 3 else 0
    if len(block) != 2 + first or any(size != 1 for size in block[:first]):
        return None
    (top, bottom), (left, right) = [
        (before - crop_before, after - crop_after)
        for (before, after), (crop_before, crop_after) in zip(paddings[first:], crops[first:], strict=True)
    ]
    if min(top, bottom, left, right) < 0 or any(sum(pair) for pair in [*paddings[:first], *crops[:first]]):
        return None
    attrs = conv.attrs.replace(dilation=block[first:], padding=(top, left, bottom, right))
    flat = Call(conv.op, [cut.args[0], conv.args[1]], attrs, merge_spans(cut, conv, join))
    return flat if type_of(flat) == type_of(join) else None
