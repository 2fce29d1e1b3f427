"""Reductions along axes, and the positions of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tilewright.frontend.idioms import cast, constant, index_axis, reshape, transpose
from tilewright.frontend.tflite.fixed_point import (
    centred,
    finish,
    multiply,
    multiply_wide,
    quantize_multiplier,
    rescaling,
)
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType

_REDUCTIONS: dict[str, Callable[..., Expr]] = {
    "SUM": op.sum, "MEAN": op.mean, "REDUCE_PROD": op.prod, "REDUCE_MAX": op.max, "REDUCE_MIN": op.min,
    "REDUCE_ANY": op.any, "REDUCE_ALL": op.all,
}  # fmt: skip


@converts(*_REDUCTIONS)
def convert_reduction(node: Node) -> Expr:
    axes = sorted({node.axis(axis) for axis in node.ints(1, "axes")})
    keep = bool(node.option("keep_dims", False))
    if not axes:
        return node[0]
    if node.is_quantized() and node.name in ("SUM", "MEAN"):
        return _scaled_sum(node, axes, keep)
    if node.is_quantized() and node.name == "REDUCE_PROD":
        return _scaled_product(node, axes, keep)
    if node.name == "MEAN" and node.dtype() in ("int32", "int64"):
        total = op.sum(cast(node[0], "int64"), axis=axes, keepdims=keep)
        return cast(total / prod(node.shape()[axis] for axis in axes), node.dtype())
    return _REDUCTIONS[node.name](node[0], axis=axes, keepdims=keep)


def _scaled_sum(node: Node, axes: Sequence[int], keep: bool) -> Expr:
    """Sums of integers in int32, scaled to the output, a mean's count within the factor."""
    given, wanted = node.input_quantization(), node.output_quantization()
    count = prod(node.shape()[axis] for axis in axes)
    multiplier, shift = rescaling(given, wanted)
    total: Expr = op.sum(cast(node[0], "int32"), axis=axes, keepdims=keep)
    if given.zero:
        total = total - (given.zero * count)
    if node.name == "MEAN":
        positions = min(count.bit_length() - 1, 32, 31 + shift)
        multiplier, shift = (multiplier << positions) // count, shift - positions
    return finish(node, multiply(total, multiplier, shift), "NONE")


#: More products one after the other are refused.
_MOST_PRODUCTS = 512


def _scaled_product(node: Node, axes: Sequence[int], keep: bool) -> Expr:
    """Products of integers, each scaled by the same share of the whole factor so that none overflows."""
    if node.dtype() == "uint8":
        node.unsupported("quantized tensors of uint8")
    given, wanted, shape = node.input_quantization(), node.output_quantization(), node.shape()
    count = prod(shape[axis] for axis in axes)
    if not 0 < count <= _MOST_PRODUCTS:
        node.unsupported(f"products of {count} integers; up to {_MOST_PRODUCTS}")
    factor = quantize_multiplier(given.step / wanted.step ** (1.0 / count))
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    rows = reshape(transpose(centred(node, 0, "int64"), (*axes, *rest)), (count, *(shape[axis] for axis in rest)))
    total = cast(index_axis(rows, 0, 0), "int32")
    for position in range(1, count):
        total = multiply_wide(cast(total, "int64") * index_axis(rows, 0, position), *factor)
    total = multiply_wide(cast(total, "int64"), *factor)
    kept = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
    return finish(node, reshape(total, kept) if keep else total, "NONE")


@converts("ARG_MAX", "ARG_MIN")
def convert_arg(node: Node) -> Expr:
    axis = node.axis(node.ints(1, "axis")[0])
    function = op.argmax if node.name == "ARG_MAX" else op.argmin
    return cast(function(node[0], axis=axis), node.output().dtype)


_SEGMENTS = {
    "SEGMENT_SUM": ("add", 0.0), "UNSORTED_SEGMENT_SUM": ("add", 0.0), "UNSORTED_SEGMENT_PROD": ("mul", 1.0),
    "UNSORTED_SEGMENT_MAX": ("max", -np.inf), "UNSORTED_SEGMENT_MIN": ("min", np.inf),
}  # fmt: skip


@converts(*_SEGMENTS)
def convert_segment(node: Node) -> Expr:
    """Rows of the data gathered into the segments that their numbers name; rows of a negative number are dropped."""
    mode, start = _SEGMENTS[node.name]
    if node.name == "SEGMENT_SUM":
        segments = int(node.static(1, "segment numbers").max(initial=-1)) + 1
    else:
        segments = node.ints(2, "number of segments")[0]
    ids, rank = node[1], node.rank(1)
    rows, rest = prod(node.shape(1)), node.shape()[rank:]
    data = op.reshape(node[0], newshape=(rows, *rest))
    ids = op.reshape(cast(ids, "int32"), newshape=(rows,))
    kind = DType(node.dtype())
    first = kind.finite_limits()[0 if start < 0 else 1] if np.isinf(start) else start
    # one segment more takes what is dropped
    ids = op.where(ids < 0, segments, ids)
    initial = constant(np.full((segments + 1, *rest), first), node.dtype())
    positions = op.reshape(ids, newshape=(1, rows))
    return op.strided_slice(op.scatter_nd(initial, positions, data, mode=mode), begin=(0,), end=(segments,), axes=(0,))
