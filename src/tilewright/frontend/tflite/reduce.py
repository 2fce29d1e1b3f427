"""Reductions along axes, and the positions of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tilewright.frontend.builders.reductions import segmented
from tilewright.frontend.idioms import cast, index_axis, reshape, round_half_away, slice_axis, transpose
from tilewright.frontend.tflite import fixed_point
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

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
    scaled = {"SUM": _scaled_sum, "MEAN": _scaled_sum, "REDUCE_PROD": _scaled_product}.get(node.name)
    if scaled and node.is_quantized():
        return scaled(node, axes, keep)
    if node.name == "MEAN" and node.dtype() in ("int32", "int64"):
        total = op.sum(cast(node[0], "int64"), axis=axes, keepdims=keep)
        return cast(total / prod(node.shape()[axis] for axis in axes), node.dtype())
    return _REDUCTIONS[node.name](node[0], axis=axes, keepdims=keep)


def _scaled_sum(node: Node, axes: Sequence[int], keep: bool) -> Expr:
    """Sums of integers in int32, scaled to the output, a mean's count within the factor."""
    given, wanted = node.input_quantization(), node.output_quantization()
    count = prod(node.shape()[axis] for axis in axes)
    multiplier, shift = fixed_point.rescaling(given, wanted)
    total: Expr = op.sum(cast(node[0], "int32"), axis=axes, keepdims=keep)
    if given.zero:
        total = total - (given.zero * count)
    if node.name == "SUM" and node.dtype() != "uint8":  # as the usual kernels; the reference writes no result
        ratio = float(np.float32(given.step) / np.float32(wanted.step))
        exact = cast(cast(total, "float32"), "float64") * ratio  # or the product is fused with what rounds it
        return fixed_point.finish(node, cast(round_half_away(cast(exact, "float32")), "int32"), "NONE")
    if node.name == "MEAN":
        positions = min(count.bit_length() - 1, 32, 31 + shift)
        multiplier, shift = (multiplier << positions) // count, shift - positions
    return fixed_point.finish(node, fixed_point.multiply(total, multiplier, shift), "NONE")


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
    factor = fixed_point.quantize_multiplier(given.step / wanted.step ** (1.0 / count))
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    rows = reshape(
        transpose(fixed_point.centred(node, 0, "int64"), (*axes, *rest)), (count, *(shape[axis] for axis in rest))
    )
    total = cast(index_axis(rows, 0, 0), "int32")
    for position in range(1, count):
        total = fixed_point.multiply_wide(cast(total, "int64") * index_axis(rows, 0, position), *factor)
    total = fixed_point.multiply_wide(cast(total, "int64"), *factor)
    kept = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
    return fixed_point.finish(node, reshape(total, kept) if keep else total, "NONE")


@converts("ARG_MAX", "ARG_MIN")
def convert_arg(node: Node) -> Expr:
    axis = node.axis(node.ints(1, "axis")[0])
    function = op.argmax if node.name == "ARG_MAX" else op.argmin
    return cast(function(node[0], axis=axis), node.output().dtype)


@converts(
    "SEGMENT_SUM", "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN"
)
def convert_segment(node: Node) -> Expr:
    """Rows of the data gathered into the segments that their numbers name; rows of a negative number are dropped."""
    if node.name == "SEGMENT_SUM":
        segments = int(node.static(1, "segment numbers").max(initial=-1)) + 1
    else:
        segments = node.ints(2, "number of segments")[0]
    ids, rank = node[1], node.rank(1)
    rows, rest = prod(node.shape(1)), node.shape()[rank:]
    data = op.reshape(node[0], newshape=(rows, *rest))
    ids = op.reshape(cast(ids, "int32"), newshape=(rows,))
    # one segment more takes what is dropped
    ids = op.where(ids < 0, segments, ids)
    made = segmented(node.name.rpartition("_")[2].lower(), data, ids, segments + 1)
    return slice_axis(made, 0, 0, segments)
