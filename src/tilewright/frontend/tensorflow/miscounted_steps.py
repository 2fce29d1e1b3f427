"""Files of Keras that loop over the wrong axis: `TimeDistributed` over a length left open.

Keras 3 (seen in 3.15) exports the layer as a loop over `range(shape(x)[0])`, the batch, of the transposed input, whose
first axis are the steps. TensorFlow runs such a file as it is: a batch of 2 over 5 steps comes out as [2, 2, ...].
Neither the signature nor any shape in the file contradicts it, so the loop itself is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.frontend.messages import Record
from tilewright.frontend.tensorflow.frames import node_of
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type_of import tensor_type_of

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
