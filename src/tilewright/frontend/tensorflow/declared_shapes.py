"""The shapes that a TensorFlow file declares of its tensors, against those that the importer derived.

Every node that TensorFlow writes with `_output_shapes` states the shapes of its results, -1 for an unknown extent.
A result of another rank, or with another number in place of a number, is a wrong conversion or a damaged file: either
way the numbers behind it cannot be trusted, so that it is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.messages import Record
from tilewright.frontend.tensorflow.frames import node_of
from tilewright.frontend.tensorflow.tensors import shape_of_proto
from tilewright.frontend.tensorflow.values import Dims
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of

#: Operators whose results are handles in the file, and lists or shapes here.
_HANDLES = ("TensorArray", "TensorList", "EmptyTensorList")


def contradiction(record: Record, position: int, value: Any) -> str | None:
    """The contradiction between the shape of a result and the declared one; None where it fits or nothing is
    declared.
    """
    attribute = record.attr.get("_output_shapes")
    if attribute is None or record.op.startswith(_HANDLES):
        return None
    listed = attribute.list.shape
    declared = shape_of_proto(listed[position]) if position < len(listed) else None
    found = _shape(value)
    if declared is None or found is None or fits(found, declared):
        return None
    return f"its result {position} came out as {_text(found)}; the file declares {_text(declared)} (_output_shapes)"


def fits(found: Sequence[Any], declared: Sequence[int]) -> bool:
    """True if two shapes have one rank and agree in all extents known on both sides."""
    return len(found) == len(declared) and all(
        one < 0 or not isinstance(extent, int) or extent == one for extent, one in zip(found, declared)
    )


def _shape(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, Dims):
        return value.shape
    found = type_of(value) if isinstance(value, Expr) else None
    return found.shape if isinstance(found, TensorType) else None


def _text(shape: Sequence[Any]) -> str:
    return f"[{', '.join('?' if isinstance(extent, int) and extent < 0 else str(extent) for extent in shape)}]"


# ------------------------- Which result of an operator a tensor is: `node:1` in a graph, `node:indices:0` in a function
#: The results of operators that have several under different names, in order.
_NAMES = {
    "FusedBatchNorm": "y batch_mean batch_variance reserve_space_1 reserve_space_2",
    "FusedBatchNormV2": "y batch_mean batch_variance reserve_space_1 reserve_space_2",
    "FusedBatchNormV3": "y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3",
    "TopK": "values indices", "TopKV2": "values indices", "Switch": "output_false output_true",
    "Merge": "output value_index", "SparseSoftmaxCrossEntropyWithLogits": "loss backprop",
    "SoftmaxCrossEntropyWithLogits": "loss backprop", "Unique": "y idx", "BroadcastGradientArgs": "r0 r1",
    "MaxPoolWithArgmax": "output argmax", "NonMaxSuppressionV5": "selected_indices selected_scores valid_outputs",
    "NonMaxSuppressionV4": "selected_indices valid_outputs", "TensorArrayV3": "handle flow",
    "TensorListPopBack": "output_handle tensor",
}  # fmt: skip


def position_of_output(node: Record, tensor: str, in_function: bool) -> int:
    """The position of `tensor` among the results of `node`."""
    parts = tensor.split(":")
    if len(parts) == 1:
        return 0
    if not parts[-1].isdigit():
        raise ModelError(f"{tensor!r} names no result")
    if not in_function or len(parts) == 2:
        return int(parts[-1])
    names = _NAMES.get(node.op, "").split()
    return (names.index(parts[1]) if parts[1] in names else 0) + int(parts[-1])


# ------------------------------ Files of Keras that loop over the wrong axis: `TimeDistributed` over a symbolic length
#: What a fixed length makes of the layer: as many calls, and no loop.
_ADVICE = "compile the .keras file, or export the model with a fixed number of steps"


def miscounted_steps(range_: Record, nodes: Mapping[str, Record], values: Mapping[str, list[Any]]) -> str | None:
    """Why a Range does not count to the number of steps that its loop reads; None where nothing is wrong."""
    source = _looped_input(range_, nodes)
    found = values.get(node_of(source)) if source is not None else None
    data = found[0] if found else None
    if not isinstance(data, Expr):
        return None
    batch, steps = tensor_type_of(data).shape[:2]
    if batch is steps or (isinstance(batch, int) and batch == steps):
        return None
    return (
        f"a fault of the Keras that exported it: TimeDistributed counts its steps ({steps}) by the batch ({batch}), "
        f"and TensorFlow runs it so; {_ADVICE}"
    )


def _looped_input(range_: Record, nodes: Mapping[str, Record]) -> str | None:
    """The input [batch, steps, ...] of a TimeDistributed whose loop counts to the extent of its first axis."""
    scope = range_.name.rpartition("/")[0]
    if len(range_.input) < 2 or not any(name.startswith(f"{scope}/loop_body/") for name in nodes):
        return None
    limit = nodes.get(node_of(range_.input[1]))
    shape = nodes.get(node_of(limit.input[0])) if limit is not None and limit.op == "StridedSlice" else None
    turned = nodes.get(f"{scope}/transpose")
    if limit is None or shape is None or shape.op != "Shape" or turned is None or turned.op != "Transpose":
        return None
    same = node_of(turned.input[0]) == node_of(shape.input[0])
    return str(shape.input[0]) if same and _first_element(limit, nodes) else None


def _first_element(slice_: Record, nodes: Mapping[str, Record]) -> bool:
    """True for `x[0]`."""
    begin = nodes.get(node_of(slice_.input[1]))
    if begin is None or begin.op != "Const" or "value" not in begin.attr:
        return False
    tensor = begin.attr["value"].tensor
    numbers = list(tensor.int_val) or list(bytes(tensor.tensor_content)) or [0]
    return not any(numbers) and bool(slice_.attr["shrink_axis_mask"].i if "shrink_axis_mask" in slice_.attr else 0)
