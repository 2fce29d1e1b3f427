"""Convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import ModelError
from tilewright.frontend.builders import product
from tilewright.frontend.builders.windows import convolution, transposed_convolution
from tilewright.frontend.idioms import concatenate, slice_axis
from tilewright.frontend.onnx.dims import is_known, is_static
from tilewright.frontend.onnx.node import NeedsValue, OnnxNode, reshape, sized, transpose, widening_nothing
from tilewright.frontend.onnx.pooling import Window, is_open, padded, windows
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import as_dim


@converts("Conv")
def convert_conv(node: OnnxNode) -> Expr:
    result = convolve(node, node[0], node[1])
    return op.nn.bias_add(result, node[2], axis=1) if node.has(2) else result


def convolve(node: OnnxNode, data: Expr, weight: Expr) -> Expr:
    """The convolution that the attributes of `node` describe, of any two expressions."""
    groups = int(node.attr("group", 1))
    data, weight = _of_like_channels(node, data, weight, groups)
    shape, kernel = node.shape(data), node.shape(weight)
    node.ignore("kernel_shape")
    if len(kernel) != len(shape) or shape[1] != kernel[1] * groups or kernel[0] % groups:
        raise ModelError(
            f"{node.label}: weights of shape {list(kernel)} in {groups} groups "
            f"do not fit an input of shape {list(shape)}"
        )
    found = windows(node, shape[2:], list(kernel[2:]))
    if is_open(found):
        data, found = padded(data, found, 0.0)
    return _conv(node, data, weight, found, groups)


def _of_like_channels(node: OnnxNode, data: Expr, weight: Expr, groups: int) -> tuple[Expr, Expr]:
    """The operands of a convolution; unknown channels of one are as many as the other has."""
    if min(node.rank(data), node.rank(weight)) < 2:
        return data, weight
    channels, taken = node.shape(data)[1], node.shape(weight)[1]
    if isinstance(taken, int):
        return sized(node, data, 1, taken * groups), weight
    return (data, sized(node, weight, 1, channels // groups)) if isinstance(channels, int) else (data, weight)


def _conv(node: OnnxNode, data: Expr, weight: Expr, found: list[Window], groups: int) -> Expr:
    if len(found) > 3:
        return _conv_outer(node, data, weight, found, groups)
    if len(found) == 1:  # as rows of one image, whose sums quantized models of audio have been compared with
        (*_, length), (*_, size) = node.shape(data), node.shape(weight)
        rows = reshape(node, data, (*node.shape(data)[:2], 1, length))
        taps = reshape(node, weight, (*node.shape(weight)[:2], 1, size))
        made = convolution(rows, taps, *_window_attributes([Window(1), found[0]]), groups)
        return reshape(node, made, (*node.shape(made)[:2], node.shape(made)[3]))
    return convolution(data, weight, *_window_attributes(found), groups)


def _window_attributes(found: Sequence[Window]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The strides, the padding before and behind, and the dilation of all axes."""
    strides, dilation = (tuple(getattr(window, name) for window in found) for name in ("stride", "dilation"))
    return strides, (*(window.before for window in found), *(window.after for window in found)), dilation


def _conv_outer(node: OnnxNode, data: Expr, weight: Expr, found: list[Window], groups: int) -> Expr:
    """Turn the taps along the first spatial axis into channels, and its positions into batch.

    Before: data (N, C, D, …), weight (O, C/g, kd, …)
    After:  data (N * D', C * kd, …), weight (O, C/g * kd, …), one axis fewer
    """
    window, shape, kernel = found[0], node.shape(data), node.shape(weight)
    width = ((0, 0), (0, 0), (window.before, window.after), *[(0, 0)] * (len(shape) - 3))
    if window.before or window.after:
        data = op.nn.pad(data, pad_width=width, pad_value=0.0, pad_mode="constant")
    steps = (shape[2] + window.before + window.after - window.reach) // window.stride + 1
    taps = []
    for tap in range(window.size):
        begin = tap * window.dilation
        end = begin + (steps - 1) * window.stride + 1
        part = op.strided_slice(data, begin=(begin,), end=(end,), strides=(window.stride,), axes=(2,))
        taps.append(op.expand_dims(part, axis=2, num_newaxis=1))
    stacked = concatenate(taps, 2)  # (N, C, kd, D', …)
    inner = tuple(shape[3:])
    moved = transpose(stacked, (0, 3, 1, 2, *range(4, 4 + len(inner))))
    flat = reshape(node, moved, (shape[0] * steps, shape[1] * window.size, *inner))
    narrow = reshape(node, weight, (kernel[0], kernel[1] * window.size, *kernel[3:]))
    result = _conv(node, flat, narrow, found[1:], groups)
    outer = reshape(node, result, (shape[0], steps, kernel[0], *node.shape(result)[2:]))
    return transpose(outer, (0, 2, 1, *range(3, 3 + len(inner))))


@converts("ConvTranspose")
def convert_conv_transpose(node: OnnxNode, group: int = 1) -> Expr:
    """Transposed convolution; weights are (C, M / groups, …)."""
    data, weight = node[0], node[1]
    if node.rank() > 1 and isinstance(node.shape(1)[0], int):  # unknown channels are as many as the weights take
        data = sized(node, data, 1, node.shape(1)[0])
    elif node.rank() > 1 and isinstance(node.shape()[1], int):
        weight = sized(node, weight, 0, node.shape()[1])
    shape, kernel = node.shape(data), node.shape(weight)
    node.ignore("kernel_shape")
    if len(kernel) != len(shape) or shape[1] != kernel[0]:
        raise ModelError(f"{node.label}: weights of shape {list(kernel)} do not fit an input of shape {list(shape)}")
    found, extra = _transposed_windows(node, shape[2:], list(kernel[2:]))
    if len(found) > 3:
        result = _conv_transpose_by_conv(node, data, weight, found, extra, group)
    else:
        result = transposed_convolution(data, weight, *_window_attributes(found), group, extra)
    return op.nn.bias_add(result, node[2], axis=1) if node.has(2) else result


def _conv_transpose_by_conv(
    node: OnnxNode, data: Expr, weight: Expr, found: list[Window], extra: list[int], groups: int
) -> Expr:
    """A convolution with the kernel turned round, of the data with zeros put between its elements and around it."""
    shape, kernel = node.shape(data), node.shape(weight)
    grouped = reshape(node, weight, (groups, shape[1] // groups, *kernel[1:]))
    swapped = transpose(grouped, (0, 2, 1, *range(3, 1 + len(kernel))))
    turned = reshape(node, swapped, (groups * kernel[1], shape[1] // groups, *kernel[2:]))
    width = [(0, 0), (0, 0)]
    for axis, window in enumerate(found, start=2):
        turned = op.reverse(turned, axis=axis)
        margin = window.reach - 1
        width.append((margin - window.before, margin - window.after + extra[axis - 2]))
    data = op.nn.dilate(data, strides=(1, 1, *(window.stride for window in found)))
    for axis, (low, high) in enumerate(width):
        data = slice_axis(data, axis, max(-low, 0), node.shape(data)[axis] - max(-high, 0))
    padded = op.nn.pad(data, pad_width=tuple((max(low, 0), max(high, 0)) for low, high in width), pad_value=0.0)
    return _conv(node, padded, turned, [Window(window.size, 1, window.dilation) for window in found], groups)


def _transposed_windows(node: OnnxNode, extents: Sequence[int], kernel: list[int]) -> tuple[list[Window], list[int]]:
    """Windows with the padding to cut off, and the output padding, for pads, auto_pad or an explicit output_shape."""
    rank = len(extents)
    strides, dilations = node.per_axis("strides", 1, rank), node.per_axis("dilations", 1, rank)
    pads, extra = node.per_axis("pads", 0, 2 * rank), list(node.per_axis("output_padding", 0, rank))
    wanted = node.attr("output_shape")
    mode = node.choice("auto_pad", "NOTSET", ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if wanted is None and mode.startswith("SAME"):
        wanted = [extent * stride for extent, stride in zip(extents, strides)]
    found = []
    for axis, extent in enumerate(extents):
        window = Window(kernel[axis], strides[axis], dilations[axis])
        before, after = (0, 0) if mode == "VALID" else (pads[axis], pads[axis + rank])
        if wanted is not None:
            total = as_dim(window.stride * (extent - 1) + extra[axis] + window.reach - wanted[-rank + axis])
            if total < 0:
                extra[axis], total = extra[axis] - total, 0
            before, after = total - total // 2, total // 2
            if mode == "SAME_UPPER":
                before, after = after, before
        found.append(Window(window.size, window.stride, window.dilation, before, after))
    return found, extra


@converts("Gemm")
def convert_gemm(node: OnnxNode) -> Expr:
    left = transpose(node[0], (1, 0)) if node.attr("transA", 0) else node[0]
    right = node[1] if node.attr("transB", 0) else transpose(node[1], (1, 0))
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    node.ignore("broadcast")
    result = op.nn.dense(left, right, units=node.shape(right)[0])
    if alpha != 1:  # not of a factor: that could overflow, or round once more
        result = result * alpha
    if not node.has(2) or beta == 0:
        return result
    bias = node[2] if beta == 1 else node[2] * beta
    if node.rank(bias) == 2 and node.shape(bias)[0] == 1:
        bias = reshape(node, bias, (node.shape(bias)[1],))
    if node.rank(bias) == 1 and node.shape(bias)[0] == node.shape(result)[1]:
        return op.nn.bias_add(result, bias, axis=1)
    return result + widening_nothing(node, bias, node.shape(result))


@converts("MatMul")
def convert_matmul(node: OnnxNode) -> Expr:
    return matmul(node, node[0], node[1])


def matmul(node: OnnxNode, left: Expr, right: Expr) -> Expr:
    """The product of two expressions as NumPy defines it."""
    left_shape, right_shape = node.shape(left), node.shape(right)
    if not left_shape or not right_shape:
        raise ModelError(f"{node.label}: shapes {list(left_shape)} and {list(right_shape)} cannot be multiplied")
    # of a product with a matrix the left operand may have any number of rows
    read = left_shape if len(right_shape) > 2 else left_shape[-1:]
    if not is_known((*read, *right_shape)):
        raise NeedsValue(f"{node.label}: the shape {list(right_shape)} of a factor is known at run time only")
    if is_static((left_shape[-1], right_shape[-2:][0])) and left_shape[-1] != right_shape[-2:][0]:
        raise ModelError(f"{node.label}: shapes {list(left_shape)} and {list(right_shape)} cannot be multiplied")
    return product.matmul(left, right)


def matmul_with(node: OnnxNode, left: Expr, weight: Expr) -> Expr:
    """The product of `left` [..., K] and the transpose of `weight` [N, K]."""
    return op.nn.dense(left, weight, units=node.shape(weight)[0])


def _of_like_labels(node: OnnxNode, term: str, value: Expr) -> Expr:
    """An operand of a sum of products; axes of one label have one extent, which a run checks where it is symbolic."""
    before, _, behind = term.partition("...")
    axes = list(zip(before, range(len(before)))) + list(zip(behind, range(node.rank(value) - len(behind), 99)))
    first: dict[str, int] = {}
    for label, axis in axes if axes and axes[-1][1] < node.rank(value) else ():
        extents = node.shape(value)[first.setdefault(label, axis)], node.shape(value)[axis]
        if is_static(extents) and extents[0] != extents[1]:
            raise ModelError(f"the label {label!r} stands for {extents[0]} and {extents[1]} elements of one operand")
        value = sized(node, sized(node, value, first[label], extents[1]), axis, extents[0])
    return value


@converts("Einsum", since=12)
def convert_einsum(node: OnnxNode) -> Expr:
    """Sum of products over named axes: operands are joined from the left, each pair as one batched product."""
    try:
        equation = str(node.require("equation")).replace(" ", "")
        terms = equation.partition("->")[0].split(",")
        return product.einsum(
            equation, [_of_like_labels(node, term, value) for term, value in zip(terms, node.given())]
        )
    except ModelError as error:
        raise ModelError(f"{node.label}: {error}") from error
