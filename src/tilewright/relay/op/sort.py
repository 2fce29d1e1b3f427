"""Sorting, the largest elements, and searching in what is sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, Tuple
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.op import equal_sizes
from tilewright.relay.op.common import (
    Types,
    call,
    check_axis,
    require,
    require_order,
    require_same_dtype,
    same_dims,
    tensor,
    tensors,
)
from tilewright.relay.op.composite import register_composite
from tilewright.relay.op.gather import gather
from tilewright.relay.op.tensor import cast
from tilewright.topi.reference import sort as ref


# ---------------------------------------------------------------------------------------------------------- argsort
def _argsort_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    require_order(data)
    at = check_axis(attrs["axis"], data.ndim)
    count = _count(attrs.get("count", 0), data.shape[at])
    return TensorType((*data.shape[:at], count, *data.shape[at + 1 :]), attrs["dtype"])


def _argsort_compute(attrs: Attrs, inputs: list[te.Tensor], out: Any) -> list[te.Tensor]:
    count = attrs.get("count", 0)
    kept = None if count < 1 else int(out.shape[attrs["axis"]])
    return [topi.argsort(inputs[0], attrs["axis"], attrs["is_ascend"], attrs["dtype"], kept)]


def _argsort_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    axis = attrs["axis"] % x.ndim
    order = ref.argsort(x, axis, attrs["is_ascend"])
    kept = np.take(order, np.arange(_count(attrs.get("count", 0), x.shape[axis])), axis)
    return kept.astype(TensorType((), attrs["dtype"]).dtype.numpy)


register(
    "argsort",
    num_inputs=1,
    type_rule=_argsort_type,
    compute=_argsort_compute,
    pattern=OpPattern.OPAQUE,
    reference=_argsort_reference,
    equal_sizes=equal_sizes.of_argsort,
    attributes={
        "axis": attr.integer(-1),
        "is_ascend": attr.flag(True),
        "dtype": attr.dtype("int32"),
        "count": attr.integer(0),
    },
)


def argsort(data: Expr, axis: int = -1, is_ascend: bool = True, dtype: str = "int32", count: int = 0) -> Call:
    """Positions that sort `data` along `axis`, the first `count` of them if it is positive.

    Equal elements stay in order, NaN comes last.
    """
    return call("argsort", data, axis=axis, is_ascend=is_ascend, dtype=str(dtype), count=count)


def _sort_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    require_order(data)
    check_axis(attrs["axis"], data.ndim)
    return data


def _sort(args: Sequence[Expr], attrs: Attrs) -> Expr:
    order = argsort(args[0], attrs["axis"], attrs["is_ascend"])
    return gather(args[0], attrs["axis"], order)


register_composite(
    "sort",
    num_inputs=1,
    type_rule=_sort_type,
    expansion=_sort,
    reference=lambda attrs, x: np.take_along_axis(x, ref.argsort(x, attrs["axis"], attrs["is_ascend"]), attrs["axis"]),
    attributes={"axis": attr.integer(-1), "is_ascend": attr.flag(True)},
)


def sort(data: Expr, axis: int = -1, is_ascend: bool = True) -> Call:
    """`data` sorted along `axis`."""
    return call("sort", data, axis=axis, is_ascend=is_ascend)


# ------------------------------------------------------------------------------------------------------------- topk
_RETURNS = ("both", "values", "indices")


def _topk_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    require_order(data)
    at = check_axis(attrs["axis"], data.ndim)
    require(attrs["ret_type"] in _RETURNS, f"ret_type {attrs['ret_type']!r}; known: {', '.join(_RETURNS)}")
    count = _count(attrs["k"], data.shape[at])
    shape = (*data.shape[:at], count, *data.shape[at + 1 :])
    values, indices = TensorType(shape, data.dtype), TensorType(shape, attrs["dtype"])
    return {"both": TupleType([values, indices]), "values": values, "indices": indices}[attrs["ret_type"]]


def _count(k: int, size: Any) -> Any:
    return size if k < 1 else min(k, size) if isinstance(size, int) else k


def _topk(args: Sequence[Expr], attrs: Attrs) -> Expr:
    axis = attrs["axis"]
    first = argsort(args[0], axis, attrs["is_ascend"], count=max(attrs["k"], 0))
    values = gather(args[0], axis, first)
    indices = first if attrs["dtype"] == "int32" else cast(first, attrs["dtype"])
    return {"both": Tuple([values, indices]), "values": values, "indices": indices}[attrs["ret_type"]]


def _topk_reference(attrs: Attrs, x: np.ndarray) -> Any:
    axis = attrs["axis"] % x.ndim
    order = ref.argsort(x, axis, attrs["is_ascend"])
    first = np.take(order, np.arange(_count(attrs["k"], x.shape[axis])), axis)
    values = np.take_along_axis(x, first, axis)
    indices = first.astype(TensorType((), attrs["dtype"]).dtype.numpy)
    return {"both": (values, indices), "values": values, "indices": indices}[attrs["ret_type"]]


register_composite(
    "topk",
    num_inputs=1,
    type_rule=_topk_type,
    expansion=_topk,
    reference=_topk_reference,
    attributes={
        "k": attr.integer(1),
        "axis": attr.integer(-1),
        "ret_type": attr.text("both"),
        "is_ascend": attr.flag(False),
        "dtype": attr.dtype("int32"),
    },
)


def topk(
    data: Expr, k: int = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: str = "int32"
) -> Call:
    """The `k` largest (or smallest) elements along `axis` and their positions, best first; k < 1 takes all."""
    return call("topk", data, k=k, axis=axis, ret_type=ret_type, is_ascend=is_ascend, dtype=str(dtype))


# ----------------------------------------------------------------------------------------------------- searchsorted
def _searchsorted_type(types: Types, attrs: Attrs) -> Type:
    rows, values = tensors(types)
    require_same_dtype(rows, values)
    require_order(rows)
    require(rows.ndim >= 1, "the sorted sequence needs a dimension")
    fits = rows.ndim == 1 or (values.ndim == rows.ndim and same_dims(values.shape[:-1], rows.shape[:-1]))
    require(fits, f"values {values.shape} do not go with the sorted rows {rows.shape}: the leading sizes differ")
    return TensorType(values.shape, attrs["dtype"])


def _searchsorted_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    return [topi.searchsorted(inputs[0], inputs[1], attrs["right"], attrs["dtype"])]


register(
    "searchsorted",
    num_inputs=2,
    type_rule=_searchsorted_type,
    compute=_searchsorted_compute,
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, rows, values: ref.searchsorted(rows, values, attrs["right"]).astype(
        TensorType((), attrs["dtype"]).dtype.numpy
    ),
    attributes={"right": attr.flag(False), "dtype": attr.dtype("int32")},
)


def searchsorted(sorted_sequence: Expr, values: Expr, right: bool = False, dtype: str = "int32") -> Call:
    """The insertion index of each of `values` in the sorted last axis: before its equals, or behind them if `right`."""
    return call("searchsorted", sorted_sequence, values, right=right, dtype=str(dtype))
