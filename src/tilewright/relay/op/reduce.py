"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, Precision, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import following, layout_rules
from tilewright.relay.op.common import (
    Types,
    call,
    check_axis,
    require,
    require_number,
    require_order,
    require_positions,
    tensor,
    with_attrs,
)
from tilewright.support.named import named
from tilewright.topi.reference import math as ref
from tilewright.topi.reference.pooling import highest, lowest
from tilewright.topi.util import normalize_axes

Axis = int | Sequence[int] | None


def _shape(first: TensorType, attrs: Attrs) -> list[int]:
    axis = attrs["axis"]
    for a in () if axis is None else (axis,) if isinstance(axis, int) else axis:
        check_axis(a, first.ndim)
    axes = normalize_axes(axis, first.ndim, attrs["exclude"])
    return [1 if d in axes else s for d, s in enumerate(first.shape) if attrs["keepdims"] or d not in axes]


_ATTRIBUTES = {"axis": attr.axes(None), "keepdims": attr.flag(False), "exclude": attr.flag(False)}


def _reduced(kind: str) -> Any:
    def rule(types: Types, attrs: Attrs) -> Type:
        first = tensor(types[0])
        if kind == "ordered":  # of bools, whether any or all hold
            require_order(first)
        elif kind == "bool":
            require(first.dtype.is_bool, f"it needs a bool tensor, not {first.dtype}; cast it first")
        else:
            require_number(first)
        return TensorType(_shape(first, attrs), first.dtype)

    return rule


def _register(name: str, function: Callable[..., Any], kind: str = "number", **fields: Any) -> Any:
    """Register the reduction `name`; `function(x, axes, keepdims)` is its reference, `fields` are further ones."""

    def reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
        axes = normalize_axes(attrs["axis"], x.ndim, attrs["exclude"])
        return np.asarray(function(x, axes, attrs["keepdims"])).astype(x.dtype) if axes else x

    register(
        name,
        num_inputs=1,
        type_rule=_reduced(kind),
        compute=with_attrs(getattr(topi, name), "axis", "keepdims", "exclude"),
        pattern=OpPattern.COMM_REDUCE,
        reference=reference,
        layout=layout_rules.follow_reduce,
        attributes=_ATTRIBUTES,
        follows=following.reduction,
        attrs_class="ReduceAttrs",
        **fields,
    )

    def build(data: Expr, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Call:
        return call(name, data, axis=axis, keepdims=keepdims, exclude=exclude)

    return named(build, name, getattr(topi, name).__doc__)


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind == "f" or x.dtype.name == "bfloat16" else x


def _mean(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    if x.dtype.kind not in "iu":
        return np.asarray(np.mean(_wide(x), axis=axes, keepdims=keepdims))
    total = np.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype if x.dtype.itemsize == 8 else np.int64)
    return ref.trunc_divide(np.asarray(total), np.asarray(math.prod(x.shape[a] for a in axes)).astype(total.dtype))


def _extreme(function: Callable[..., Any], of_nothing: Callable[[np.dtype[Any]], Any]) -> Callable[..., Any]:
    """The largest or smallest number; of none, the one that every other replaces, as kernels begin with."""

    def reference(x: np.ndarray[Any, Any], axes: Axis, keep: bool) -> Any:
        start = {} if x.size else {"initial": of_nothing(x.dtype)}
        return function(x, axis=axes, keepdims=keep, **start)

    return reference


_NEVER: dict[str, Any] = {"precision": Precision.NEVER}
_FOLLOW: dict[str, Any] = {"precision": Precision.FOLLOW}

sum = _register("sum", lambda x, axes, keep: np.sum(_wide(x), axis=axes, keepdims=keep), **_NEVER)
mean = _register("mean", _mean, **_NEVER)
prod = _register("prod", lambda x, axes, keep: np.prod(_wide(x), axis=axes, keepdims=keep), **_NEVER)
max = _register("max", _extreme(np.max, lowest), "ordered", **_FOLLOW)
min = _register("min", _extreme(np.min, highest), "ordered", **_FOLLOW)
all = _register("all", lambda x, axes, keep: np.all(x, axis=axes, keepdims=keep), "bool")
any = _register("any", lambda x, axes, keep: np.any(x, axis=axes, keepdims=keep), "bool")


def _arg_type(types: Types, attrs: Attrs) -> Type:
    first = tensor(types[0])
    require_order(first)
    axes = normalize_axes(attrs["axis"], first.ndim, attrs["exclude"])
    result = TensorType(_shape(first, attrs), attrs["dtype"])
    require_positions([first.shape[axis] for axis in axes], result.size)
    return result


def _register_arg(name: str, function: Callable[..., Any]) -> Any:
    def reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
        axes = normalize_axes(attrs["axis"], x.ndim, attrs["exclude"])
        rest = [d for d in range(x.ndim) if d not in axes]
        rows = x.transpose([*rest, *axes]).reshape([x.shape[d] for d in rest] + [-1])
        if attrs["select_last_index"]:
            found = rows.shape[-1] - 1 - function(rows[..., ::-1], axis=-1)
        else:
            found = function(rows, axis=-1)
        shape = [1 if d in axes else s for d, s in enumerate(x.shape)] if attrs["keepdims"] else found.shape
        return np.asarray(found).reshape(shape).astype(attrs["dtype"])

    register(
        name,
        num_inputs=1,
        type_rule=_arg_type,
        compute=with_attrs(getattr(topi, name), "axis", "keepdims", "exclude", "select_last_index", "dtype"),
        pattern=OpPattern.COMM_REDUCE,
        reference=reference,
        follows=following.positions_of_extremes,
        attributes={**_ATTRIBUTES, "select_last_index": attr.flag(False), "dtype": attr.dtype("int32")},
    )

    def build(
        data: Expr,
        axis: Axis = None,
        keepdims: bool = False,
        exclude: bool = False,
        select_last_index: bool = False,
        dtype: str = "int32",
    ) -> Call:
        return call(
            name,
            data,
            axis=axis,
            keepdims=keepdims,
            exclude=exclude,
            select_last_index=select_last_index,
            dtype=str(dtype),
        )

    return named(build, name, getattr(topi, name).__doc__)


argmax = _register_arg("argmax", np.argmax)
argmin = _register_arg("argmin", np.argmin)
