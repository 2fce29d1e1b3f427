"""Gradients of operators that move elements: what was moved moves back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tilewright.relay.ir.expr import Call, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.ir.type import TupleType
from tilewright.relay.op import nn, reduce, tensor, transform
from tilewright.relay.op.gather import one_hot
from tilewright.relay.op.gradients.common import number, reshape_like, shape_of, tensor_type
from tilewright.relay.op.scatter import scatter_add, scatter_nd
from tilewright.topi.shapes import slice_bounds

for _name in ("reshape", "squeeze", "expand_dims", "nn.batch_flatten"):
    set_gradient(_name, lambda call, g: [reshape_like(g, call.args[0])])


def _transpose_gradient(call: Call, g: Expr) -> list[Expr | None]:
    ndim = len(shape_of(call.args[0]))
    axes = [axis % ndim for axis in call.attrs["axes"] or tuple(reversed(range(ndim)))]
    return [transform.transpose(g, [axes.index(d) for d in range(ndim)]) if ndim else g]


def _layout_gradient(call: Call, g: Expr) -> list[Expr | None]:
    return [transform.layout_transform(g, call.attrs["dst_layout"], call.attrs["src_layout"])]


set_gradient("transpose", _transpose_gradient)
set_gradient("layout_transform", _layout_gradient)
set_gradient("reverse", lambda call, g: [transform.reverse(g, call.attrs["axis"])])
set_gradient(
    "nn.depth_to_space",
    lambda call, g: [
        _to_depth(g, call) if call.attrs["mode"] == "CRD" else nn.space_to_depth(g, call.attrs["block_size"])
    ],
)
set_gradient("nn.space_to_depth", lambda call, g: [nn.depth_to_space(g, call.attrs["block_size"])])


def _to_depth(g: Expr, call: Call) -> Expr:
    """The inverse of `depth_to_space` in CRD mode, where the channel is (depth, row, column)."""
    n, c, h, w = shape_of(call.args[0])
    b = call.attrs["block_size"]
    parts = transform.reshape(g, (n, c // (b * b), h, b, w, b))
    return transform.reshape(transform.transpose(parts, (0, 1, 3, 5, 2, 4)), (n, c, h, w))


# ----------------------------------------------------------------------------------------------- joins and cuts
def _parts(call: Call) -> list[Expr]:
    data = call.args[0]
    if isinstance(data, Tuple):
        return list(data.fields)
    kind = data.checked_type
    assert isinstance(kind, TupleType)
    fields: list[Expr] = [TupleGetItem(data, i) for i in range(len(kind.fields))]
    for item, type_ in zip(fields, kind.fields, strict=True):
        item.set_inferred_type(type_)
    return fields


def _concatenate_gradient(call: Call, g: Expr) -> list[Expr | None]:
    axis = call.attrs["axis"]
    sizes = [shape_of(part)[axis] for part in _parts(call)]
    edges = np.cumsum([0, *sizes]).tolist()
    return [Tuple([_cut(g, axis, first, last) for first, last in pairwise(edges)])]


def _cut(g: Expr, axis: int, first: int, last: int) -> Expr:
    return transform.strided_slice(g, begin=(first,), end=(last,), axes=(axis,))


def _stack_gradient(call: Call, g: Expr) -> list[Expr | None]:
    parts = _parts(call)
    axis = call.attrs["axis"]
    return [Tuple([reshape_like(_cut(g, axis, i, i + 1), part) for i, part in enumerate(parts)])]


set_gradient("concatenate", _concatenate_gradient)
set_gradient("stack", _stack_gradient)
set_gradient("split", lambda call, g: [transform.concatenate(g, call.attrs["axis"])])


def _strided_slice_gradient(call: Call, g: Expr) -> list[Expr | None]:
    shape = shape_of(call.args[0])
    attrs = call.attrs
    bounds = slice_bounds(shape, attrs["begin"], attrs["end"], attrs["strides"], attrs["axes"])
    if any(count == 0 for _, _, count in bounds):
        return [tensor.zeros_like(call.args[0])]
    for axis, (_, step, _) in enumerate(bounds):
        g = transform.reverse(g, axis) if step < 0 else g
    firsts = [first if step > 0 else first + step * (count - 1) for first, step, count in bounds]
    steps = [step if step > 0 else -step for _, step, _ in bounds]
    if any(step > 1 for step in steps):
        g = nn.dilate(g, steps)
    spans = [(count - 1) * step + 1 for step, (_, _, count) in zip(steps, bounds)]
    widths = [(first, size - first - span) for first, size, span in zip(firsts, shape, spans)]
    return [nn.pad(g, widths) if any(any(w) for w in widths) else g]


def _dilate_gradient(call: Call, g: Expr) -> list[Expr | None]:
    shape = shape_of(call.args[0])
    ends = list(shape_of(call))
    return [transform.strided_slice(g, [0] * len(shape), ends, call.attrs["strides"])]


def _pad_gradient(call: Call, g: Expr) -> list[Expr | None]:
    shape, widths = shape_of(call.args[0]), call.attrs["pad_width"]
    if call.attrs["pad_mode"] == "constant":
        return [
            _uncrop(
                transform.strided_slice(
                    g,
                    [max(before, 0) for before, _ in widths],
                    [
                        before + size if after > 0 else before + size + after
                        for size, (before, after) in zip(shape, widths)
                    ],
                ),
                widths,
            )
        ]
    for axis, (before, after) in enumerate(widths):
        g = _fold(g, axis, (before, shape[axis], after), len(shape), call.attrs["pad_mode"])
    return [g]


def _uncrop(g: Expr, widths: Sequence[Sequence[int]]) -> Expr:
    """Zeros where a negative padding had cut the data."""
    cut = [(max(-before, 0), max(-after, 0)) for before, after in widths]
    return nn.pad(g, cut) if any(any(pair) for pair in cut) else g


def _fold(g: Expr, axis: int, sizes: tuple[int, int, int], ndim: int, mode: str) -> Expr:
    """The gradients of the border along `axis` added to those of the elements that the border repeats.

    `sizes` are the elements before, within and after along the axis.
    """
    before, size, after = sizes
    total = _cut(g, axis, before, before + size)
    for start, width, front in ((0, before, True), (before + size, after, False)):
        if not width:
            continue
        border = _cut(g, axis, start, start + width)
        if mode == "edge":
            border, width, gap = reduce.sum(border, axis=axis, keepdims=True), 1, 0
        else:
            border, gap = transform.reverse(border, axis), 1
        rest = size - width - gap
        pads = (gap, rest) if front else (rest, gap)
        total = total + nn.pad(border, [pads if d == axis else (0, 0) for d in range(ndim)])
    return total


set_gradient("strided_slice", _strided_slice_gradient)
set_gradient("nn.pad", _pad_gradient)
set_gradient("nn.dilate", _dilate_gradient)


# ---------------------------------------------------------------------------------------------------- repetition
def _tile_gradient(call: Call, g: Expr) -> list[Expr | None]:
    shape, reps = shape_of(call.args[0]), call.attrs["reps"]
    rank = max(len(shape), len(reps))
    sizes = [*[1] * (rank - len(shape)), *shape]
    times = [*[1] * (rank - len(reps)), *reps]
    split = transform.reshape(g, [size for pair in zip(times, sizes) for size in pair])
    return [transform.reshape(reduce.sum(split, axis=tuple(range(0, 2 * rank, 2))), shape)]


def _repeat_gradient(call: Call, g: Expr) -> list[Expr | None]:
    shape, repeats = shape_of(call.args[0]), call.attrs["repeats"]
    at = call.attrs["axis"] % len(shape)
    split = transform.reshape(g, (*shape[: at + 1], repeats, *shape[at + 1 :]))
    return [reduce.sum(split, axis=at + 1)]


set_gradient("tile", _tile_gradient)
set_gradient("repeat", _repeat_gradient)


# ------------------------------------------------------------------------------------------------ picks by index
def _valid(indices: Expr, size: int, mode: str) -> Expr:
    """Indices as `take` reads them in this mode."""
    limit = number(size, indices)
    if mode == "wrap":
        return tensor.floor_mod(indices, limit)
    if mode == "fast":
        return indices
    if mode == "from_back":
        indices = tensor.where(tensor.less(indices, number(0, indices)), indices + limit, indices)
    return tensor.clip(indices, 0, size - 1)


def _take_gradient(call: Call, g: Expr) -> list[Expr | None]:
    data, indices = call.args
    shape, axis = shape_of(data), call.attrs["axis"]
    if axis is None:
        flat = tensor.zeros((int(np.prod(shape)),), str(tensor_type(data).dtype))
        index = transform.expand_dims(_valid(indices, int(np.prod(shape)), call.attrs["mode"]), 0)
        return [transform.reshape(scatter_nd(flat, index, g, "add"), shape), None]
    at, rank = axis % len(shape), len(shape_of(indices))
    first = [*range(at, at + rank), *range(at), *range(at + rank, rank + len(shape) - 1)]
    index = transform.expand_dims(_valid(indices, shape[at], call.attrs["mode"]), 0)
    rows = transform.transpose(g, first) if at else g
    zeros = tensor.zeros((shape[at], *shape[:at], *shape[at + 1 :]), str(tensor_type(data).dtype))
    total = scatter_nd(zeros, index, rows, "add")
    back = [*range(1, at + 1), 0, *range(at + 1, len(shape))]
    return [transform.transpose(total, back) if at else total, None]


def _gather_gradient(call: Call, g: Expr) -> list[Expr | None]:
    data, indices = call.args
    axis = call.attrs["axis"]
    index = _valid(indices, shape_of(data)[axis], "from_back")
    return [scatter_add(tensor.zeros_like(data), index, g, axis), None]


def _gather_nd_gradient(call: Call, g: Expr) -> list[Expr | None]:
    data, indices = call.args
    shape, batch = shape_of(data), call.attrs["batch_dims"]
    depth, *many = shape_of(indices)
    rows = [
        _valid(transform.reshape(_cut(indices, 0, d, d + 1), (1, *many)), shape[batch + d], "from_back")
        for d in range(depth)
    ]
    own = [
        transform.broadcast_to(
            transform.reshape(
                tensor.arange(many[d], dtype=str(tensor_type(indices).dtype)),
                [1, *[many[d] if e == d else 1 for e in range(len(many))]],
            ),
            (1, *many),
        )
        for d in range(batch)
    ]
    return [scatter_nd(tensor.zeros_like(data), transform.concatenate([*own, *rows], 0), g, "add"), None]


def _one_hot_gradient(call: Call, g: Expr) -> list[Expr | None]:
    dtype = str(tensor_type(call).dtype)
    hot = one_hot(call.args[0], 1, 0, call.attrs["depth"], call.attrs["axis"], dtype)
    return [None, reduce.sum(g * hot), reduce.sum(g - g * hot)]


set_gradient("take", _take_gradient)
set_gradient("gather", _gather_gradient)
set_gradient("gather_nd", _gather_nd_gradient)
set_gradient("one_hot", _one_hot_gradient)
