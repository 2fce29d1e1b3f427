"""How operators follow when their data's axes come in another order, the field `Op.reorder`: NHWC instead of NCHW.

Each rule takes a call, the order its data come in and the types of its operands and result in the plain order. It says
in which order the call then wants each operand and gives its result, and its new attributes; None: it does not follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.registry import Order, OrderChoice
from tilewright.relay.ir.type import TensorType

#: The letters of the plain layout of data by their number of spatial axes; a kernel has O and I for N and C.
LETTERS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def order_of(plain: str, layout: str) -> Order | None:
    """The order that takes `plain` ("NCHW") to `layout` ("NHWC"): (0, 2, 3, 1)."""
    return None if plain == layout else tuple([plain.index(letter) for letter in layout])


def along_axis(call: Call, order: Order, types: Sequence[TensorType]) -> OrderChoice | None:
    """Operators whose `axis` counts the axes of the data: concatenation, softmax, bias_add."""
    if types[-1].ndim != len(order):
        return None
    axis = order.index(call.attrs.axis % len(order))
    inputs = [order if type_.ndim == len(order) else None for type_ in types[: len(call.args)]]
    return OrderChoice(tuple(inputs), order, call.attrs.replace(axis=axis))


def reduction(call: Call, order: Order, _types: Sequence[TensorType]) -> OrderChoice | None:
    """Reductions that keep the dimensions."""
    axis = call.attrs.axis
    if not call.attrs.keepdims or call.attrs.exclude or axis is None:
        return None
    axes = axis if isinstance(axis, tuple) else (axis,)
    return OrderChoice((order,), order, call.attrs.replace(axis=tuple([order.index(a % len(order)) for a in axes])))


def padding(call: Call, order: Order, _types: Sequence[TensorType]) -> OrderChoice | None:
    """`nn.pad`, whose widths go with the axes."""
    width = call.attrs.pad_width
    inputs = (order, *[None] * (len(call.args) - 1))
    return OrderChoice(inputs, order, call.attrs.replace(pad_width=tuple([width[axis] for axis in order])))


def with_layout(call: Call, order: Order, _types: Sequence[TensorType]) -> OrderChoice | None:
    """Operators on images whose attribute `layout` names the order: pooling, resizing."""
    plain = call.attrs.layout
    if len(plain) != len(order) or sorted(plain) != sorted(LETTERS[len(order) - 2]):
        return None
    return in_layout(call, "".join(plain[axis] for axis in order))


def in_layout(call: Call, layout: str) -> OrderChoice | None:
    """A call whose attribute `layout` becomes `layout`; None if its letters are others."""
    if sorted(call.attrs.layout) != sorted(layout):
        return None
    order = order_of(call.attrs.layout, layout)
    return OrderChoice((order,), order, call.attrs.replace(layout=layout))
