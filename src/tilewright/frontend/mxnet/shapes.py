"""Operators that move elements: shapes, slices, joins, gathering."""

from __future__ import annotations

from tilewright.frontend import idioms
from tilewright.frontend.builders.elements import padded, python_slice, reversed_axes, split_axis
from tilewright.frontend.mxnet.node import MxnetNode, converts
from tilewright.frontend.signature import Axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("Reshape", "reshape")
def convert_reshape(node: MxnetNode, reverse: bool = False) -> Expr:
    """With the codes 0 and -1 to -4."""
    target = tuple(node.numbers("shape", []) or node.numbers("target_shape", []))
    if not target:
        node.bad("it states no shape")
    if reverse:
        return op.contrib_reverse_reshape(node[0], newshape=target)
    return op.reshape(node[0], newshape=target)


@converts("reshape_like")
def convert_reshape_like(node: MxnetNode) -> Expr:
    if any(node.attr(name) is not None for name in ("lhs_begin", "lhs_end", "rhs_begin", "rhs_end")):
        node.unsupported("parts of a shape are not supported")
    return idioms.reshape(node[0], node.shape(1))


@converts("transpose")
def convert_transpose(node: MxnetNode) -> Expr:
    order = node.numbers("axes", []) or list(range(node.rank()))[::-1]
    return idioms.transpose(node[0], [node.axis(axis) for axis in order])


@converts("SwapAxis", "swapaxes")
def convert_swap(x: Expr, dim1: Axis = 0, dim2: Axis = 0) -> Expr:
    return idioms.swap_axes(x, dim1, dim2)


@converts("expand_dims")
def convert_expand_dims(node: MxnetNode, x: Expr, axis: int) -> Expr:
    return idioms.with_axes(x, [node.axis(axis, node.rank() + 1)])


@converts("squeeze")
def convert_squeeze(node: MxnetNode) -> Expr:
    return idioms.without_axes(node[0], node.axes() if node.attr("axis") not in (None, ()) else ())


@converts("Concat", "concat")
def convert_concat(node: MxnetNode, dim: Axis = 1) -> Expr:
    return idioms.concatenate(node.given(), dim)


@converts("stack")
def convert_stack(node: MxnetNode, axis: int = 0) -> Expr:
    return op.stack(node.given(), axis=node.axis(axis, node.rank() + 1))


@converts("SliceChannel", "split")
def convert_split(node: MxnetNode, num_outputs: int, axis: Axis = 1, squeeze_axis: bool = False) -> list[Expr]:
    """Parts of one size, whose axis is removed on request."""
    parts = split_axis(node, node[0], axis, num_outputs)
    return [op.squeeze(part, axis=(axis,)) for part in parts] if squeeze_axis else parts


@converts("slice", "crop")
def convert_slice(node: MxnetNode) -> Expr:
    """As Python slices; None leaves a bound out."""
    x = node[0]
    begin, end = node.needed("begin"), node.needed("end")
    step = node.attr("step", ()) or (None,) * len(begin)
    for axis, (low, high, stride) in enumerate(zip(begin, end, step, strict=True)):
        x = python_slice(x, axis, low, high, stride or 1)
    return x


@converts("slice_axis")
def convert_slice_axis(node: MxnetNode, x: Expr, axis: Axis, begin: int = 0) -> Expr:
    end = node.attr("end")
    return python_slice(x, axis, begin, None if end is None else int(end), 1)


@converts("slice_like")
def convert_slice_like(node: MxnetNode) -> Expr:
    axes = node.numbers("axes", []) or list(range(min(node.rank(0), node.rank(1))))
    x = node[0]
    for axis in axes:
        position = node.axis(axis)
        x = idioms.slice_axis(x, position, 0, node.shape(1)[position])
    return x


@converts("Crop")
def convert_crop(node: MxnetNode, center_crop: bool = False) -> Expr:
    """As large as the second input or `h_w`, from an offset or in the middle."""
    size = node.shape(1)[2:] if node.has(1) else node.numbers("h_w")
    offsets = node.numbers("offset", [0, 0])
    x = node[0]
    for axis, (extent, offset) in enumerate(zip(size, offsets, strict=True), 2):
        whole = node.fixed()[axis]
        begin = (whole - extent) // 2 if center_crop else offset
        if begin < 0 or begin + extent > whole:
            node.bad(f"{extent} elements from {begin} on of {whole}")
        x = idioms.slice_axis(x, axis, begin, begin + extent)
    return x


@converts("repeat")
def convert_repeat(node: MxnetNode) -> Expr:
    x, axis = idioms.along_axis(node[0], node.attr("axis"))
    return op.repeat(x, repeats=int(node.needed("repeats")), axis=axis)


@converts("Pad", "pad")
def convert_pad(node: MxnetNode, mode: str, constant_value: float = 0.0) -> Expr:
    width = node.numbers("pad_width")
    pairs = tuple(zip(width[::2], width[1::2]))
    if len(pairs) != node.rank() or min(width) < 0:
        node.bad(f"pad_width={width} of {node.rank()} axes")
    return padded(node, node[0], pairs, mode, constant_value)


@converts("broadcast_to")
def convert_broadcast_to(node: MxnetNode) -> Expr:
    """0 keeps an extent."""
    target = node.numbers("shape")
    return idioms.broadcast_to(
        node[0], [have if want == 0 else want for want, have in zip(target, node.shape(), strict=True)]
    )


@converts("broadcast_axis", "broadcast_axes")
def convert_broadcast_axis(node: MxnetNode) -> Expr:
    shape = list(node.shape())
    for axis, size in zip(node.numbers("axis"), node.numbers("size"), strict=True):
        shape[node.axis(axis)] = size
    return idioms.broadcast_to(node[0], shape)


@converts("broadcast_like")
def convert_broadcast_like(node: MxnetNode) -> Expr:
    if node.attr("lhs_axes") is not None:
        node.unsupported("parts of a shape are not supported")
    return idioms.broadcast_to(node[0], node.shape(1))


@converts("take")
def convert_take(node: MxnetNode, x: Expr, indices: Expr, mode: str = "clip", axis: Axis = 0) -> Expr:
    if mode not in ("clip", "wrap"):
        node.unsupported(f"mode={mode} is not supported")
    return op.take(x, idioms.cast(indices, "int32"), axis=axis, mode=mode)


@converts("pick")
def convert_pick(node: MxnetNode, x: Expr, updates: Expr, axis: Axis = -1, keepdims: bool = False) -> Expr:
    """One element along an axis for each position of the others."""
    indices = idioms.cast(updates, "int32")
    if idioms.rank_of(indices) < node.rank():
        indices = idioms.with_axes(indices, [axis])
    made = op.gather(x, axis=axis, indices=indices)
    return made if keepdims else op.squeeze(made, axis=(axis,))


@converts("one_hot")
def convert_one_hot(node: MxnetNode, x: Expr, depth: int, dtype: str = "float32") -> Expr:
    if not 0 < depth < 1 << 24:
        node.bad(f"depth={depth}")
    on, off = (
        idioms.constant(float(node.attr(name, usual)), dtype) for name, usual in (("on_value", 1.0), ("off_value", 0.0))
    )
    return op.one_hot(idioms.cast(x, "int32"), on, off, depth=depth, axis=-1, dtype=dtype)


converts.functions({
    "shape_array": lambda node: idioms.constant(node.fixed(), "int64"),
    # coordinates along the first axis of the indices
    "gather_nd": lambda node: op.gather_nd(node[0], idioms.cast(node[1], "int32")),
    "tile": lambda node: op.tile(node[0], reps=tuple(node.numbers("reps"))),
    **dict.fromkeys(("Flatten", "flatten"), lambda node: idioms.flatten(node[0])),
    **dict.fromkeys(("reverse", "flip"), lambda node: reversed_axes(node[0], node.axes())),
})  # fmt: skip
