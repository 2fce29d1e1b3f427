"""Which result of an operator a tensor is: `node:1` in a graph, `node:indices:0` in a function."""

from __future__ import annotations

from tilewright.errors import ModelError
from tilewright.frontend.messages import Record

#: The results of operators that have several under different names, in order.
_NAMES = {
    "FusedBatchNorm": "y batch_mean batch_variance reserve_space_1 reserve_space_2",
    "FusedBatchNormV2": "y batch_mean batch_variance reserve_space_1 reserve_space_2",
    "FusedBatchNormV3": "y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3",
    "TopK": "values indices",
    "TopKV2": "values indices",
    "Switch": "output_false output_true",
    "Merge": "output value_index",
    "SparseSoftmaxCrossEntropyWithLogits": "loss backprop",
    "SoftmaxCrossEntropyWithLogits": "loss backprop",
    "Unique": "y idx",
    "BroadcastGradientArgs": "r0 r1",
    "MaxPoolWithArgmax": "output argmax",
    "NonMaxSuppressionV5": "selected_indices selected_scores valid_outputs",
    "NonMaxSuppressionV4": "selected_indices valid_outputs",
    "TensorArrayV3": "handle flow",
    "TensorListPopBack": "output_handle tensor",
}


def place_of_output(node: Record, tensor: str, in_function: bool) -> int:
    """The place of `tensor` among the results of `node`."""
    parts = tensor.split(":")
    if len(parts) == 1:
        return 0
    if not parts[-1].isdigit():
        raise ModelError(f"{tensor!r} names no result")
    if not in_function or len(parts) == 2:
        return int(parts[-1])
    names = _NAMES.get(node.op, "").split()
    return (names.index(parts[1]) if parts[1] in names else 0) + int(parts[-1])
