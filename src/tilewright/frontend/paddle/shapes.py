"""Operators that move elements: shapes, slices, joins, gathering."""

from __future__ import annotations

from tilewright.frontend import idioms
from tilewright.frontend.builders import elements
from tilewright.frontend.paddle.math import dtype_named
from tilewright.frontend.paddle.node import PaddleNode, converts
from tilewright.frontend.signature import Axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("transpose")
def convert_transpose(node: PaddleNode) -> Expr:
    order = node.attrs.get("perm", node.attrs.get("axis"))
    if order is None:
        node.bad("its attribute perm is missing")
    return idioms.transpose(node[0], [node.axis(int(axis)) for axis in order])


@converts("flatten")
def convert_flatten(node: PaddleNode, start_axis: Axis = 1, stop_axis: Axis = -1) -> Expr:
    shape = node.shape()
    if not shape:
        return idioms.reshape(node[0], (1,))
    return idioms.reshape(
        node[0], (*shape[:start_axis], idioms.product(shape[start_axis : stop_axis + 1]), *shape[stop_axis + 1 :])
    )


@converts("squeeze", "squeeze_")
def convert_squeeze(node: PaddleNode) -> Expr:
    name = "axes" if "axes" in node.attrs else "axis"
    axes = [node.axis(axis) for axis in node.numbers(1, name, [])] or list(range(node.rank()))
    gone = [axis for axis in axes if isinstance(node.shape()[axis], int) and node.shape()[axis] == 1]
    return op.squeeze(node[0], axis=gone) if gone else node[0]


@converts("unsqueeze", "unsqueeze_")
def convert_unsqueeze(node: PaddleNode) -> Expr:
    """One axis after another, each counted with those before."""
    shape = list(node.shape())
    for axis in node.numbers(1, "axes" if "axes" in node.attrs else "axis", []):
        shape.insert(axis + len(shape) + 1 if axis < 0 else axis, 1)
    return idioms.reshape(node[0], shape)


@converts("concat")
def convert_concat(node: PaddleNode) -> Expr:
    values = node.listed()
    return idioms.concatenate(values, node.axis(int(node.number(1, "axis", 0)), idioms.rank_of(values[0])))


@converts("stack")
def convert_stack(node: PaddleNode, axis: int = 0) -> Expr:
    values = node.listed()
    return op.stack(values, axis=node.axis(axis, idioms.rank_of(values[0]) + 1))


@converts("split", "split_with_num")
def convert_split(node: PaddleNode) -> list[Expr]:
    """Parts of the sizes given, one of which may be -1, or of one size."""
    x = node[0]
    sections: list[int] = []
    if node.operator == "split" and ((node.has(1) and "num" not in node.attrs) or node.attrs.get("sections")):
        sections = node.numbers(1, "sections")
        axis = node.axis(int(node.number(2, "axis", 0)))
    else:
        axis = node.axis(int(node.number(1, "axis", 0)))
    return elements.split_axis(node, x, axis, sections or int(node.attrs.get("num") or node.count))


@converts("unbind", "unstack")
def convert_unbind(node: PaddleNode, axis: Axis = 0) -> list[Expr]:
    return [idioms.index_axis(node[0], axis, position) for position in range(node.fixed()[axis])]


@converts("slice", "strided_slice")
def convert_slice(node: PaddleNode) -> Expr:
    """Of some axes, of which those in `decrease_axis` are taken away."""
    x = node[0]
    axes = [node.axis(int(axis)) for axis in node.attr("axes", [])]
    strides = node.numbers(3, "strides") if node.operator == "strided_slice" else [1] * len(axes)
    for axis, *bounds in zip(axes, node.numbers(1, "starts"), node.numbers(2, "ends"), strides, strict=True):
        x = elements.python_slice(x, axis, *bounds)
    gone = tuple(int(axis) for axis in node.attrs.get("decrease_axis") or [])
    return op.squeeze(x, axis=gone) if gone else x


@converts("expand")
def convert_expand(node: PaddleNode) -> Expr:
    """-1 keeps an extent."""
    target, shape = node.numbers(1, "shape"), node.shape()
    new = len(target) - len(shape)
    if new < 0:
        node.bad(f"shape {target} of {list(map(str, shape))}")
    return idioms.broadcast_to(
        node[0], [shape[position - new] if extent == -1 else extent for position, extent in enumerate(target)]
    )


converts.functions({
    **dict.fromkeys(("reshape", "reshape_"), lambda node: elements.reshaped(node, node[0], node.numbers(1, "shape"))),
    "flatten_from": lambda node: idioms.as_matrix(node[0], int(node.attrs.get("axis", 1))),
    "flip": lambda node: elements.reversed_axes(node[0], map(node.axis, map(int, node.attrs.get("axis") or []))),
    "meshgrid": lambda node: elements.meshgrid([idioms.as_vector(value) for value in node.listed()]),
    "tile": lambda node: op.tile(node[0], reps=tuple(node.numbers(1, "repeat_times"))),
    **dict.fromkeys(("expand_as", "expand_as_v2"), lambda node: idioms.broadcast_to(
        node[0], node.shape(1) if node.has(1) else node.attr("target_shape"))),
    **dict.fromkeys(("nonzero", "where_index"), lambda node: idioms.cast(op.argwhere(node[0]), "int64")),
    # zeros, as any numbers would do
    "empty": lambda node: idioms.broadcast_to(idioms.constant(0, dtype_named(node)), node.numbers(0, "shape")),
    # elements by all their coordinates, the last axis of the indices
    "gather_nd": lambda node: elements.gather_nd(node[0], idioms.cast(node[1], "int32")),
})  # fmt: skip


@converts("gather", "index_select")
def convert_gather(node: PaddleNode) -> Expr:
    name = "dim" if "dim" in node.attrs else "axis"
    axis = node.axis(int(node.number(2, name, 0)))
    return op.take(node[0], elements.from_front(node[1], node.shape()[axis]), axis=axis)


@converts("take_along_axis")
def convert_take_along_axis(node: PaddleNode) -> Expr:
    axis = node.axis(int(node.attrs.get("axis", node.attrs.get("Axis", 0))))
    return op.gather(node[0], axis=axis, indices=elements.from_front(node[1], node.shape()[axis]))


@converts("one_hot")
def convert_one_hot(node: PaddleNode) -> Expr:
    depth = int(node.number(1, "depth" if "depth" in node.attrs else "num_classes"))
    if not 0 < depth < 1 << 24:
        node.bad(f"{depth} classes")
    return idioms.one_hot(idioms.cast(node[0], "int32"), depth)


@converts("tril", "triu", "tril_triu")
def convert_triangle(node: PaddleNode) -> Expr:
    """One triangle of the last two axes."""
    lower = node.operator == "tril" or (node.operator == "tril_triu" and node.attrs.get("lower", True))
    diagonal = int(node.attrs.get("diagonal", 0))
    return elements.diagonals(node[0], None if lower else diagonal, diagonal if lower else None)


@converts("roll")
def convert_roll(node: PaddleNode) -> Expr:
    x, shifts = node[0], node.numbers(1, "shifts")
    axes = [int(axis) for axis in node.attrs.get("axis") or []]
    if not axes:
        node.unsupported("a roll over all elements is not supported")
    for axis, shift in zip(axes, shifts, strict=True):
        x = elements.rolled(x, shift, node.axis(axis))
    return x


@converts("pad", "pad3d", "old_pad2d")
def convert_pad(node: PaddleNode) -> Expr:
    """Of all axes in order (pad), or of the spatial ones from the last on."""
    x, mode = node[0], str(node.attrs.get("mode", "constant"))
    plain = node.operator == "pad"  # whose second input is the value
    given = node.numbers(9 if plain else 1, "paddings")
    value = float(node.number(1 if plain else 9, "pad_value", node.attrs.get("value", 0.0)))
    if plain:
        pairs = list(zip(given[::2], given[1::2]))
    elif node.operator == "old_pad2d":
        pairs = [(0, 0), (0, 0), (given[0], given[1]), (given[2], given[3])]
    else:
        spatial = list(zip(given[::2], given[1::2]))[::-1]
        last = str(node.attrs.get("data_format", "NCDHW")).endswith("C")
        pairs = [(0, 0), *spatial, (0, 0)] if last else [(0, 0), (0, 0), *spatial]
    if len(pairs) != idioms.rank_of(x) or min(given, default=0) < 0:
        node.unsupported(f"paddings={given} of {idioms.rank_of(x)} axes are not supported")
    return elements.padded(node, x, pairs, mode, value)
