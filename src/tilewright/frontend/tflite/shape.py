"""Operators that move, join, cut and repeat elements."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders.elements import masked_slices, on_diagonal, python_slice, reversed_axes, split_axis
from tilewright.frontend.builders.sliding import blocks_as_channels
from tilewright.frontend.tflite.activation import activated
from tilewright.frontend.tflite.fixed_point import looked_up, round_array
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.op import host


# ------------------------------------------------------------------------------------------------------- shapes
@converts("RESHAPE")
def convert_reshape(node: Node) -> Expr:
    if node.has(1):
        wanted = node.sizes(1, "shape")
    else:
        wanted = [int(extent) for extent in node.option("new_shape", ())]
    return op.reshape(node[0], newshape=tuple(wanted))


@converts("SHAPE")
def convert_shape(node: Node) -> Expr:
    if all(isinstance(extent, int) for extent in node.shape()):
        return idioms.constant(node.shape(), node.output().dtype)
    return host.shape_of(node[0], node.output().dtype)


converts.functions({
    "SPACE_TO_DEPTH DEPTH_TO_SPACE": lambda node: blocks_as_channels(
        node[0], int(node.option("block_size")), node.name == "DEPTH_TO_SPACE"
    ),
    "RANK": lambda node: idioms.constant(node.rank(), "int32"),
    "EXPAND_DIMS": lambda node: op.expand_dims(node[0], axis=node.axis(node.ints(1, "axis")[0], node.rank() + 1)),
    "BROADCAST_TO": lambda node: idioms.broadcast_to(node[0], node.sizes(1, "shape")),
    "BROADCAST_ARGS": lambda node: idioms.constant(
        np.broadcast_shapes(tuple(node.ints(0, "shape")), tuple(node.ints(1, "shape"))), node.dtype()
    ),
    "FILL": lambda node: op.broadcast_to(idioms.reshape(node[1], ()), shape=tuple(node.ints(0, "shape"))),
    "REVERSE_V2": lambda node: reversed_axes(node[0], map(node.axis, node.ints(1, "axes"))),
    "TILE": lambda node: op.tile(node[0], reps=node.ints(1, "repetitions")),
    "MATRIX_DIAG": lambda node: on_diagonal(node[0]),
    "MATRIX_SET_DIAG": lambda node: op.matrix_set_diag(node[0], node[1]),
    "MIRROR_PAD": lambda node: op.nn.mirror_pad(
        node[0], _pairs(node), mode=node.choice("mode", ("REFLECT", "SYMMETRIC"))
    ),
})  # fmt: skip


@converts("SQUEEZE")
def convert_squeeze(node: Node) -> Expr:
    return idioms.without_axes(node[0], [node.axis(int(axis)) for axis in node.option("squeeze_dims", ())])


@converts("TRANSPOSE")
def convert_transpose(node: Node) -> Expr:
    axes = [node.axis(axis) for axis in node.ints(1, "permutation")]
    if sorted(axes) != list(range(node.rank())):
        node.bad(f"{axes} is no order of {node.rank()} axes")
    return idioms.transpose(node[0], axes)


@converts("RANGE")
def convert_range(node: Node) -> Expr:
    start, stop, step = (node.static(index, what).reshape(-1)[0] for index, what in enumerate(("start", "end", "step")))
    if step == 0:
        node.bad("a range by steps of 0")
    count = max(int(np.ceil((stop - start) / step)), 0)
    return idioms.constant(start + np.arange(count) * step, node.output().dtype)


# --------------------------------------------------------------------------------------------- joining, cutting
@converts("CONCATENATION")
def convert_concatenation(node: Node) -> Expr:
    axis = node.axis(int(node.option("axis")))
    values = node.given()
    if node.is_quantized() and node.dtype() == "uint8":
        values = [_requantized(node, index) for index in range(len(values))]
    joined = idioms.concatenate(values, axis)
    return joined if node.is_quantized() else activated(node, joined)


def _requantized(node: Node, index: int) -> Expr:
    """Input `index` at the output's scale, through float32 as the reference kernel does it for uint8."""
    given, wanted = node.input_quantization(index), node.output_quantization()
    if (given.step, given.zero) == (wanted.step, wanted.zero):
        return node[index]
    inverse = np.float32(1) / wanted.scale[0]
    scale = given.scale[0] * inverse
    bias = np.float32(-given.zero) * scale
    table = round_array(np.arange(256, dtype=np.float32) * scale + bias).astype(np.int64) + wanted.zero
    return looked_up(np.clip(table, 0, 255), idioms.cast(node[index], "int32"), "uint8")


@converts("PACK")
def convert_pack(node: Node) -> Expr:
    axis = node.axis(int(node.option("axis")), node.rank() + 1)
    return idioms.concatenate([op.expand_dims(value, axis=axis, num_newaxis=1) for value in node.given()], axis)


@converts("UNPACK")
def convert_unpack(node: Node) -> list[Expr]:
    axis = node.axis(int(node.option("axis")))
    return [idioms.index_axis(node[0], axis, position) for position in range(len(node.operator.outputs))]


@converts("SPLIT")
def convert_split(node: Node) -> list[Expr]:
    """Inputs: axis, data."""
    axis, count = node.axis(node.ints(0, "axis")[0], node.rank(1)), len(node.operator.outputs)
    return split_axis(node, node[1], axis, count)


@converts("SPLIT_V")
def convert_split_v(node: Node) -> list[Expr]:
    """Inputs: data, sizes, axis; one size may be -1, what is left."""
    return split_axis(node, node[0], node.axis(node.ints(2, "axis")[0]), node.ints(1, "sizes"))


@converts("SLICE")
def convert_slice(node: Node) -> Expr:
    begins, sizes = node.ints(1, "begin"), node.ints(2, "size")
    ends = [b + s if s != -1 else extent for b, s, extent in zip(begins, sizes, node.shape())]
    for axis, (begin, end) in enumerate(zip(begins, ends)):
        extent = node.shape()[axis]
        if isinstance(extent, int) and not 0 <= begin <= end <= extent:
            node.bad(f"elements {begin} to {end} of axis {axis}, which has {extent}")
    return op.strided_slice(node[0], begin=tuple(begins), end=tuple(ends))


@converts("STRIDED_SLICE")
def convert_strided_slice(node: Node) -> Expr:
    """Python's slices as masks over begin, end and strides: left open, an ellipsis, a new axis, an index."""
    begin, end, strides = (node.ints(i, what) for i, what in ((1, "begin"), (2, "end"), (3, "strides")))
    masks = {
        name: int(node.option(f"{name}_mask", 0)) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if node.option("offset", False):
        end = [first + last for first, last in zip(begin, end)]

    def element(data: Expr, axis: int, position: int) -> Expr:
        extent = node.shape(data)[axis]
        return idioms.index_axis(data, axis, node.axis(position, extent) if isinstance(extent, int) else position)

    bounds = list(zip(begin, end, strides))
    return masked_slices(node[0], node.rank(), bounds, masks, element, python_slice)


@converts("REVERSE_SEQUENCE")
def convert_reverse_sequence(node: Node) -> Expr:
    seq, batch = node.axis(int(node.option("seq_dim", 0))), node.axis(int(node.option("batch_dim", 0)))
    return op.reverse_sequence(node[0], idioms.cast(node[1], "int32"), seq_axis=seq, batch_axis=batch)


# ------------------------------------------------------------------------------------------------------ padding
def _pairs(node: Node, index: int = 1) -> list[tuple[int, int]]:
    given = node.static(index, "paddings")
    if given.ndim != 2 or given.shape[1] != 2 or (given < 0).any():
        node.bad(f"paddings {given.tolist()}")
    return [(int(before), int(behind)) for before, behind in given]


@converts("PAD", "PADV2")
def convert_pad(node: Node) -> Expr:
    value: Any = 0
    if node.has(2):
        value = node.static(2, "padding value").reshape(-1)[0].item()
    elif node.is_quantized():
        value = node.output_quantization().zero
    return op.nn.pad(node[0], _pairs(node), pad_value=value)


@converts("DILATE")
def convert_dilate(node: Node) -> Expr:
    """Inputs: data, the step of each axis, what stands between."""
    steps = node.ints(1, "dilations")
    if len(steps) != node.rank() or min(steps, default=1) < 1:
        node.bad(f"dilations {steps} of {node.rank()} axes")
    value = node.static(2, "padding value").reshape(-1)[0].item()
    return op.nn.dilate(node[0], strides=steps, dilation_value=value)


# ----------------------------------------------------------------------------------------------- space and depth
@converts("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def convert_space_and_batch(node: Node) -> Expr:
    blocks, pairs = node.ints(1, "block shape"), _pairs(node, 2)
    if node.name == "BATCH_TO_SPACE_ND":
        return op.nn.batch_to_space_nd(node[0], block_shape=blocks, crops=pairs)
    value = node.output_quantization().zero if node.is_quantized() else 0
    return op.nn.space_to_batch_nd(node[0], block_shape=blocks, paddings=pairs, pad_value=value)


# -------------------------------------------------------------------------------------------------------- images
@converts("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def convert_resize(node: Node) -> Expr:
    size = node.ints(1, "size")
    align, half = bool(node.option("align_corners", False)), bool(node.option("half_pixel_centers", False))
    mode = "align_corners" if align else "half_pixel" if half else "asymmetric"
    data = idioms.channels_first(node[0])
    if node.name == "RESIZE_BILINEAR":
        if node.is_quantized():
            return _bilinear_of_codes(node, size, align, half)
        return idioms.channels_last(op.image.resize2d(data, size, method="linear", coordinate_transformation_mode=mode))
    return _nearest(node, size, align, half)


def _bilinear_of_codes(node: Node, size: list[int], align: bool, half: bool) -> Expr:
    """The kernel's integers: positions and shares in 1/1024; beyond the first and last centre the border goes on."""
    if node.dtype() == "uint8":
        return _bilinear_of_bytes(node, size, align, half)
    kind = "int32" if node.dtype() == "int8" else "int64"
    value = idioms.cast(node[0], kind)
    for axis, wanted in enumerate(size, 1):
        extent, ends = node.shape()[axis], align and wanted > 1
        parts, whole = (extent - 1, wanted - 1) if ends else (extent, wanted)
        step = (1024 * parts + whole // 2) // whole
        at = np.arange(wanted) * step + (step // 2 - 512 if half else 0)
        before, behind = np.maximum(at // 1024, 0), np.minimum((at + 1023) // 1024, extent - 1)
        share = (at - 1024 * before).reshape([-1 if position == axis else 1 for position in range(4)])
        near, far = (op.take(value, idioms.constant(one, "int32"), axis=axis, mode="fast") for one in (before, behind))
        value = near * idioms.constant(1024 - share, kind) + far * idioms.constant(share, kind)
    half_step = op.where(value > 0, idioms.like(1 << 19, value), idioms.like(-(1 << 19), value))
    return idioms.cast((value + half_step) / (1 << 20), node.dtype())


def _bilinear_of_bytes(node: Node, size: list[int], align: bool, half: bool) -> Expr:
    """The four corners in float32, one after the other as the kernel adds them."""
    one, corners = np.float32(1), []
    for axis, wanted in enumerate(size, 1):
        extent = node.shape()[axis]
        centre = np.float32(0.5 if half else 0)
        at = (np.arange(wanted, dtype=np.float32) + centre) * _step(extent, wanted, align) - centre
        before = np.maximum(np.floor(at), 0)
        behind = np.minimum(np.ceil(at), extent - 1)
        rest = (at - before).reshape([-1 if position == axis else 1 for position in range(4)])
        corners.append(((before, one - rest), (behind, rest)))
    terms: list[Expr] = []
    for column, across in corners[1]:
        for row, down in corners[0]:
            rows = op.take(node[0], idioms.constant(row, "int32"), axis=1, mode="fast")
            corner = idioms.cast(op.take(rows, idioms.constant(column, "int32"), axis=2, mode="fast"), "float32")
            exact = idioms.cast(corner * down, "float64") * idioms.constant(across, "float64")
            terms.append(idioms.cast(exact, "float32"))  # a product in float32 would be fused with the sum
    return idioms.cast(reduce(op.add, [*terms, idioms.constant(0.5)]), "uint8")


def _step(extent: int, wanted: int, align: bool) -> np.float32:
    """From one row of the result to the next in rows of the source."""
    if align and wanted > 1:
        return np.float32(extent - 1) / np.float32(wanted - 1)
    return np.float32(extent) / np.float32(wanted)


def _nearest(node: Node, size: list[int], align: bool, half: bool) -> Expr:
    """The kernel's own choice of the source of each row and column, in float32."""
    value = node[0]
    for axis, wanted in enumerate(size, 1):
        extent = node.shape()[axis]
        at = (np.arange(wanted, dtype=np.float32) + np.float32(0.5 if half else 0)) * _step(extent, wanted, align)
        positions = round_array(at) if align else np.floor(at)
        value = op.take(value, idioms.constant(np.clip(positions, 0, extent - 1), "int32"), axis=axis, mode="fast")
    return value
