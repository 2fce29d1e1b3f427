"""Pooling over windows and over whole planes. A window over more or fewer than two axes is done two axes at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.builders.reductions import p_norm
from tilewright.frontend.builders.windows import elements_of_windows
from tilewright.frontend.idioms import like
from tilewright.frontend.onnx.dims import at_least, at_most, floor_div, is_static
from tilewright.frontend.onnx.in_float32 import in_float32
from tilewright.frontend.onnx.node import OnnxNode, reshape
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


@dataclass(frozen=True)
class Window:
    """A sliding window along one axis: element count, step, dilation, and padding on both sides.

    Of a symbolic dimension the padding may be an expression; `padded` then makes it part of the data.
    """

    size: int
    stride: int = 1
    dilation: int = 1
    before: Any = 0
    after: Any = 0

    @property
    def reach(self) -> int:
        """Elements from the first to the last one that the window reads."""
        return (self.size - 1) * self.dilation + 1


def windows(node: OnnxNode, extents: tuple[Any, ...], kernel: list[int]) -> list[Window]:
    """The windows that a node's strides, dilations, pads and auto_pad describe over spatial `extents`."""
    rank = len(extents)
    strides, dilations = node.per_axis("strides", 1, rank), node.per_axis("dilations", 1, rank)
    pads = node.per_axis("pads", 0, 2 * rank)
    if len(kernel) != rank or min([*kernel, *strides, *dilations], default=1) < 1:
        raise ModelError(f"{node.label}: kernel {kernel}, strides {strides}, dilations {dilations} over {rank} axes")
    mode = node.choice("auto_pad", "NOTSET", ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"))
    result = []
    for axis, extent in enumerate(extents):
        window = Window(kernel[axis], strides[axis], dilations[axis])
        before, after = (0, 0) if mode == "VALID" else (pads[axis], pads[axis + rank])
        if mode.startswith("SAME"):
            total = _total_of_same(window, extent)
            before, after = floor_div(total, 2), total - floor_div(total, 2)
            if mode == "SAME_LOWER":
                before, after = after, before
        result.append(replace(window, before=before, after=after))
    return result


def _total_of_same(window: Window, extent: Any) -> Any:
    """The padding of both sides with which there are as many windows as steps of the stride in `extent`."""
    if window.stride == 1:
        return window.reach - 1
    steps = floor_div(extent + window.stride - 1, window.stride)
    return at_least((steps - 1) * window.stride + window.reach - extent, 0)


def _round_up(window: Window, extent: Any) -> Window:
    """The window with the padding at the end that ceil_mode implies; a window that would start there is dropped."""
    if window.stride == 1:
        return window
    whole = extent + window.before + window.after - window.reach
    # the last window that starts before the padding at the end
    steps = at_most(
        floor_div(whole + window.stride - 1, window.stride), floor_div(extent + window.before - 1, window.stride)
    )
    needed = steps * window.stride + window.reach - extent - window.before
    return replace(window, after=at_least(needed, window.after))


def is_open(found: Sequence[Window]) -> bool:
    """True if the padding of a window is known at run time only."""
    return not is_static(side for window in found for side in (window.before, window.after))


def padded(data: Expr, found: Sequence[Window], value: float) -> tuple[Expr, list[Window]]:
    """Data [N, C, …] with the padding of the windows made part of it, and windows without any."""
    width = ((0, 0), (0, 0), *[(window.before, window.after) for window in found])
    done = op.nn.pad(data, pad_width=width, pad_value=value, pad_mode="constant")
    return done, [replace(window, before=0, after=0) for window in found]


@converts("MaxPool")
def convert_max_pool(node: OnnxNode, storage_order: bool = False) -> list[Expr]:
    """Maximum over windows; padding never wins."""
    if node.wants(1):
        if not is_static(node.shape()):
            node.unsupported(f"the positions of the largest elements, as the shape {list(node.shape())} varies")
        return _pool_with_positions(node, _max_windows(node, node.shape()[2:]), storage_order)
    return [max_pool(node, node[0])]


def max_pool(node: OnnxNode, data: Expr) -> Expr:
    """The maximum over the windows of `data` [N, C, …] that the attributes of `node` describe."""
    node.ignore("storage_order")
    found = _max_windows(node, node.shape(data)[2:])
    if is_open(found):
        data, found = padded(data, found, _least(node))
    return _pool(node, data, found, "max")


def _least(node: OnnxNode) -> float:
    """The neutral element of a maximum of the node's elements."""
    return node.dtype().extremes()[0]


def _max_windows(node: OnnxNode, extents: Sequence[int]) -> list[Window]:
    found = windows(node, tuple(extents), node.require("kernel_shape"))
    if node.attr("ceil_mode", 0):
        found = [_round_up(window, extent) for window, extent in zip(found, extents)]
    return found


def _pool_with_positions(node: OnnxNode, found: list[Window], column_major: bool) -> list[Expr]:
    """Maxima and the flat position each was read from: windows gathered as rows, then the position of the largest."""
    shape, extents = node.shape(), node.shape()[2:]
    grids = []
    for window, extent in zip(found, extents):
        steps = (extent + window.before + window.after - window.reach) // window.stride + 1
        begin = np.arange(steps)[:, None] * window.stride - window.before
        grids.append(begin + np.arange(window.size) * window.dilation)
    elements, positions = elements_of_windows(node[0], grids)
    if column_major:  # counted with the first spatial axis running fastest
        plane = np.arange(math.prod(extents)).reshape(extents, order="F").reshape(-1)
        positions = op.take(Constant(plane), positions, axis=0, mode="clip")
    best = op.cast(op.argmax(elements, axis=3, keepdims=True), dtype="int64")
    first = np.arange(shape[0] * shape[1]).reshape(*shape[:2], 1, 1) * math.prod(extents)
    indices = op.gather(positions, axis=3, indices=best) + Constant(first)
    result = (*shape[:2], *map(len, grids))
    return [reshape(node, value, result) for value in (op.max(elements, axis=(3,)), indices)]


@converts("AveragePool")
def convert_average_pool(node: OnnxNode) -> Expr:
    """Mean over windows; padding counts only with count_include_pad, what ceil_mode adds never does."""
    return average_pool(node, node[0], windows(node, node.shape()[2:], node.require("kernel_shape")))


def average_pool(node: OnnxNode, data: Expr, found: list[Window]) -> Expr:
    """Mean of `data` over windows, as the node's ceil_mode and count_include_pad say."""
    extents = node.shape(data)[2:]
    count_padding = bool(node.attr("count_include_pad", 0))
    if node.attr("ceil_mode", 0):
        grown = [_round_up(window, extent) for window, extent in zip(found, extents)]
        if is_open(grown):
            return _average_of_open(node, data, grown, found if count_padding else None)
        if count_padding and grown != found:  # Make the counted padding real, so that only the rest is excluded.
            width = ((0, 0), (0, 0), *[(window.before, window.after) for window in found])
            data = op.nn.pad(data, pad_width=width, pad_value=0.0, pad_mode="constant")
            grown = [replace(new, before=0, after=new.after - old.after) for new, old in zip(grown, found)]
            count_padding = False
        found = grown
    if is_open(found):
        return _average_of_open(node, data, found, found if count_padding else None)
    return _pool(node, data, found, "avg_counted" if count_padding else "avg")


def _average_of_open(node: OnnxNode, data: Expr, found: list[Window], counted: list[Window] | None) -> Expr:
    """The mean where padding is known at run time only: the sum over each window by how many of its elements count.

    The padding of `counted` does, where it is given; that of `found` beyond it does not.
    """
    ones = op.ones_like(data)
    if counted is not None:
        ones, _ = padded(ones, counted, 1.0)
        data, _ = padded(data, counted, 0.0)
        found = [
            replace(new, before=new.before - old.before, after=new.after - old.after)
            for new, old in zip(found, counted)
        ]
    values, plain = padded(data, found, 0.0)
    counts, _ = padded(ones, found, 0.0)
    return _pool(node, values, plain, "avg_counted") / _pool(node, counts, plain, "avg_counted")


def _pool(node: OnnxNode, data: Expr, found: list[Window], kind: str) -> Expr:
    """Pool the spatial axes of `data`: mean and maximum over a box are those over its sides, one after another."""
    shape = node.shape(data)
    if len(found) == 1:
        return op.squeeze(_pool2d(op.expand_dims(data, axis=2), (Window(1), found[0]), kind), axis=(2,))
    if len(found) == 2:
        return _pool2d(data, (found[0], found[1]), kind)
    merged = reshape(node, data, (shape[0], int(np.prod(shape[1:-2])), *shape[-2:]))
    plane = _pool2d(merged, (found[-2], found[-1]), kind)
    height, width = node.shape(plane)[2:]
    lead = shape[2:-2]
    flat = reshape(node, plane, (*shape[:2], *lead, height * width))
    rest = [*found[:-2], Window(1)]
    result = _pool(node, flat, rest, kind)
    return reshape(node, result, (*node.shape(result)[:-1], height, width))


def _pool2d(data: Expr, pair: tuple[Window, Window], kind: str) -> Expr:
    settings: dict[str, Any] = {
        "pool_size": (pair[0].size, pair[1].size),
        "strides": (pair[0].stride, pair[1].stride),
        "padding": (pair[0].before, pair[1].before, pair[0].after, pair[1].after),
        "dilation": (pair[0].dilation, pair[1].dilation),
    }
    if kind == "max":
        return op.nn.max_pool2d(data, **settings)
    return op.nn.avg_pool2d(data, **settings, count_include_pad=kind == "avg_counted")


@converts("LpPool", since=2)
@in_float32
def convert_lp_pool(node: OnnxNode, x: Expr, p: float = 2.0, ceil_mode: int = 0) -> Expr:
    data = op.abs(x)
    kernel = node.require("kernel_shape")
    found = windows(node, node.shape()[2:], kernel)
    if ceil_mode:
        found = [_round_up(window, extent) for window, extent in zip(found, node.shape()[2:])]
    powered = data * data if p == 2 else op.power(data, like(p, data))
    if is_open(found):
        powered, found = padded(powered, found, 0.0)
    total = _pool(node, powered, found, "avg_counted") * float(np.prod(kernel))
    return op.sqrt(total) if p == 2 else op.power(total, like(1 / p, data))


def _over_plane(of_images: Callable[..., Expr], of_all: Callable[..., Expr], node: OnnxNode) -> Expr:
    """A reduction over all axes behind the channels, which stay with extent 1."""
    if node.rank() == 4:
        return of_images(node[0])
    return of_all(node[0], axis=tuple(range(2, node.rank())), keepdims=True)


converts.functions({
    "GlobalAveragePool": lambda node: _over_plane(op.nn.global_avg_pool2d, op.mean, node),
    "GlobalMaxPool": lambda node: _over_plane(op.nn.global_max_pool2d, op.max, node),
})  # fmt: skip
converts.functions({
    "GlobalLpPool": in_float32(
        lambda node: p_norm(node[0], tuple(range(2, node.rank())), float(node.attr("p", 2.0)), True)
    ),
}, since=2)  # fmt: skip
