"""Operators that move data: constants, joining, splitting, slicing, permuting, repeating, padding, selecting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import tir
from tilewright.errors import ModelError, ShapeError
from tilewright.frontend.builders.sliding import unshuffled
from tilewright.frontend.idioms import broadcast_to, cast, concatenate, constant, slice_axis
from tilewright.frontend.onnx.dims import broadcast, is_known, is_static
from tilewright.frontend.onnx.node import NeedsValue, OnnxNode, sized, transpose
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import Any as Any_
from tilewright.relay.ir.type import as_dim

_PLAIN_VALUES = {"value_float": "float32", "value_floats": "float32", "value_int": "int64", "value_ints": "int64"}


@converts("Constant")
def convert_constant(node: OnnxNode) -> Expr:
    value = node.attr("value")
    value = node.attr("sparse_value") if value is None else value
    if value is not None:
        return Constant(value)
    for name, dtype in _PLAIN_VALUES.items():
        given = node.attr(name)
        if given is not None:
            return constant(given, dtype)
    text = node.attr("value_string")
    texts = node.attr("value_strings") if text is None else [text]
    if texts is None:
        raise ModelError(f"{node.label} has none of the attributes that say what it is")
    values = np.array(texts, object)
    return Constant(values if text is None else values.reshape(()))


@converts("Dropout")
def convert_dropout(node: OnnxNode) -> list[Expr]:
    """The input itself: at inference nothing is dropped, and the mask is all true."""
    node.ignore("ratio")
    training = node.has(2) and bool(node.static(2, "training_mode"))
    if training and not (node.has(1) and float(node.static(1, "ratio")) == 0):
        node.unsupported("training_mode")
    mask = Constant(np.broadcast_to(np.array(True), node.shape()))
    mask_dtype = "bool" if node.opset >= 10 else node.dtype()
    return [node[0], cast(mask, mask_dtype)] if node.wants(1) else [node[0]]


@converts("Concat")
def convert_concat(node: OnnxNode) -> Expr:
    """Inputs joined along an axis (default 1 in opsets 1 to 3); empty ones do not count."""
    axis = node.named_axis(1)
    values = [value for value in node.given() if not _is_empty(node.shape(value)[axis])]
    return concatenate(values or node.given()[:1], axis)


def _is_empty(extent: Any) -> bool:
    return isinstance(extent, int) and extent == 0


@converts("Split")
def convert_split(node: OnnxNode) -> list[Expr]:
    """Parts by their sizes (an attribute before opset 13), by default equal, the last possibly smaller (opset 18)."""
    axis, sizes = node.named_axis(0), node.numbers("split", 1)
    extent = node.shape()[axis]
    if sizes is None:
        parts = node.attr("num_outputs", len(node.proto.output))
        size = -(-extent // parts)
        sizes = [max(min(size, extent - index * size), 0) for index in range(parts)]
    if isinstance(extent, int) and sum(sizes) != extent:
        raise ModelError(f"{node.label}: parts {list(sizes)} do not add up to the extent {extent} of axis {axis}")
    data, ends = sized(node, node[0], axis, sum(sizes)), np.cumsum(sizes).tolist()
    return [slice_axis(data, axis, end - size, end) for size, end in zip(sizes, ends)]


@converts("Slice")
def convert_slice(node: OnnxNode) -> Expr:
    """Bounds, axes and steps as inputs, before opset 10 as attributes without steps."""
    if node.opset < 10:
        starts, ends = node.require("starts"), node.require("ends")
    else:
        starts, ends = node.dims(1, "starts"), node.dims(2, "ends")
    axes, steps = node.numbers("axes", 3), node.optional_ints(4, "steps")
    data, shape = node[0], node.shape()
    axes = list(range(len(starts))) if axes is None else node.axes(axes, len(shape))
    bounds: list[tuple[int, Any, Any, int]] = []
    reversed_axes: list[int] = []
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(axes)):
        if not is_static([shape[axis], start, end]):
            bounds += _symbolic_bounds(node, axis, start, end, step)
            continue
        picked = range(*slice(start, end if end > -(2**62) else None, step).indices(shape[axis]))
        begin, stop, stride = picked.start, picked.stop, picked.step
        if stride < 0:
            reversed_axes.append(axis)
            begin, stride = shape[axis] - 1 - picked.start, -stride
        stop = begin + (len(picked) - 1) * stride + 1 if len(picked) else begin
        if (begin, stop, stride) != (0, shape[axis], 1):
            bounds.append((axis, begin, stop, stride))
    for axis in reversed_axes:
        data = op.reverse(data, axis=axis)
    if not bounds:
        return data
    chosen, begins, stops, strides = zip(*bounds)
    return op.strided_slice(data, begin=begins, end=stops, strides=strides, axes=chosen)


_FAR = 10**9  # an end from here on means: to the last element


def _symbolic_bounds(node: OnnxNode, axis: int, start: Any, end: Any, step: int) -> list[tuple[int, Any, Any, int]]:
    """The bounds along an axis of symbolic extent, or to a symbolic position; none where all is taken."""
    extent = node.shape()[axis]
    if isinstance(extent, Any_) or step < 1:
        raise NeedsValue(f"{node.label}: the extent of axis {axis} is not known at import time")
    begin = 0 if isinstance(start, int) and start == 0 else _from_back(extent, start) if _below_zero(start) else start
    if isinstance(end, int) and end >= _FAR:
        stop = extent
    else:
        stop = _from_back(extent, end) if _below_zero(end) else end
    if isinstance(stop, int) and not isinstance(extent, int):
        stop = as_dim(tir.minimum(tir.convert(stop), extent))
    whole = isinstance(begin, int) and begin == 0 and stop is extent and step == 1
    return [] if whole else [(axis, begin, stop, step)]


def _from_back(extent: Any, position: int) -> Any:
    """A position counted from the back; the first one where that lies before it."""
    if position <= -_FAR:
        return 0
    return as_dim(tir.maximum(tir.convert(extent + position), tir.convert(0)))


def _below_zero(position: Any) -> bool:
    return isinstance(position, int) and position < 0


@converts("Transpose")
def convert_transpose(node: OnnxNode) -> Expr:
    rank = node.rank()
    return transpose(node[0], node.axes(node.attr("perm", list(range(rank))[::-1]), rank))


@converts("Tile")
def convert_tile_1(node: OnnxNode) -> Expr:
    """One axis repeated (opsets 1 to 5)."""
    repeats = [1] * node.rank()
    repeats[int(node.static(2, "axis"))] = int(node.static(1, "tiles"))
    return op.tile(node[0], reps=tuple(repeats))


@converts("Tile", since=6)
def convert_tile_6(node: OnnxNode) -> Expr:
    repeats = node.ints(1, "repeats")
    return node[0] if all(count == 1 for count in repeats) else op.tile(node[0], reps=tuple(repeats))


@converts("Expand", since=8)
def convert_expand(node: OnnxNode) -> Expr:
    target = node.dims(1, "shape")
    if not is_known((*node.shape(), *target)):
        raise NeedsValue(f"{node.label}: the sizes {list(node.shape())} of its input are known at run time only")
    return broadcast_to(node[0], broadcast(node.shape(), target))


@converts("Pad")
def convert_pad_1(node: OnnxNode, value: float = 0.0) -> Expr:
    """Amounts and value as attributes (opsets 1 to 10)."""
    pads = node.attr("paddings") if node.opset < 2 else node.attr("pads")
    return _pad(node, pads, value, None)


@converts("Pad", since=11)
@converts("Pad", domain=MICROSOFT)
def convert_pad_11(node: OnnxNode) -> Expr:
    """Amounts, value and (opset 18) axes as inputs."""
    pads = node.ints(1, "pads")
    value = node.static(2, "constant_value").reshape(-1)[0].item() if node.has(2) else 0
    return _pad(node, pads, value, node.optional_ints(3, "axes"))


def _pad(node: OnnxNode, pads: list[int], value: float, axes: list[int] | None) -> Expr:
    mode = node.choice("mode", "constant", ("constant", "reflect", "edge", "wrap"))
    value = float(value) if isinstance(value, bool) else value
    shape = node.shape()
    axes = list(range(len(shape))) if axes is None else node.axes(axes, len(shape))
    if len(pads) != 2 * len(axes):
        raise ModelError(f"{node.label}: {len(pads)} amounts are given for {len(axes)} axes, which take two each")
    before, after = [0] * len(shape), [0] * len(shape)
    for position, axis in enumerate(axes):
        before[axis], after[axis] = pads[position], pads[position + len(axes)]
    data, beyond = node[0], False
    for axis, extent in enumerate(shape):
        beyond |= _cuts_beyond(node, mode, axis, extent, before[axis], after[axis])
    width = tuple((max(low, 0), max(high, 0)) for low, high in zip(before, after))
    if beyond:  # what is cut off is padding too
        data = op.nn.pad(data, pad_width=width, pad_value=value)
    for axis in range(len(shape)):  # A negative amount cuts off.
        data = slice_axis(data, axis, max(-before[axis], 0), node.shape(data)[axis] - max(-after[axis], 0))
    if beyond or not any(low or high for low, high in width):
        return data
    if mode == "wrap":
        return _pad_wrapped(node, data, width)
    return op.nn.pad(data, pad_width=width, pad_value=value, pad_mode=mode)


def _cuts_beyond(node: OnnxNode, mode: str, axis: int, extent: Any, before: int, after: int) -> bool:
    """True if negative amounts cut off more than the data itself; raises ShapeError where nothing can be left."""
    if not isinstance(extent, int):
        return False
    what = f"{node.label}: pads {before} and {after} of axis {axis}, whose extent is {extent},"
    if extent + before + after < 0:
        raise ShapeError(f"{what} cut off more than there is; the result would have a negative extent")
    left = extent + min(before, 0) + min(after, 0)
    if mode != "constant" and left <= 0 and max(before, after) > 0:
        raise ShapeError(f"{what} leave no element for mode {mode!r} to repeat; use mode 'constant' or smaller pads")
    return left < 0


def _pad_wrapped(node: OnnxNode, data: Expr, width: Sequence[tuple[int, int]]) -> Expr:
    for axis, (low, high) in enumerate(width):
        extent = node.shape(data)[axis]
        if not isinstance(extent, int) and (low or high):
            node.unsupported(f"mode 'wrap' of axis {axis}, whose extent is symbolic")
        if not low and not high:
            continue
        (rounds_before, rest_before), (rounds_after, rest_after) = divmod(low, extent), divmod(high, extent)
        parts = [slice_axis(data, axis, extent - rest_before, extent)] if rest_before else []
        parts += [data] * (rounds_before + 1 + rounds_after)
        parts += [slice_axis(data, axis, 0, rest_after)] if rest_after else []
        data = concatenate(parts, axis)
    return data


@converts("DepthToSpace")
def convert_depth_to_space(node: OnnxNode, x: Expr, blocksize: int) -> Expr:
    """Channels to spatial blocks, depth-first (DCR) or column-first (CRD)."""
    mode = node.choice("mode", "DCR", ("DCR", "CRD"))
    return op.nn.depth_to_space(x, block_size=blocksize, mode=mode)


@converts("SpaceToDepth")
def convert_space_to_depth(node: OnnxNode, blocksize: int) -> Expr:
    """Spatial blocks to channels, block-first (DCR) or channel-first (CRD, opset 28)."""
    if node.choice("mode", "DCR", ("DCR", "CRD")) == "DCR":
        return op.nn.space_to_depth(node[0], block_size=blocksize)
    return unshuffled(node[0], blocksize)
