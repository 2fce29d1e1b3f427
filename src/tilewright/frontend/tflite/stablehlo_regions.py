"""Operators of StableHLO on regions of tensors: padding, slices at positions, gathering, scattering, sums of products.

https://openxla.org/stablehlo/spec says what each computes; regions are found by the numbers of their elements.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.frontend.builders import windows
from tilewright.frontend.builders.product import einsum
from tilewright.frontend.idioms import cast, concatenate, constant, index_axis, reshape, slice_axis, transpose
from tilewright.frontend.tflite.node import Node, converts
from tilewright.frontend.tflite.stablehlo_bodies import combination, padded
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _numbers(node: Node, option: str) -> list[int]:
    found = getattr(node.operator.options, option, None)
    return [] if found is None else [int(value) for value in found]


# -------------------------------------------------------------------------------------------------- padding and slices
@converts("STABLEHLO_PAD")
def convert_pad(node: Node) -> Expr:
    """Inputs: data, what is put between, before and behind; a negative number before or behind takes off."""
    low, high, between = (
        _numbers(node, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    if not len(low) == len(high) == len(between) == node.rank() or min(between, default=0) < 0:
        node.bad(f"paddings {low}, {high} and {between} of {node.rank()} axes")
    return padded(node, node[0], reshape(node[1], ()), low, high, between)


@converts("STABLEHLO_DYNAMIC_SLICE")
def convert_dynamic_slice(node: Node) -> Expr:
    """Inputs: data, the first position of each axis, moved so that the slice fits."""
    sizes = _numbers(node, "slice_sizes")
    if len(sizes) != node.rank() or len(node.inputs) != 1 + node.rank():
        node.bad(f"slices of {sizes} at {len(node.inputs) - 1} positions of {node.rank()} axes")
    data = node[0]
    for axis, (size, extent) in enumerate(zip(sizes, node.shape())):
        if not 0 <= size <= extent:
            node.bad(f"a slice of {size} of an axis of {extent}")
        first = op.clip(reshape(cast(node[1 + axis], "int32"), ()), 0, extent - size)
        data = op.take(data, constant(np.arange(size), "int32") + first, axis=axis, mode="clip")
    return data


# --------------------------------------------------------------------------------------------- gathering and scattering
def _starts(node: Node, index: int, vector: int) -> Expr:
    """The positions of input `index` [batch …, coordinates], their axis of coordinates `vector` moved behind."""
    value, rank = cast(node[index], "int32"), node.rank(index)
    if vector == rank:
        return op.expand_dims(value, axis=rank)
    if not 0 <= vector < rank:
        node.bad(f"its coordinates lie along axis {vector} of {rank}")
    return transpose(value, [*(axis for axis in range(rank) if axis != vector), vector])


def _spread(value: Expr, node: Node, axes: Sequence[int], rank: int) -> Expr:
    """`value`, whose axes are `axes` of a result of `rank`, so that it broadcasts to that."""
    shape = [1] * rank
    for axis, extent in zip(axes, node.shape(value)):
        shape[axis] = extent
    return reshape(value, shape)


def _offsets(shape: Sequence[int], sizes: Sequence[int], kept: Sequence[int], axes: Sequence[int], rank: int) -> Any:
    """The numbers of a window's elements less that of its first, along the `axes` of a result that window axes are."""
    steps = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    total = np.zeros([1] * rank, np.int64)
    for axis, position in zip(kept, axes):
        line = np.arange(sizes[axis]) * steps[axis]
        total = total + line.reshape([-1 if i == position else 1 for i in range(rank)])
    return total


@converts("STABLEHLO_GATHER")
def convert_gather(node: Node) -> Expr:
    """Inputs: data, positions. A window at each position, moved so that it lies within the data."""
    shape, sizes = node.shape(), _numbers(node, "slice_sizes")
    collapsed, mapped = _numbers(node, "collapsed_slice_dims"), _numbers(node, "start_index_map")
    offset = _numbers(node, "offset_dims")
    starts = _starts(node, 1, int(node.option("index_vector_dim", 0)))
    kept = [axis for axis in range(len(shape)) if axis not in collapsed]
    rank = len(node.shape(starts)) - 1 + len(offset)
    batch = [axis for axis in range(rank) if axis not in offset]
    if len(sizes) != len(shape) or len(offset) != len(kept) or len(mapped) != node.shape(starts)[-1]:
        node.bad(f"windows of {sizes} at {len(mapped)} coordinates in data {list(shape)}")
    positions: Expr = constant(_offsets(shape, sizes, kept, offset, rank), "int32")
    for number, axis in enumerate(mapped):
        one = op.clip(index_axis(starts, len(node.shape(starts)) - 1, number), 0, shape[axis] - sizes[axis])
        step = constant(prod(shape[axis + 1 :]), "int32")
        positions = positions + _spread(one, node, batch, rank) * step
    return op.take(reshape(node[0], (prod(shape),)), positions, axis=0, mode="clip")


@converts("STABLEHLO_SCATTER")
def convert_scatter(node: Node) -> Expr:
    """Inputs: data, positions, updates: windows of updates combined with the data; those that do not fit are
    left out.
    """
    if len(node.inputs) != 3:
        node.unsupported(f"{len(node.inputs)} inputs; one tensor is scattered into")
    mode = combination(node, int(node.option("update_computation_subgraph_index")))
    modes = {"second": "update", "add": "add", "multiply": "mul", "minimum": "min", "maximum": "max"}
    if mode not in modes:
        node.unsupported(f"updates combined by {mode}")
    shape, update = node.shape(), node.shape(2)
    window, inserted = _numbers(node, "update_window_dims"), _numbers(node, "inserted_window_dims")
    mapped = _numbers(node, "scatter_dims_to_operand_dims")
    starts = _starts(node, 1, int(node.option("index_vector_dim", 0)))
    kept = [axis for axis in range(len(shape)) if axis not in inserted]
    batch = [axis for axis in range(len(update)) if axis not in window]
    if len(window) != len(kept) or len(mapped) != node.shape(starts)[-1]:
        node.bad(f"windows along {window} at {len(mapped)} coordinates in data {list(shape)}")
    sizes = [1] * len(shape)
    for axis, position in zip(kept, window):
        sizes[axis] = update[position]
    positions: Expr = constant(_offsets(shape, sizes, kept, window, len(update)), "int32")
    fits: Expr = constant(np.ones((1,) * len(update), bool), "bool")
    for number, axis in enumerate(mapped):
        one = index_axis(starts, len(node.shape(starts)) - 1, number)
        inside = op.logical_and(one >= 0, one <= shape[axis] - sizes[axis])
        fits = op.logical_and(fits, _spread(inside, node, batch, len(update)))
        step = constant(prod(shape[axis + 1 :]), "int32")
        positions = positions + _spread(one, node, batch, len(update)) * step
    total = prod(shape)
    positions = op.broadcast_to(op.where(fits, positions, total), shape=update)
    # one element more takes what is left out
    flat = concatenate([reshape(node[0], (total,)), constant(np.zeros(1), node.dtype())], 0)
    positions, updates = reshape(positions, (1, prod(update))), reshape(node[2], (prod(update),))
    result = op.scatter_nd(flat, positions, updates, mode=modes[mode])
    return reshape(slice_axis(result, 0, 0, total), shape)


# --------------------------------------------------------------------------------------------------- sums of products
@converts("STABLEHLO_DOT_GENERAL")
def convert_dot_general(node: Node) -> Expr:
    left_batch, right_batch, left_inner, right_inner = (
        _numbers(node, f"{side}_{kind}_dimensions") for kind in ("batching", "contracting") for side in ("lhs", "rhs")
    )
    if len(left_batch) != len(right_batch) or len(left_inner) != len(right_inner):
        node.bad(f"axes {left_batch}, {left_inner} of one side, {right_batch}, {right_inner} of the other")
    letters = iter(string.ascii_letters)
    left = {axis: next(letters) for axis in range(node.rank())}
    right = {theirs: left[own] for own, theirs in zip([*left_batch, *left_inner], [*right_batch, *right_inner])}
    right |= {axis: next(letters) for axis in range(node.rank(1)) if axis not in right}
    rows = [left[axis] for axis in range(node.rank()) if axis not in (*left_batch, *left_inner)]
    columns = [right[axis] for axis in range(node.rank(1)) if axis not in (*right_batch, *right_inner)]
    result = "".join([*(left[axis] for axis in left_batch), *rows, *columns])
    sides = ["".join(names[axis] for axis in range(len(names))) for names in (left, right)]
    dtype = node.output().dtype
    return einsum(f"{sides[0]},{sides[1]}->{result}", [cast(node[0], dtype), cast(node[1], dtype)])


@converts("STABLEHLO_CONVOLUTION")
def convert_convolution(node: Node) -> Expr:
    """Inputs: data and kernel, whose axes the options name."""
    data_axes = [int(node.option(f"input_{axis}_dimension")) for axis in ("batch", "feature")]
    data_axes += _numbers(node, "input_spatial_dimensions")
    kernel_axes = [int(node.option(f"kernel_{axis}_feature_dimension")) for axis in ("output", "input")]
    kernel_axes += _numbers(node, "kernel_spatial_dimensions")
    output_axes = [int(node.option(f"output_{axis}_dimension")) for axis in ("batch", "feature")]
    output_axes += _numbers(node, "output_spatial_dimensions")
    spatial = len(data_axes) - 2
    if spatial not in (1, 2, 3) or not sorted(data_axes) == sorted(kernel_axes) == sorted(output_axes):
        node.unsupported(f"data of axes {data_axes}, a kernel of {kernel_axes}, a result of {output_axes}")
    if int(node.option("batch_group_count", 1) or 1) != 1:
        node.unsupported("groups of the batch")
    ones = [1] * spatial
    strides, between, dilation = (
        _numbers(node, name) or ones for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    pads = np.reshape(_numbers(node, "padding") or [0] * 2 * spatial, (spatial, 2)).tolist()
    data, kernel = transpose(node[0], data_axes), transpose(node[1], kernel_axes)
    for axis, turned in enumerate(_numbers(node, "window_reversal")):
        kernel = op.reverse(kernel, axis=2 + axis) if turned else kernel
    before, behind = ([0, 0, *(pair[side] for pair in pads)] for side in (0, 1))
    data = padded(node, data, constant(0, node.dtype()), before, behind, [0, 0, *(step - 1 for step in between)])
    groups = int(node.option("feature_group_count", 1) or 1)
    result = windows.convolution(data, kernel, strides, (0,) * 2 * spatial, dilation, groups)
    return transpose(result, [output_axes.index(axis) for axis in range(2 + spatial)])
