"""Dense layers of one input become one product with all their units, or one batch of products.

Before: %0 = nn.dense(%x, %wq); %1 = nn.dense(%x, %wk); %2 = nn.dense(%x, %wv); (%0, %1, %2)      (64 units each)
After:  %0 = nn.dense(%x, concatenate((%wq, %wk, %wv))); (%0[:, 0:64], %0[:, 64:128], %0[:, 128:192])
to_batch: %0 = nn.batch_matmul(expand_dims(%x), stack((%wq, %wk, %wv))); (%0[0], %0[1], %0[2])
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tilewright.relay.ir.expr import Call, Expr, merge_spans
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.structural import attrs_key
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op.nn.dense import batch_matmul
from tilewright.relay.transform.fuse.combine_parallel_op import ParallelOp, combine_parallel_op, join, stack_all
from tilewright.relay.transform.simplify.make import reshape


def combine_parallel_dense(mod: IRModule, min_num_branches: int = 3, to_batch: bool = True) -> IRModule:
    """Combine dense layers of one input; see the module's docstring.

    With `to_batch`, which needs equal units and a matrix as input, they become one `nn.batch_matmul`; without, one
    `nn.dense` whose units are those of all.
    """
    return combine_parallel_op(mod, _BATCHED if to_batch else _FLAT, min_num_branches)


def _flat_key(call: Call) -> Hashable:
    if call.attrs.get("weight_layout", "NC") not in ("", "NC"):
        return None
    weight = tensor_type_of(call.args[1])
    return (attrs_key(call.attrs.replace(units=None)), weight.shape[1:], weight.dtype)


def _batched_key(call: Call) -> Hashable:
    flat = _flat_key(call)
    if flat is None or tensor_type_of(call.args[0]).ndim != 2:
        return None
    return (flat, tensor_type_of(call.args[1]).shape)


def _combine_flat(calls: Sequence[Call]) -> Expr:
    first = calls[0]
    units = sum(tensor_type_of(call.args[1]).shape[0] for call in calls)
    weight = join([call.args[1] for call in calls], axis=0)
    return Call(first.op, [first.args[0], weight], first.attrs.replace(units=units), merge_spans(*calls))


def _combine_batched(calls: Sequence[Call]) -> Expr:
    data = calls[0].args[0]
    one_matrix = reshape(data, (1, *tensor_type_of(data).shape))
    product = batch_matmul(one_matrix, stack_all([call.args[1] for call in calls]), calls[0].attrs.out_dtype)
    return Call(product.op, product.args, product.attrs, merge_spans(*calls))


_FLAT = ParallelOp("nn.dense", _flat_key, _combine_flat, axis=-1)
_BATCHED = ParallelOp("nn.dense", _batched_key, _combine_batched, axis=0, stacked=True)
