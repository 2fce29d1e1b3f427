"""Reductions along axes, running sums, and the positions of extrema."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders.functions import log_sum_exp
from tilewright.frontend.builders.product import diagonal
from tilewright.frontend.builders.reductions import p_norm as norm
from tilewright.frontend.idioms import as_vector, cast, constant, full, like, rank_of, reshape, shape_of, slice_axis
from tilewright.frontend.signature import Axis, Typed
from tilewright.frontend.torch.build import divisor, element_type
from tilewright.frontend.torch.computing import in_float32
from tilewright.frontend.torch.math import to_type
from tilewright.frontend.torch.node import Axes, TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("aten.sum", "aten.mean", "aten.prod", "aten.nansum", "aten.nanmean")
def convert_sum(node: TorchNode, data: Typed, dim: Axes = (), keepdim: bool = False) -> Expr:
    """Sum, mean or product over axes, in the type of the result."""
    name = node.target.split(".")[1]
    if not rank_of(data):
        dim = ()
    nan = op.isnan(data) if name.startswith("nan") and node.dtype.is_float else None
    if nan is not None:
        data = op.where(nan, 0, data)
    if name == "nanmean" and nan is not None:
        total = op.sum(data, axis=dim, keepdims=keepdim) if dim else data
        there = cast(op.logical_not(nan), node.dtype)
        return total / (op.sum(there, axis=dim, keepdims=keepdim) if dim else there)
    if not dim:
        return data
    if any(isinstance(shape_of(data)[axis], int) and shape_of(data)[axis] == 0 for axis in dim):
        value = {"prod": 1.0, "mean": math.nan, "nanmean": math.nan}.get(name, 0.0)
        return full(value, node.shape, node.dtype)
    function = op.prod if name == "prod" else op.mean if "mean" in name else op.sum
    return function(data, axis=dim, keepdims=keepdim)


@converts("aten.amax", "aten.amin", "aten.max.default", "aten.min.default")
def convert_amax(node: TorchNode, data: Expr, dim: Axes = (), keepdim: bool = False) -> Expr:
    """The largest or smallest element over axes; NaN where one is."""
    return extreme(data, dim, keepdim, "max" in node.target)


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
def convert_aminmax(data: Expr, dim: Axes = (), keepdim: bool = False) -> list[Expr]:
    return [extreme(data, dim, keepdim, largest) for largest in (False, True)]


@converts("aten.argmax", "aten.argmin")
def convert_argmax(node: TorchNode, data: Expr, keepdim: bool, dim: Any = None) -> Expr:
    """The position of the first extremum along an axis, or in the tensor as one vector; of NaN where one is."""
    if not rank_of(data):
        return reshape(constant(0, "int64"), node.shape)
    if dim is None:
        found = position(as_vector(data), 0, False, "max" in node.target)
        return reshape(found, node.shape)
    return position(data, node.axis(node["dim"]), keepdim, "max" in node.target)


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
def convert_max_dim(node: TorchNode, data: Expr, keepdim: bool) -> list[Expr]:
    largest = "max" in node.target
    if not rank_of(data):
        return [data, constant(0, "int64")]
    axis = node.axis(node["dim"])
    return [extreme(data, (axis,), keepdim, largest), position(data, axis, keepdim, largest)]


@converts("aten.any", "aten.all")
def convert_any(node: TorchNode, dim: Axes = (), keepdim: bool = False) -> Expr:
    data = to_type(node["self"], "bool")
    if rank_of(data) and dim:
        function = op.any if ".any" in node.target else op.all
        if any(isinstance(shape_of(data)[axis], int) and shape_of(data)[axis] == 0 for axis in dim):
            return full(".all" in node.target, node.shape, node.dtype)
        data = function(data, axis=dim, keepdims=keepdim)
    return cast(data, node.dtype)


@converts("aten.var", "aten.std", "aten.var_mean", "aten.std_mean")
@in_float32
def convert_var(
    node: TorchNode, data: Expr, dim: Axes = (), keepdim: bool = False, correction: Any = None, unbiased: bool = True
) -> Expr | list[Expr]:
    """The mean square distance from the mean, over count - correction elements; for std its root."""
    correction = int(unbiased) if correction is None else correction
    if not rank_of(data):
        made: Expr = full(math.nan if correction >= 1 else 0.0, (), node.dtype_at(0))
        return [made, data] if "mean" in node.target else made
    count = idioms.product([shape_of(data)[axis] for axis in dim])
    mean = op.mean(data, axis=dim, keepdims=True)
    distance = data - mean
    total = op.sum(distance * distance, axis=dim, keepdims=keepdim)
    made = total / divisor(node, count, correction, 0, data)
    made = op.sqrt(made) if "std" in node.target else made
    return [made, mean if keepdim or not dim else op.squeeze(mean, axis=dim)] if "mean" in node.target else made


@converts("aten.logsumexp", "aten.special_logsumexp")
def convert_logsumexp(data: Typed, dim: Axes = (), keepdim: bool = False) -> Expr:
    """The logarithm of the sum of exponentials, the largest taken out first."""
    return log_sum_exp(data, dim, keepdim) if rank_of(data) else data


@converts("aten.norm", "aten.linalg_vector_norm", "aten.frobenius_norm")
@in_float32
def convert_norm(data: Typed, ord: Any = None, p: Any = 2, dim: Axes = (), keepdim: bool = False) -> Expr:
    return p_norm(data, dim, p if ord is None else ord, keepdim)


def p_norm(data: Expr, axes: tuple[int, ...], order: float, keepdim: bool) -> Expr:
    """The norm of order `order` over axes; 0 counts what is not 0, ±inf are the extrema."""
    if not rank_of(data) or not axes:
        return cast(op.not_equal(data, 0), element_type(data)) if order == 0 else op.abs(data)
    return extreme(op.abs(data), axes, keepdim, order > 0) if math.isinf(order) else norm(data, axes, order, keepdim)


@converts("aten.dist")
def convert_dist(data: Typed, other: Typed, p: Any) -> Expr:
    difference = data - other
    return p_norm(difference, tuple(range(rank_of(difference))), p, False)


@converts("aten.renorm")
def convert_renorm(data: Expr, dim: Axis, p: Any, maxnorm: Any) -> Expr:
    """Slices of an axis scaled down to a norm of `maxnorm` at most."""
    norm = p_norm(data, tuple(other for other in range(rank_of(data)) if other != dim), p, True)
    return data * op.where(norm > maxnorm, like(maxnorm, data) / (norm + 1e-7), 1)


@converts("aten.count_nonzero")
def convert_count_nonzero(data: Expr, dim: Axes = ()) -> Expr:
    there = cast(to_type(data, "bool"), "int64")
    return op.sum(there, axis=dim, keepdims=False) if rank_of(there) else there


@converts("aten.cumsum", "aten.cumprod")
def convert_cumsum(node: TorchNode, data: Typed) -> Expr:
    if not rank_of(data):
        return data
    return (op.cumsum if "cumsum" in node.target else op.cumprod)(data, axis=node.axis(node["dim"]))


@converts("aten.cummax", "aten.cummin")
def convert_cummax(node: TorchNode, data: Expr, dim: Axis) -> list[Expr]:
    """Running extremum along an axis and the last position where it is met: of all prefixes at once."""
    largest = "max" in node.target
    if not rank_of(data):
        return [data, constant(0, "int64")]
    extent = shape_of(data)[dim]
    if not isinstance(extent, int) or element_type(data).is_bool:
        node.unsupported("a running extremum over truth values or an axis of symbolic extent")
    dtype = element_type(data)
    worst = dtype.extremes()[0 if largest else 1]
    wide = op.expand_dims(data, axis=dim)
    mask = np.tri(extent, dtype=bool).reshape(extent, extent, *[1] * (rank_of(data) - dim - 1))
    prefixes = op.where(constant(mask, "bool"), wide, like(worst, data))
    values = extreme(prefixes, (dim + 1,), False, largest)
    same = op.equal(prefixes, op.expand_dims(values, axis=dim + 1))
    if dtype.is_float:
        same = op.logical_or(same, op.isnan(prefixes))
    found = op.logical_and(same, constant(mask, "bool"))
    steps = constant(np.arange(extent).reshape(extent, *[1] * (rank_of(data) - dim - 1)), "int64")
    positions = op.max(op.where(found, steps, constant(0, "int64")), axis=(dim + 1,))
    return [values, positions]


@converts("aten.logcumsumexp")
def convert_logcumsumexp(node: TorchNode, data: Typed, dim: Axis) -> Expr:
    """The logarithm of the running sum of exponentials: of all prefixes at once."""
    if not rank_of(data):
        return data
    extent = shape_of(data)[dim]
    if not isinstance(extent, int):
        node.unsupported("an axis of symbolic extent")
    mask = np.tri(extent, dtype=bool).reshape(extent, extent, *[1] * (rank_of(data) - dim - 1))
    prefixes = op.where(constant(mask, "bool"), op.expand_dims(data, axis=dim), -math.inf)
    return log_sum_exp(prefixes, (dim + 1,), False)


@converts("aten.diff")
def convert_diff(node: TorchNode, dim: Axis, n: Any) -> Expr:
    """Differences of neighbours along an axis, `n` times."""
    names = ("prepend", "self", "append") if n else ("self",)
    parts = [node[name] for name in names if node[name] is not None]
    data = idioms.concatenate([cast(part, node.dtype) for part in parts], dim)
    for _ in range(n):
        extent = shape_of(data)[dim]
        after, before = slice_axis(data, dim, 1, extent), slice_axis(data, dim, 0, extent - 1)
        data = op.logical_xor(after, before) if element_type(data).is_bool else after - before
    return data


@converts("aten.trace")
def convert_trace(node: TorchNode) -> Expr:
    return op.sum(diagonal(node.tensor("self")), axis=(0,))
