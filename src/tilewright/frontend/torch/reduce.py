"""Reductions along axes, running sums, and the positions of extrema."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.frontend.idioms import (
    cast,
    concatenate,
    constant,
    full,
    like,
    product,
    rank_of,
    reshape,
    shape_of,
    slice_axis,
)
from tilewright.frontend.torch.build import divisor, element_type
from tilewright.frontend.torch.computing import in_float32
from tilewright.frontend.torch.math import to_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def squeezed(value: Expr, axes: tuple[int, ...], keepdim: Any) -> Expr:
    """`value`, of which `axes` have extent 1, without them where they are not to be kept."""
    return value if keepdim or not axes else op.squeeze(value, axis=axes)


@converts("aten.sum", "aten.mean", "aten.prod", "aten.nansum", "aten.nanmean")
def convert_sum(node: TorchNode) -> Expr:
    """Sum, mean or product over axes, in the type of the result."""
    axes, keepdim, data = node.axes(), bool(node.get("keepdim", False)), node.tensor("self")
    name = node.target.split(".")[1]
    if not rank_of(data):
        axes = ()
    nan = op.isnan(data) if name.startswith("nan") and node.dtype.is_float else None
    if nan is not None:
        data = op.where(nan, 0, data)
    if name == "nanmean" and nan is not None:
        total = op.sum(data, axis=axes, keepdims=keepdim) if axes else data
        there = cast(op.logical_not(nan), node.dtype)
        return total / (op.sum(there, axis=axes, keepdims=keepdim) if axes else there)
    if not axes:
        return data
    if any(isinstance(shape_of(data)[axis], int) and shape_of(data)[axis] == 0 for axis in axes):
        value = {"prod": 1.0, "mean": math.nan, "nanmean": math.nan}.get(name, 0.0)
        return full(value, node.shape, node.dtype)
    function = op.prod if name == "prod" else op.mean if "mean" in name else op.sum
    return function(data, axis=axes, keepdims=keepdim)


@converts("aten.amax", "aten.amin", "aten.max.default", "aten.min.default")
def convert_amax(node: TorchNode) -> Expr:
    """The largest or smallest element over axes; NaN where one is."""
    return extreme(node["self"], node.axes(), bool(node.get("keepdim", False)), "max" in node.target)


def extreme(data: Expr, axes: tuple[int, ...], keepdim: bool, largest: bool) -> Expr:
    """The largest or smallest element over axes; NaN where one is."""
    if not rank_of(data) or not axes:
        return data
    function = op.max if largest else op.min
    dtype = element_type(data)
    if dtype.is_bool:
        return cast(function(cast(data, "uint8"), axis=axes, keepdims=keepdim), "bool")
    found = function(data, axis=axes, keepdims=keepdim)
    if not dtype.is_float:
        return found
    nan = op.max(cast(op.isnan(data), "uint8"), axis=axes, keepdims=keepdim)
    return op.where(cast(nan, "bool"), math.nan, found)


@converts("aten.aminmax")
def convert_aminmax(node: TorchNode) -> list[Expr]:
    """Both extrema."""
    return [extreme(node["self"], node.axes(), bool(node["keepdim"]), largest) for largest in (False, True)]


@converts("aten.argmax", "aten.argmin")
def convert_argmax(node: TorchNode) -> Expr:
    """The position of the first extremum along an axis, or in the tensor as one vector; of NaN where one is."""
    data = node["self"]
    if not rank_of(data):
        return reshape(constant(0, "int64"), node.shape)
    keepdim = bool(node["keepdim"])
    if node["dim"] is None:
        found = position(reshape(data, (product(shape_of(data)),)), 0, False, "max" in node.target)
        return reshape(found, node.shape)
    return position(data, node.axis(), keepdim, "max" in node.target)


def position(data: Expr, axis: int, keepdim: bool, largest: bool) -> Expr:
    """The position of the first extremum along an axis, of NaN where there is one."""
    function = op.argmax if largest else op.argmin
    if element_type(data).is_bool:
        data = cast(data, "uint8")
    found = function(data, axis=axis, keepdims=keepdim, dtype="int64")
    if not element_type(data).is_float:
        return found
    nan = cast(op.isnan(data), "uint8")
    there = cast(op.max(nan, axis=axis, keepdims=keepdim), "bool")
    return op.where(there, op.argmax(nan, axis=axis, keepdims=keepdim, dtype="int64"), found)


@converts("aten.max.dim", "aten.min.dim")
def convert_max_dim(node: TorchNode) -> list[Expr]:
    """The extremum along an axis and its position."""
    data, keepdim, largest = node["self"], bool(node["keepdim"]), "max" in node.target
    if not rank_of(data):
        return [data, constant(0, "int64")]
    axis = node.axis()
    return [extreme(data, (axis,), keepdim, largest), position(data, axis, keepdim, largest)]


@converts("aten.any", "aten.all")
def convert_any(node: TorchNode) -> Expr:
    """True where any or each element is other than 0."""
    data, axes = to_type(node["self"], "bool"), node.axes()
    if rank_of(data) and axes:
        function = op.any if ".any" in node.target else op.all
        if any(isinstance(shape_of(data)[axis], int) and shape_of(data)[axis] == 0 for axis in axes):
            return full(".all" in node.target, node.shape, node.dtype)
        data = function(data, axis=axes, keepdims=bool(node.get("keepdim", False)))
    return cast(data, node.dtype)


@converts("aten.var", "aten.std", "aten.var_mean", "aten.std_mean")
@in_float32
def convert_var(node: TorchNode) -> Expr | list[Expr]:
    """The mean square distance from the mean, over count - correction elements; for std its root."""
    data, axes, keepdim = node["self"], node.axes(), bool(node.get("keepdim", False))
    correction = node.get("correction", 1 if node.get("unbiased", True) else 0)
    correction = 1 if correction is None else correction
    if not rank_of(data):
        made: Expr = full(math.nan if correction >= 1 else 0.0, (), node.dtype_at(0))
        return [made, data] if "mean" in node.target else made
    count = product([shape_of(data)[axis] for axis in axes])
    mean = op.mean(data, axis=axes, keepdims=True)
    distance = data - mean
    total = op.sum(distance * distance, axis=axes, keepdims=keepdim)
    made = total / divisor(node, count, correction, 0, data)
    made = op.sqrt(made) if "std" in node.target else made
    return [made, squeezed(mean, axes, keepdim)] if "mean" in node.target else made


@converts("aten.logsumexp", "aten.special_logsumexp")
def convert_logsumexp(node: TorchNode) -> Expr:
    """The logarithm of the sum of exponentials, the largest taken out first."""
    data, axes, keepdim = node.tensor("self"), node.axes(), bool(node["keepdim"])
    if not rank_of(data):
        return data
    return _logsumexp(data, axes, keepdim)


def _logsumexp(data: Expr, axes: tuple[int, ...], keepdim: bool) -> Expr:
    largest = op.max(data, axis=axes, keepdims=True)
    peak = op.where(op.isfinite(largest), largest, 0)
    total = op.sum(op.exp(data - peak), axis=axes, keepdims=True)
    return squeezed(op.log(total) + peak, axes, keepdim)


@converts("aten.norm", "aten.linalg_vector_norm", "aten.frobenius_norm")
@in_float32
def convert_norm(node: TorchNode) -> Expr:
    """The p-norm over axes."""
    order = node.get("ord", node.get("p", 2))
    data, axes = node.tensor("self"), node.axes()
    return p_norm(data, axes, 2 if order is None else order, bool(node.get("keepdim", False)))


def p_norm(data: Expr, axes: tuple[int, ...], order: float, keepdim: bool) -> Expr:
    """The norm of order `order` over axes; 0 counts what is not 0, ±inf are the extrema."""
    size = op.abs(data)
    if not rank_of(data) or not axes:
        return cast(op.not_equal(data, 0), element_type(data)) if order == 0 else size
    if math.isinf(order):
        return extreme(size, axes, keepdim, order > 0)
    if order == 0:
        return op.sum(cast(op.not_equal(data, 0), element_type(data)), axis=axes, keepdims=keepdim)
    if order == 1:
        return op.sum(size, axis=axes, keepdims=keepdim)
    if order == 2:
        return op.sqrt(op.sum(data * data, axis=axes, keepdims=keepdim))
    total = op.sum(op.power(size, like(order, data)), axis=axes, keepdims=keepdim)
    return op.power(total, like(1 / order, data))


@converts("aten.dist")
def convert_dist(node: TorchNode) -> Expr:
    """The p-norm of the difference."""
    difference = node.tensor("self") - node.tensor("other")
    return p_norm(difference, tuple(range(rank_of(difference))), node["p"], False)


@converts("aten.renorm")
def convert_renorm(node: TorchNode) -> Expr:
    """Slices of an axis scaled down to a norm of `maxnorm` at most."""
    data, axis = node["self"], node.axis()
    rest = tuple(other for other in range(rank_of(data)) if other != axis)
    norm = p_norm(data, rest, node["p"], True)
    bound = like(node["maxnorm"], data)
    scale = bound / (norm + 1e-7)
    return data * op.where(norm > bound, scale, 1)


@converts("aten.count_nonzero")
def convert_count_nonzero(node: TorchNode) -> Expr:
    """The number of elements other than 0."""
    there = cast(to_type(node["self"], "bool"), "int64")
    return op.sum(there, axis=node.axes(), keepdims=False) if rank_of(there) else there


@converts("aten.cumsum", "aten.cumprod")
def convert_cumsum(node: TorchNode) -> Expr:
    """Running sum or product along an axis."""
    data = node.tensor("self")
    if not rank_of(data):
        return data
    return (op.cumsum if "cumsum" in node.target else op.cumprod)(data, axis=node.axis())


@converts("aten.cummax", "aten.cummin")
def convert_cummax(node: TorchNode) -> list[Expr]:
    """Running extremum along an axis and the last position where it is met: of all prefixes at once."""
    data, axis, largest = node["self"], node.axis(), "max" in node.target
    if not rank_of(data):
        return [data, constant(0, "int64")]
    extent = shape_of(data)[axis]
    if not isinstance(extent, int) or element_type(data).is_bool:
        node.unsupported("a running extremum over truth values or an axis of symbolic extent")
    dtype = element_type(data)
    worst = dtype.extremes()[0 if largest else 1]
    wide = op.expand_dims(data, axis=axis)
    mask = np.tri(extent, dtype=bool).reshape(extent, extent, *[1] * (rank_of(data) - axis - 1))
    prefixes = op.where(constant(mask, "bool"), wide, like(worst, data))
    values = extreme(prefixes, (axis + 1,), False, largest)
    same = op.equal(prefixes, op.expand_dims(values, axis=axis + 1))
    if dtype.is_float:
        same = op.logical_or(same, op.isnan(prefixes))
    found = op.logical_and(same, constant(mask, "bool"))
    steps = constant(np.arange(extent).reshape(extent, *[1] * (rank_of(data) - axis - 1)), "int64")
    positions = op.max(op.where(found, steps, constant(0, "int64")), axis=(axis + 1,))
    return [values, positions]


@converts("aten.logcumsumexp")
def convert_logcumsumexp(node: TorchNode) -> Expr:
    """The logarithm of the running sum of exponentials: of all prefixes at once."""
    data, axis = node.tensor("self"), node.axis()
    if not rank_of(data):
        return data
    extent = shape_of(data)[axis]
    if not isinstance(extent, int):
        node.unsupported("an axis of symbolic extent")
    mask = np.tri(extent, dtype=bool).reshape(extent, extent, *[1] * (rank_of(data) - axis - 1))
    prefixes = op.where(constant(mask, "bool"), op.expand_dims(data, axis=axis), -math.inf)
    return _logsumexp(prefixes, (axis + 1,), False)


@converts("aten.diff")
def convert_diff(node: TorchNode) -> Expr:
    """Differences of neighbours along an axis, `n` times."""
    axis = node.axis()
    names = ("prepend", "self", "append") if node["n"] else ("self",)
    parts = [node[name] for name in names if node[name] is not None]
    data = concatenate([cast(part, node.dtype) for part in parts], axis)
    for _ in range(node["n"]):
        extent = shape_of(data)[axis]
        after, before = slice_axis(data, axis, 1, extent), slice_axis(data, axis, 0, extent - 1)
        data = op.logical_xor(after, before) if element_type(data).is_bool else after - before
    return data


@converts("aten.trace")
def convert_trace(node: TorchNode) -> Expr:
    """The sum of a diagonal."""
    rows, columns = shape_of(node["self"])
    kept = op.where(constant(np.eye(rows, columns), "bool"), node.tensor("self"), constant(0, node.dtype))
    return op.sum(kept, axis=(0, 1))
