"""Batched products of one left-hand side become one whose right-hand sides stand side by side.

Before: %0 = nn.batch_matmul(%a, %b1); %1 = nn.batch_matmul(%a, %b2); (%0, %1)   (%b1: [8, 16, 64], %b2: [8, 32, 64])
After:  %0 = nn.batch_matmul(%a, concatenate((%b1, %b2), axis=1)); (%0[:, :, 0:16], %0[:, :, 16:48])
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tilewright.relay.ir.expr import Call, Expr, merge_spans
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.structural import attrs_key
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.fuse.combine_parallel_op import ParallelOp, combine_parallel_op, join


def combine_parallel_batch_matmul(mod: IRModule, min_num_branches: int = 3) -> IRModule:
    """Combine batched products of one left-hand side; see the module's docstring."""
    return combine_parallel_op(mod, _BATCH_MATMUL, min_num_branches)


def _columns_axis(call: Call) -> int:
    """The axis of the right-hand side that becomes the columns of the product."""
    return 1 if call.attrs.transpose_b else 2


def _key(call: Call) -> Hashable:
    right = tensor_type_of(call.args[1])
    shape = list(right.shape)
    del shape[_columns_axis(call)]
    return (attrs_key(call.attrs), tuple(shape), right.dtype)


def _combine(calls: Sequence[Call]) -> Expr:
    first = calls[0]
    right = join([call.args[1] for call in calls], axis=_columns_axis(first))
    return Call(first.op, [first.args[0], right], first.attrs, merge_spans(*calls))


_BATCH_MATMUL = ParallelOp("nn.batch_matmul", _key, _combine, axis=2)
