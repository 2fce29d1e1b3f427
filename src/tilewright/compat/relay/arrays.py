"""Operators on arrays in the classic spelling, where order, defaults or kinds of their arguments differ."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.relay.expr import fields, tuple_valued
from tilewright.errors import InputError
from tilewright.relay import op
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.op.onnx_host import host_call
from tilewright.support.named import named


def number_of(value: Any, what: str) -> Any:
    """The number that a constant of one element, or a Python number, is. Raises `InputError` for another expression."""
    if not isinstance(value, relay.Expr):
        return value
    if not isinstance(value, relay.Constant) or value.data.size != 1:
        raise InputError(f"{what} is a number or a constant of one element here, not {type(value).__name__}")
    return value.data.item()


def arange(start: Any, stop: Any = None, step: Any = None, dtype: str = "float32") -> relay.Call:
    """start, start + step, … below `stop`; without `stop` from 0 up to `start`. Constants stand for their numbers.

    With other expressions among them how many there are is known at run time, and the host makes them.
    """
    first, last = (0, start) if stop is None else (start, stop)
    ends = (first, last, 1 if step is None else step)
    if any(isinstance(one, relay.Expr) and not isinstance(one, relay.Constant) for one in ends):
        scalars = [
            op.cast(op.reshape(one, ()), dtype) if isinstance(one, relay.Expr) else relay.const(one, dtype)
            for one in ends
        ]
        return host_call("Range", scalars, relay.TensorType((relay.Any(),), dtype))
    return op.arange(
        number_of(first, "relay.arange: start"),
        number_of(last, "relay.arange: stop"),
        1 if step is None else number_of(step, "relay.arange: step"),
        dtype,
    )


def gather_nd(data: relay.Expr, indices: relay.Expr, batch_dims: int = 0, index_rank: int | None = None) -> relay.Call:
    """Slices of `data` at the coordinates in the first axis of `indices`, of which there are `index_rank`."""
    count = tensor_type_of(indices).shape[0]
    if index_rank is not None and isinstance(count, int) and index_rank != count:
        raise InputError(f"relay.gather_nd: index_rank is {index_rank}, and the indices have {count} coordinates")
    return op.gather_nd(data, indices, batch_dims)


def cumsum(data: relay.Expr, axis: int | None = None, dtype: Any = None, exclusive: Any = None) -> relay.Expr:
    """Running sums in `dtype` along `axis`, of the flat data without one; without the element itself if `exclusive`."""
    flat = op.reshape(data, (-1,)) if axis is None else data
    wide = op.cast(flat, dtype) if dtype else flat
    return op.cumsum(wide, axis or 0, bool(exclusive))


def cumprod(data: relay.Expr, axis: int | None = None, dtype: Any = None, exclusive: Any = None) -> relay.Expr:
    """Running products in `dtype` along `axis`, of the flat data without one."""
    return op.cumprod(data, axis, dtype or "", bool(exclusive))


def where(condition: relay.Expr, x: relay.Expr, y: relay.Expr) -> relay.Call:
    """`x` where the condition is true, or a number other than 0, else `y`."""
    kind = type_of(condition)
    if isinstance(kind, relay.TensorType) and str(kind.dtype) != "bool":
        condition = op.not_equal(condition, relay.const(0, str(kind.dtype)))
    return op.where(condition, x, y)


def segment_sum(data: relay.Expr, segment_ids: relay.Expr, num_segments: int | None = None) -> relay.Expr:
    """The sums of the rows of `data` that have the same number in `segment_ids`.

    Where all sizes are known the sums are made by a scatter on the device, else on the host.
    """
    kind, ids = tensor_type_of(data), tensor_type_of(segment_ids)
    if num_segments is None or kind.has_any or ids.has_any or kind.shape[0] != ids.shape[0]:
        return op.segment_sum(data, segment_ids, num_segments)
    rows = op.reshape(segment_ids, (-1, *[1] * (len(kind.shape) - 1)))
    positions = op.broadcast_to(rows, kind.shape)
    return op.scatter_add(op.zeros((num_segments, *kind.shape[1:]), str(kind.dtype)), positions, data, 0)


def _topk(
    data: relay.Expr, k: Any = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: str = "int32"
) -> relay.Expr:
    """The `k` largest or smallest elements along an axis, their positions, or both."""
    if isinstance(k, relay.Expr) and not isinstance(k, relay.Constant):
        return op.dyn.topk(data, k, axis, ret_type, is_ascend, dtype)
    return op.topk(data, number_of(k, "relay.topk: k"), axis, ret_type, is_ascend, dtype)


topk = tuple_valued(named(_topk, "topk", _topk.__doc__), lambda ret_type, **_: 2 if ret_type == "both" else 1)
sparse_reshape = tuple_valued(op.sparse_reshape, fields(2))
sparse_fill_empty_rows = tuple_valued(op.sparse_fill_empty_rows, fields(3))
unique = tuple_valued(op.unique, lambda return_counts, **_: 5 if return_counts else 4)
