"""Lists of tensors, which loops fill and read; they are known, element by element, while the graph is imported."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.idioms import concatenate, full, index_axis
from tilewright.frontend.tensorflow.node import TfNode
from tilewright.frontend.tensorflow.registry import converts
from tilewright.frontend.tensorflow.schema import type_name
from tilewright.frontend.tensorflow.values import Dims, Items, dims_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_MOST_ITEMS = 1 << 16


def _items(node: TfNode, index: int = 0) -> Items:
    value = node.values[index]
    if not isinstance(value, Items):
        node.unsupported(f"its input {index} is no list of tensors")
    return value


def _shape(node: TfNode, index: int) -> tuple[int, ...] | None:
    found = dims_of(node.values[index])
    if found is None or not all(isinstance(extent, int) and extent >= 0 for extent in found):
        return None
    return found


@converts("TensorListReserve", "EmptyTensorList")
def convert_reserve(node: TfNode) -> Items:
    kind = type_name(node.type_code("element_dtype"))
    if kind is None:
        node.unsupported("a list of other than numbers")
    count = node.ints(1, "length")[0] if node.operator == "TensorListReserve" else 0
    if not 0 <= count <= _MOST_ITEMS:
        node.unsupported(f"a list of {count} tensors")
    return Items([None] * count, kind, _shape(node, 0))


@converts("TensorArrayV3")
def convert_array(node: TfNode) -> list[Any]:
    """Results: a handle, for which the number of elements stands, and the list itself, which goes where `flow` goes."""
    kind = type_name(node.type_code("dtype"))
    if kind is None:
        node.unsupported("an array of other than numbers")
    count = node.ints(0, "length")[0]
    if not 0 <= count <= _MOST_ITEMS:
        node.unsupported(f"an array of {count} tensors")
    return [Dims([count], scalar=True), Items([None] * count, kind, None)]


@converts("TensorArrayWriteV3", "TensorArrayReadV3", "TensorArrayGatherV3", "TensorArrayScatterV3", "TensorArraySizeV3",
          "TensorArrayConcatV3")  # fmt: skip
def convert_array_operation(node: TfNode) -> Any:
    """Inputs: handle, place or places, value where there is one, the list."""
    last = {"TensorArraySizeV3": 1, "TensorArrayConcatV3": 1, "TensorArrayReadV3": 2, "TensorArrayGatherV3": 2}
    listed = _items(node, last.get(node.operator, 3))
    if node.operator == "TensorArraySizeV3":
        return Dims([len(listed.items)], scalar=True)
    if node.operator == "TensorArrayConcatV3":
        return [concatenate([_element(node, listed, item) for item in listed.items], 0)]
    places = node.ints(1, "places")
    if any(not 0 <= place < _MOST_ITEMS for place in places):
        node.bad(f"elements {places} of an array of {len(listed.items)}")
    if node.operator in ("TensorArrayReadV3", "TensorArrayGatherV3"):
        if any(place >= len(listed.items) for place in places):
            node.bad(f"elements {places} of an array of {len(listed.items)}")
        parts = [_element(node, listed, listed.items[place]) for place in places]
        return parts[0] if node.operator == "TensorArrayReadV3" else op.stack(parts, axis=0)
    items = [*listed.items, *[None] * (max(places, default=-1) + 1 - len(listed.items))]
    for number, place in enumerate(places):
        items[place] = node[2] if node.operator == "TensorArrayWriteV3" else index_axis(node[2], 0, number)
    return Items(items, listed.dtype, listed.shape)


@converts("TensorListFromTensor")
def convert_from_tensor(node: TfNode) -> Items:
    count = node.shape()[0]
    if not isinstance(count, int) or count > _MOST_ITEMS:
        node.unsupported("a list of an open number of tensors; give the sizes of the inputs")
    data = node[0]
    return Items([index_axis(data, 0, place) for place in range(count)], node.dtype(), None)


def _place(node: TfNode, listed: Items, index: int = 1) -> int:
    place = node.ints(index, "place")[0]
    if not 0 <= place < len(listed.items):
        node.bad(f"element {place} of a list of {len(listed.items)}")
    return place


@converts("TensorListSetItem")
def convert_set_item(node: TfNode) -> Items:
    listed = _items(node)
    place = _place(node, listed)
    items = list(listed.items)
    items[place] = node[2]
    return Items(items, listed.dtype, listed.shape)


@converts("TensorListGetItem")
def convert_get_item(node: TfNode) -> Expr:
    listed = _items(node)
    return _element(node, listed, listed.items[_place(node, listed)])


def _element(node: TfNode, listed: Items, item: Expr | None) -> Expr:
    """An element; zeros where none was set."""
    if item is not None:
        return item
    known = next((one for one in listed.items if one is not None), None)
    shape = node.shape(known) if known is not None else listed.shape
    if shape is None:
        node.unsupported("an element that was never set, of unknown shape")
    return full(0, shape, listed.dtype)


@converts("TensorListStack", "TensorListConcatV2", "TensorListGather")
def convert_stack(node: TfNode) -> Any:
    listed = _items(node)
    if node.operator == "TensorListGather":
        parts = [_element(node, listed, listed.items[place]) for place in node.ints(1, "places")]
        return op.stack(parts, axis=0)
    parts = [_element(node, listed, item) for item in listed.items]
    if not parts:
        node.unsupported("a list of no tensors")
    return op.stack(parts, axis=0) if node.operator == "TensorListStack" else [concatenate(parts, 0)]


@converts("TensorListPushBack")
def convert_push(node: TfNode) -> Items:
    listed = _items(node)
    return Items([*listed.items, node[1]], listed.dtype, listed.shape)


@converts("TensorListPopBack")
def convert_pop(node: TfNode) -> list[Any]:
    listed = _items(node)
    if not listed.items:
        node.bad("an element of an empty list")
    return [Items(listed.items[:-1], listed.dtype, listed.shape), _element(node, listed, listed.items[-1])]


@converts("TensorListLength")
def convert_length(node: TfNode) -> Dims:
    return Dims([len(_items(node).items)], scalar=True)
