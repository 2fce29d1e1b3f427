"""2-D convolutions of one input become one convolution with all their output channels.

Before: %0 = nn.conv2d(%x, %w1, channels=16); %1 = nn.conv2d(%x, %w2, channels=32); (%0, %1)
After:  %0 = nn.conv2d(%x, concatenate((%w1, %w2)), channels=48); (%0[:, 0:16], %0[:, 16:48])

This is how the 1x1 convolutions at the head of an Inception block read their input once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tilewright.relay.ir.expr import Call, Expr, merge_spans
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.structural import attrs_key
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.fuse.combine_parallel_op import ParallelOp, combine_parallel_op, join


def combine_parallel_conv2d(mod: IRModule, min_num_branches: int = 3) -> IRModule:
    """Combine convolutions of one input that differ in their weights only; see the module's docstring."""
    return combine_parallel_op(mod, _CONV2D, min_num_branches)


def _key(call: Call) -> Hashable:
    """Ungrouped convolutions in the plain layout with the same window go together."""
    if call.attrs.groups != 1 or call.attrs.data_layout != "NCHW" or call.attrs.kernel_layout != "OIHW":
        return None
    if call.attrs.out_layout not in ("", "NCHW"):
        return None
    weight = tensor_type_of(call.args[1])
    return (attrs_key(call.attrs.replace(channels=None)), weight.shape[1:], weight.dtype)


def _combine(calls: Sequence[Call]) -> Expr:
    first = calls[0]
    channels = sum(tensor_type_of(call.args[1]).shape[0] for call in calls)
    weight = join([call.args[1] for call in calls], axis=0)
    return Call(first.op, [first.args[0], weight], first.attrs.replace(channels=channels), merge_spans(*calls))


_CONV2D = ParallelOp("nn.conv2d", _key, _combine, axis=1)
