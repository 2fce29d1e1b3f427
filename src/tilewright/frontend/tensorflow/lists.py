"""Lists of tensors, which loops fill and read: known element by element, or as rows of one tensor (`Rows`).

Rows are what a list is whose length is symbolic, or whose elements are counted at run time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.idioms import cast, concatenate, constant, full, index_axis, reshape, shape_of
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.frontend.tensorflow.schema import type_name
from tilewright.frontend.tensorflow.values import Dims, Items, Rows, dims_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_MOST_ITEMS = 1 << 16


def rows_of(value: Items | Rows) -> Rows | None:
    """A list as rows of one tensor; None where elements differ in shape. Elements that were never set are zeros."""
    if isinstance(value, Rows):
        return value
    known = next((one for one in value.items if one is not None), None)
    if known is None:
        return Rows(None, len(value.items), value.dtype, value.shape)
    if any(one is not None and shape_of(one) != shape_of(known) for one in value.items):
        return None
    empty = full(0, shape_of(known), value.dtype)
    data = op.stack([empty if one is None else one for one in value.items], axis=0)
    return Rows(data, len(value.items), value.dtype, shape_of(known))


def written_rows(before: Items | Rows, after: Any) -> Rows | None:
    """A list before a loop as rows of the shape that its iterations write; None if that is unknown."""
    rows, written = rows_of(before), rows_of(after) if isinstance(after, Items | Rows) else None
    if rows is None or written is None or written.data is None or rows.data is not None:
        return rows
    shape = shape_of(written.data)[1:]
    return Rows(full(0, (rows.count, *shape), rows.dtype), rows.count, rows.dtype, shape)


def _rows(node: TfNode, index: int = 0) -> Rows:
    """A list whose positions only a run counts."""
    value = node.values[index]
    rows = rows_of(value) if isinstance(value, Items | Rows) else None
    if rows is None:
        node.unsupported("a list of tensors of different shapes, or of none, whose elements are counted at run time")
    return rows


def _at_run_time(node: TfNode, position: int | None = 1) -> bool:
    """True where the list, or the requested position, is data-dependent."""
    return isinstance(node.values[0], Rows) or (position is not None and dims_of(node.values[position]) is None)


def _written(node: TfNode, rows: Rows, position: Expr, value: Expr) -> Rows:
    """The list with another element at `position`, a scalar."""
    shape = shape_of(value)
    data = full(0, (rows.count, *shape), rows.dtype) if rows.data is None else rows.data
    if rows.data is not None and shape_of(data)[1:] != shape:
        node.unsupported("a list of tensors of different shapes whose elements are counted at run time")
    own = op.equal(_counted_up(rows.count), cast(position, "int32"))
    wide = op.expand_dims(own, axis=1, num_newaxis=len(shape)) if shape else own
    return Rows(op.where(wide, op.expand_dims(value, axis=0), data), rows.count, rows.dtype, shape)


def _counted_up(count: Any) -> Expr:
    """0, 1 … up to `count`."""
    if isinstance(count, int):
        return constant(np.arange(count), "int32")
    return op.cumsum(full(1, (count,), "int32"), axis=0) - 1


def _items(node: TfNode, index: int = 0) -> Items:
    value = node.values[index]
    if isinstance(value, Rows):
        node.unsupported("a list of a symbolic number of tensors; pass the sizes of the inputs")
    if not isinstance(value, Items):
        node.unsupported(f"its input {index} is no list of tensors")
    return value


def _shape(node: TfNode, index: int) -> tuple[int, ...] | None:
    found = dims_of(node.values[index])
    if found is None or not all(isinstance(extent, int) and extent >= 0 for extent in found):
        return None
    return found


@converts("TensorListReserve", "EmptyTensorList")
def convert_reserve(node: TfNode) -> Items | Rows:
    kind = type_name(node.type_code("element_dtype"))
    if kind is None:
        node.unsupported("a list of other than numbers")
    count = node.dims(1, "length")[0] if node.operator == "TensorListReserve" else 0
    if not isinstance(count, int):
        return Rows(None, count, kind, _shape(node, 0))
    if not 0 <= count <= _MOST_ITEMS:
        node.unsupported(f"a list of {count} tensors")
    return Items([None] * count, kind, _shape(node, 0))


@converts("TensorArrayV3")
def convert_array(node: TfNode) -> list[Any]:
    """The results: a handle, represented by the number of elements, and the list, passed on as `flow`."""
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
    """The inputs are the handle, the index or indices, the value if any, and the list."""
    last = {"TensorArraySizeV3": 1, "TensorArrayConcatV3": 1, "TensorArrayReadV3": 2, "TensorArrayGatherV3": 2}
    listed = _items(node, last.get(node.operator, 3))
    if node.operator == "TensorArraySizeV3":
        return Dims([len(listed.items)], scalar=True)
    if node.operator == "TensorArrayConcatV3":
        return [concatenate([_element(node, listed, item) for item in listed.items], 0)]
    positions = node.ints(1, "positions")
    if any(not 0 <= position < _MOST_ITEMS for position in positions):
        node.bad(f"elements {positions} of an array of {len(listed.items)}")
    if node.operator in ("TensorArrayReadV3", "TensorArrayGatherV3"):
        if any(position >= len(listed.items) for position in positions):
            node.bad(f"elements {positions} of an array of {len(listed.items)}")
        parts = [_element(node, listed, listed.items[position]) for position in positions]
        return parts[0] if node.operator == "TensorArrayReadV3" else op.stack(parts, axis=0)
    items = [*listed.items, *[None] * (max(positions, default=-1) + 1 - len(listed.items))]
    for number, position in enumerate(positions):
        items[position] = node[2] if node.operator == "TensorArrayWriteV3" else index_axis(node[2], 0, number)
    return Items(items, listed.dtype, listed.shape)


@converts("TensorListFromTensor")
def convert_from_tensor(node: TfNode) -> Items | Rows:
    count, data = node.shape()[0], node[0]
    if not isinstance(count, int):
        return Rows(data, count, node.dtype(), node.shape()[1:])
    if count > _MOST_ITEMS:
        node.unsupported(f"a list of {count} tensors")
    return Items([index_axis(data, 0, position) for position in range(count)], node.dtype(), None)


def _position(node: TfNode, listed: Items, index: int = 1) -> int:
    position = node.ints(index, "position")[0]
    if not 0 <= position < len(listed.items):
        node.bad(f"element {position} of a list of {len(listed.items)}")
    return position


@converts("TensorListSetItem")
def convert_set_item(node: TfNode) -> Items | Rows:
    if _at_run_time(node):
        return _written(node, _rows(node), reshape(node[1], ()), node[2])
    listed = _items(node)
    position = _position(node, listed)
    items = list(listed.items)
    items[position] = node[2]
    return Items(items, listed.dtype, listed.shape)


@converts("TensorListGetItem")
def convert_get_item(node: TfNode) -> Expr:
    if _at_run_time(node):
        rows = _rows(node)
        if rows.data is None:
            node.unsupported("an element of a list in which none was set")
        return op.take(rows.data, reshape(node[1], ()), axis=0)
    listed = _items(node)
    return _element(node, listed, listed.items[_position(node, listed)])


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
    if node.operator == "TensorListStack" and isinstance(node.values[0], Rows):
        rows = _rows(node)
        if rows.data is None and rows.shape is None:
            node.unsupported("a list in which no element was set, of unknown shape")
        return full(0, (rows.count, *(rows.shape or ())), rows.dtype) if rows.data is None else rows.data
    listed = _items(node)
    if node.operator == "TensorListGather":
        parts = [_element(node, listed, listed.items[position]) for position in node.ints(1, "positions")]
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
    if isinstance(node.values[0], Rows):
        return Dims([_rows(node).count], scalar=True)
    return Dims([len(_items(node).items)], scalar=True)
