"""Gradients of pooling and resizing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.op import nn, reduce, tensor, transform
from tilewright.relay.op.gather import gather
from tilewright.relay.op.gradients.common import number, shape_of, tensor_type
from tilewright.topi.layout import transform_shape
from tilewright.topi.nn.pooling import spatial_axes
from tilewright.topi.reference.resize import resize2d
from tilewright.topi.shapes import adaptive_window


def _max_pool2d_gradient(call: Call, g: Expr) -> list[Expr | None]:
    return [nn.max_pool2d_grad(g, call.args[0], **call.attrs)]


def _avg_pool2d_gradient(call: Call, g: Expr) -> list[Expr | None]:
    return [nn.avg_pool2d_grad(g, call.args[0], **call.attrs)]


def _max_pool2d_grad_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """`g` where the first largest element of each window stands; nothing flows through which one that is."""
    data, attrs = call.args[1], call.attrs
    layout, dtype = attrs["layout"], tensor_type(data).dtype
    there, back = ((lambda x, a=a, b=b: x if layout == "NCHW" else transform.layout_transform(x, a, b))
                   for a, b in ((layout, "NCHW"), ("NCHW", layout)))  # fmt: skip
    sizes = transform_shape(shape_of(call.args[0]), layout, "NCHW")[2:]
    shape = transform_shape(shape_of(data), layout, "NCHW")[2:]
    reach = [
        (out - 1) * stride + (kernel - 1) * dilation + 1
        for out, stride, kernel, dilation in zip(sizes, attrs["strides"], attrs["pool_size"], attrs["dilation"])
    ]
    before = attrs["padding"][:2]
    widths = [(b, max(a, r - s - b)) for b, a, r, s in zip(before, attrs["padding"][2:], reach, shape)]
    pads = [(0, 0), (0, 0), *widths]
    values = nn.pad(there(data), pads, pad_value=dtype.extremes()[0])
    gradients = nn.pad(there(g), pads)
    best: Expr | None = None
    chosen: Expr | None = None
    image = Constant(np.pad(np.ones((1, 1, *shape), dtype=np.bool_), pads))
    seen: Expr | None = None
    for tap in np.ndindex(*attrs["pool_size"]):
        begin = [t * d for t, d in zip(tap, attrs["dilation"])]
        end = [b + (out - 1) * s + 1 for b, out, s in zip(begin, sizes, attrs["strides"])]
        cut = {"begin": begin, "end": end, "strides": attrs["strides"], "axes": (2, 3)}
        value, part = transform.strided_slice(values, **cut), transform.strided_slice(gradients, **cut)
        inside = transform.strided_slice(image, **cut)
        if best is None or chosen is None or seen is None:
            best, chosen, seen = value, part, inside
        else:
            # An element that is -inf loses to no padding before it.
            first = tensor.logical_and(inside, tensor.logical_not(seen))
            chosen = tensor.where(tensor.logical_or(first, tensor.greater(value, best)), part, chosen)
            best, seen = tensor.maximum(value, best), tensor.logical_or(seen, inside)
    assert chosen is not None
    return [back(chosen), None]


def _max_pool2d_grad_at_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """The element of `g` that each index names."""
    index = call.args[1]
    lead = shape_of(index)[:2]
    plane, where = (transform.reshape(x, (*lead, -1)) for x in (g, index))
    return [transform.reshape(gather(plane, axis=2, indices=where), shape_of(index)), None]


set_gradient("nn.max_pool2d", _max_pool2d_gradient)
set_gradient("nn.max_pool2d_grad_at", _max_pool2d_grad_at_gradient)
set_gradient("nn.max_pool2d_grad", _max_pool2d_grad_gradient)
set_gradient("nn.avg_pool2d", _avg_pool2d_gradient)


def _global_avg_gradient(call: Call, g: Expr) -> list[Expr | None]:
    shape = shape_of(call.args[0])
    height, width = (shape[axis] for axis in spatial_axes(call.attrs["layout"]))
    return [transform.broadcast_to(g * number(1 / (height * width), call), shape)]


def _share(data: Expr, extreme: Expr, g: Expr, axes: Sequence[int], dtype: str) -> Expr:
    """`g` divided equally among the elements of `data` over `axes` that are the `extreme`."""
    hit = tensor.cast(tensor.equal(data, extreme), dtype)
    return hit * (g / reduce.sum(hit, axis=axes, keepdims=True))


def _global_max_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """Shared equally among the elements that are the maximum."""
    dtype = str(tensor_type(call).dtype)
    return [_share(call.args[0], call, g, spatial_axes(call.attrs["layout"]), dtype)]


set_gradient("nn.global_avg_pool2d", _global_avg_gradient)
set_gradient("nn.global_max_pool2d", _global_max_gradient)


# ------------------------------------------------------------------------------------ linear along rows and columns
def _by_matrices(g: Expr, matrices: Sequence[np.ndarray], axes: Sequence[int], ndim: int, dtype: str) -> Expr:
    """`g` with each of `axes` multiplied by the transpose of its matrix [output size, input size]."""
    for matrix, axis in zip(matrices, axes, strict=True):
        order = [*[d for d in range(ndim) if d != axis], axis]
        rows = nn.dense(transform.transpose(g, order), Constant(np.ascontiguousarray(matrix.T).astype(dtype)))
        g = transform.transpose(rows, [order.index(d) for d in range(ndim)])
    return g


def _averages(size: int, out: int) -> np.ndarray:
    """[out, size]: the matrix of adaptive average pooling along one axis."""
    matrix = np.zeros((out, size))
    for row in range(out):
        first, last = adaptive_window(row, size, out)
        matrix[row, first:last] = 1 / (last - first)
    return matrix


def _adaptive_avg_gradient(call: Call, g: Expr) -> list[Expr | None]:
    type_ = tensor_type(call.args[0])
    axes = spatial_axes(call.attrs["layout"])
    matrices = [_averages(type_.shape[axis], out) for axis, out in zip(axes, call.attrs["output_size"])]
    return [_by_matrices(g, matrices, axes, type_.ndim, str(type_.dtype))]


def _adaptive_max_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """Each output's gradient shared among the maxima of its part, and the parts, which may overlap, added."""
    data = call.args[0]
    shape, axes = shape_of(data), spatial_axes(call.attrs["layout"])
    dtype = str(tensor_type(data).dtype)
    total: Expr | None = None
    for cell in np.ndindex(*call.attrs["output_size"]):
        windows = [adaptive_window(c, shape[a], o) for c, a, o in zip(cell, axes, call.attrs["output_size"])]
        begin, end = [w[0] for w in windows], [w[1] for w in windows]
        part = _slice(data, begin, end, axes)
        one = [c + 1 for c in cell]
        shared = _share(part, _slice(call, cell, one, axes), _slice(g, cell, one, axes), axes, dtype)
        widths = [(0, 0)] * len(shape)
        for a, (first, last) in zip(axes, windows):
            widths[a] = (first, shape[a] - last)
        padded = nn.pad(shared, widths)
        total = padded if total is None else total + padded
    return [total]


def _slice(data: Expr, begin: Sequence[int], end: Sequence[int], axes: Sequence[int]) -> Expr:
    return transform.strided_slice(data, begin=begin, end=end, axes=axes)


set_gradient("nn.adaptive_avg_pool2d", _adaptive_avg_gradient)
set_gradient("nn.adaptive_max_pool2d", _adaptive_max_gradient)


def _resize2d_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """Every method is linear and works along rows and columns one after the other."""
    type_, attrs = tensor_type(call.args[0]), call.attrs
    axes = spatial_axes(attrs["layout"])
    matrices = [_resize_matrix(attrs, type_.shape[axis], attrs["size"][i], i) for i, axis in enumerate(axes)]
    return [_by_matrices(g, matrices, axes, type_.ndim, str(type_.dtype))]


def _resize_matrix(attrs: Attrs, size: int, out: int, side: int) -> np.ndarray:
    """[out, size]: what resizing does along one axis, found by resizing unit vectors."""
    units = np.eye(size).reshape((1, size, size, 1) if side == 0 else (1, size, 1, size))
    scales = attrs["scales"]
    one_axis = attrs.replace(
        size=(out, 1) if side == 0 else (1, out),
        layout="NCHW",
        scales=() if not scales else (scales[0], 1.0) if side == 0 else (1.0, scales[1]),
    )
    return resize2d(units, one_axis).reshape(size, out).T


set_gradient("image.resize2d", _resize2d_gradient)
